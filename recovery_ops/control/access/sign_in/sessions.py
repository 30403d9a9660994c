"""How long somebody stays signed in: until they are idle or it was long enough; and how long a sign-in is fresh.

The bounds are the session's own expiry, said anew once a minute while somebody is there, so whoever reads the session
(also the live stream, which asks each minute) obeys them, and a request costs no query.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import SESSION_KEY, logout
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from events.pages.rendering import DIALOG, fragment_of
from recovery_ops.control.core.client_addresses import UNKNOWN_ADDRESS, client_address

BEGAN, SEEN, FRESH, HAS_FACTOR = "began_at", "seen_at", "fresh_at", "has_second_factor"
NOTED_S = 60.0
"""The last sign of somebody is at most this much behind."""
_VOUCHED = "_vouched_at"
_OPEN_WITHOUT_FACTOR = ("/settings/you", "/sign-out", "/sign-in", "/look", "/static/")

clock: Callable[[], float] = time.time


def began(sender: Any, request: HttpRequest, user: User, **more: Any) -> None:
    """Somebody has signed in: the bounds count from now, the freshness from when they have shown who they are."""
    now = clock()
    request.session[BEGAN] = request.session[SEEN] = now
    request.session[FRESH] = min(now, vouched_at(request, unless_said=now))
    request.session.set_expiry(_left_s(now, now))


def confirmed(sender: Any, request: HttpRequest, method: str, **more: Any) -> None:
    """Somebody has shown again that it is they, or has shown a second factor."""
    if method in ("mfa", "socialaccount"):
        request.session[HAS_FACTOR] = True
    if more.get("reauthenticated"):
        request.session[FRESH] = clock()


def vouch(request: HttpRequest, at: float) -> None:
    """A provider says when somebody has shown it who they are, in seconds since 1970; 0 where it does not say."""
    request.__dict__[_VOUCHED] = at


def vouched_at(request: HttpRequest, *, unless_said: float) -> float:
    """When somebody has shown a provider who they are; `unless_said` where they did not come by one."""
    return float(request.__dict__.get(_VOUCHED, unless_said))


def is_recent(at: float) -> bool:
    """Whether this was so short a time ago that a sign-in then is fresh."""
    return 0.0 <= clock() - at <= settings.FRESH_SIGN_IN_S


def is_fresh(request: HttpRequest) -> bool:
    """Whether somebody has signed in, or confirmed it, a short time ago. Pages, forms and the API ask this alone."""
    return is_recent(float(request.session.get(FRESH, 0.0)))


def sign_in_again(request: HttpRequest) -> HttpResponse | None:
    """The way to confirm who one is, and back to this page; None for whoever has done so a short time ago."""
    if is_fresh(request):
        return None
    return HttpResponseRedirect(f"{reverse('sign-in-again')}?{urlencode({'next': request.get_full_path()})}")


def kept_in_bounds(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: note that somebody is there, and end what has lasted for long enough."""

    def answer(request: HttpRequest) -> HttpResponse:
        if settings.SESSION_COOKIE_NAME in request.COOKIES and SESSION_KEY in request.session:
            _note(request)
            if _lacks_factor(request):
                return _send_to_factor(request)
        return get_response(request)

    return answer


def _note(request: HttpRequest) -> None:
    now, session = clock(), request.session
    first = session.setdefault(BEGAN, now)  # a session from before there were bounds begins now
    if now - first > settings.SESSION_LONGEST_S or now - session.get(SEEN, now) > settings.SESSION_IDLE_S:
        logout(request)
        return
    if _is_refresh(request) or now - session.get(SEEN, 0.0) < NOTED_S:
        return
    session[SEEN] = now
    session.set_expiry(_left_s(now, first))
    known = UserSession.objects.filter(session_key=session.session_key)
    known.update(last_seen_at=timezone.now(), ip=client_address(request) or UNKNOWN_ADDRESS)


def _is_refresh(request: HttpRequest) -> bool:
    """Whether a page asks by itself: nobody need be there. A screen on the wall is meant to be alone."""
    return fragment_of(request) not in ("", DIALOG) and not request.path.startswith("/wallboard")


def _left_s(now: float, first: float) -> int:
    return max(1, int(min(settings.SESSION_IDLE_S, first + settings.SESSION_LONGEST_S - now)))


def _lacks_factor(request: HttpRequest) -> bool:
    if not settings.SECOND_FACTOR_REQUIRED or request.session.get(HAS_FACTOR):
        return False
    return request.session.get(SESSION_KEY) is not None and not request.path.startswith(_OPEN_WITHOUT_FACTOR)


def _send_to_factor(request: HttpRequest) -> HttpResponse:
    if request.path.startswith("/api/"):
        raise PermissionDenied("A second factor is required; add one in Settings, You.")
    return HttpResponseRedirect(reverse("own-sign-in"))
