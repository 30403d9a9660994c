"""A page for a screen on the wall: what is wrong now, in letters that are read from afar, with nothing to press.

A screen has nobody who signs in. It is let in by a key of scope `wall`, which stands in the link that it is opened with
once and then in a cookie of its own: for one environment, for reading, until the key expires or is revoked.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from events import queries
from events.capacity.asking import events_going_on
from events.keys import KeyBusy, KeyRefused, KeyStoreAway, authenticate
from events.models import AgentKey
from events.pages.rendering import render_page
from events.pages.window import Window
from events.queries.overview import USUAL
from recovery_ops.control.core.environment import origin_of
from recovery_ops.control.core.production import is_production
from recovery_ops.control.core.responses import see_other
from recovery_ops.control.dashboard.due import called_in, due_in, head_in
from recovery_ops.control.dashboard.headlines import calm_headline, escalations_headline
from recovery_ops.control.dashboard.views.needs_attention import items_now
from recovery_ops.control.dashboard.views.tiles import tiles
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.escalations.selectors import queue

MOST = 4
WALL = "wall"
"""The scope of a key that opens this page and nothing else."""
COOKIE = "recovery-wall"
POLL_S = 5
_KEPT = timedelta(days=400)
"""As long as browsers keep a cookie at most."""


def wallboard(
    request: HttpRequest, *, environment: str, refresh_url: str = "", poll_s: int | None = None
) -> HttpResponse:
    """The figures of the overview and its worst items. Silence of everybody is said as such."""
    now = timezone.now()
    numbers = queries.overview_numbers(environment, now=now)
    outages = events_going_on(environment, now=now)
    waiting = queue.rows_of(environment, "open", by=None, now=now)
    window = Window(start=now - USUAL, end=now, name="6h")
    due = due_in(environment, now=now, since=window.start)
    standing = Standing(environment, now=now, head=head_in(due))
    items = items_now(
        numbers,
        standing,
        escalations=waiting,
        outages=outages,
        due=due,
        called=called_in(due, environment, now),
        most=MOST,
    )
    headline = queries.sentence(environment, now, numbers=numbers, outages=outages)
    context = {
        "now": now,
        "environment": environment,
        "is_production": is_production(environment),
        "refresh_url": refresh_url or reverse("wallboard"),
        "poll_s": poll_s,
        "sentence": f"{headline}{escalations_headline(waiting, now)}",
        "tiles": tiles(
            numbers,
            escalations=waiting,
            due=due,
            window=window,
            now=now,
        ),
        "items": items,
        "calm": calm_headline(numbers),
        "is_known": bool(numbers.agents),
    }
    return render_page(request, "dashboard/wallboard", context)


@require_safe
def wall_link(request: HttpRequest, *, token: str) -> HttpResponse:
    """Sign in a wall screen and redirect it to a URL without the token: address bars get photographed."""
    key = _key_of(token, origin_of(request)["ip"])
    if isinstance(key, KeyRefused):
        return _closed(request, key)
    answer = see_other(reverse("wall"))
    until = key.expires_at or timezone.now() + _KEPT
    answer.set_cookie(
        COOKIE, token, expires=until, path=reverse("wall"), secure=settings.TLS, httponly=True, samesite="Lax"
    )
    return _private(answer)


@require_safe
def wall(request: HttpRequest) -> HttpResponse:
    """The wallboard of the environment of the screen's key. 401 where it has none, or one that is over."""
    key = _key_of(request.COOKIES.get(COOKIE, ""), origin_of(request)["ip"])
    if isinstance(key, KeyRefused):
        return _closed(request, key)
    return _private(wallboard(request, environment=key.environment, refresh_url=reverse("wall"), poll_s=POLL_S))


def _key_of(token: str, address: str) -> AgentKey | KeyRefused:
    try:
        return authenticate(f"Bearer {token}" if token else None, WALL, address)
    except KeyStoreAway:
        return KeyRefused(503, "The link cannot be checked at the moment. Try again in a few seconds.")
    except KeyRefused as refusal:
        return refusal


def _closed(request: HttpRequest, refusal: KeyRefused) -> HttpResponse:
    """Why the screen stays dark, in words that lead somewhere; another key is told no more than a wrong one."""
    words = {429: "This screen sends too many requests.", 503: refusal.message}
    text = words.get(
        refusal.status, "This wallboard link is unknown, revoked or expired. An admin can create a new one."
    )
    status = refusal.status if refusal.status in words else 401
    answer = render(request, "dashboard/wall_closed.html", {"text": text}, status=status)
    if isinstance(refusal, KeyBusy):
        answer["Retry-After"] = str(refusal.retry_after_s)
    return _private(answer)


def _private(answer: HttpResponse) -> HttpResponse:
    """No copy is kept, and no other site is told the address."""
    answer["Cache-Control"] = "no-store"
    answer["Referrer-Policy"] = "no-referrer"
    return answer
