"""How one signs in oneself: second factors, passkeys, recovery codes, and where one is signed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.mfa.webauthn.views import AddWebAuthnView, RemoveWebAuthnView
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from events.wording import count_text
from recovery_ops.control.access.services.sign_ins import end_sessions, note_factor
from recovery_ops.control.access.sign_in.sessions import HAS_FACTOR, sign_in_again
from recovery_ops.control.access.views.sign_in import UNPROCESSABLE
from recovery_ops.control.core.commands import CommandContext
from recovery_ops.control.core.environment import actor_of, origin_of
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.views.settings import sections, settings_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Somewhere somebody is signed in."""

    number: int
    browser: str
    ip: str
    began_at: datetime
    seen_at: datetime
    is_this: bool


def own_sign_in(request: HttpRequest) -> HttpResponse:
    """Everything by which one signs in, and every place where one is signed in."""
    user = _person(request)
    factors = list(Authenticator.objects.filter(user=user).order_by("created_at"))
    codes = next((one for one in factors if one.type == Authenticator.Type.RECOVERY_CODES), None)
    context = {
        "app": next((one for one in factors if one.type == Authenticator.Type.TOTP), None),
        "keys": [one for one in factors if one.type == Authenticator.Type.WEBAUTHN],
        "codes": codes,
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else 0,
        "by_provider": SocialAccount.objects.filter(user=user).exists(),
        "provider": settings.SINGLE_SIGN_ON.name if settings.SINGLE_SIGN_ON else "",
        "places": places_of(user, request),
        "idle_hours": settings.SESSION_IDLE_S / 3600,
        "longest_hours": settings.SESSION_LONGEST_S / 3600,
        "must_add": settings.SECOND_FACTOR_REQUIRED and not factors,
    }
    return settings_page(request, "access/own_sign_in", context, here="preferences")


def places_of(user: User, request: HttpRequest) -> list[Place]:
    """Where somebody is signed in, this place first. Sessions that are over are forgotten on the way."""
    own = request.session.session_key
    found = [
        Place(
            number=one.pk,
            browser=one.user_agent,
            ip=one.ip,
            began_at=one.created_at,
            seen_at=one.last_seen_at,
            is_this=one.session_key == own,
        )
        for one in UserSession.objects.purge_and_list(user)
    ]
    return sorted(found, key=lambda one: (not one.is_this, -one.seen_at.timestamp()))


@require_POST
def end(request: HttpRequest) -> HttpResponse:
    """End one session of one's own, or all others where the form names none."""
    given = request.POST.get("session", "")
    only = parse_number(given)
    if given and only is None:
        raise Http404("No session is selected.")
    asked = CommandContext(by=actor_of(request), environment=EVERYWHERE, reason="Ended by the owner")
    ended = end_sessions(_person(request), **asked, keep=str(request.session.session_key), only=only).object
    told = f"{count_text(ended, 'session')} ended." if ended else "No other sessions."
    return redirect_with_notice(request, reverse("own-sign-in"), told)


class _Page:
    """A page that may show a secret, so no cache keeps it. A form with errors is answered 422."""

    request: HttpRequest
    title = ""

    @method_decorator(never_cache)
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """django-allauth asks nobody again who comes by a provider and has no means of their own: we do."""
        has_means = bool(get_adapter(request).get_reauthentication_methods(request.user))
        again = None if has_means else sign_in_again(request)
        if again is not None:
            return again
        answer: HttpResponse = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]  # of the view beside it
        return answer

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**more)  # type: ignore[misc]  # of the view beside it
        shared = {"now": timezone.now(), "sections": sections(), "here": "preferences", "title": self.title}
        return context | shared

    def form_invalid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = self.render_to_response(self.get_context_data(form=form))  # type: ignore[attr-defined]
        answer.status_code = UNPROCESSABLE
        return answer

    def noted(self, verb: str, kind: str, act: Callable[[], HttpResponse], words: str) -> HttpResponse:
        """Change a factor and write that down, both or neither; say it on the next page."""
        user = _person(self.request)
        with transaction.atomic():
            answer = act()
            note_factor(verb, user, kind, origin_of(self.request))
        has_factor = Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.RECOVERY_CODES).exists()
        self.request.session[HAS_FACTOR] = has_factor or SocialAccount.objects.filter(user=user).exists()
        messages.success(self.request, words)
        return answer


class AddApp(_Page, ActivateTOTPView):
    """Scan a code with an app, and type what the app shows."""

    template_name = "access/own_app.html"
    title = "Add an authenticator app"

    def form_valid(self, form: Any) -> HttpResponse:
        words = "Authenticator app added; password sign-in requires its code."
        return self.noted("factor_add", "totp", lambda: super(AddApp, self).form_valid(form), words)


class RemoveApp(_Page, DeactivateTOTPView):
    """Sign in without the app's code from now on."""

    template_name = "access/own_factor_remove.html"
    title = "Remove the authenticator app"

    def form_valid(self, form: Any) -> HttpResponse:
        act = lambda: super(RemoveApp, self).form_valid(form)  # noqa: E731  # carried out later
        return self.noted("factor_remove", "totp", act, "Authenticator app removed.")


class Codes(_Page, ViewRecoveryCodesView):
    """The recovery codes, shown once."""

    template_name = "access/own_codes.html"
    title = "Recovery codes"


class NewCodes(_Page, GenerateRecoveryCodesView):
    """New recovery codes; the old ones open nothing any more."""

    template_name = "access/own_codes_new.html"
    title = "New recovery codes"

    def form_valid(self, form: Any) -> HttpResponse:
        act = lambda: super(NewCodes, self).form_valid(form)  # noqa: E731  # carried out later
        return self.noted("factor_codes", "recovery_codes", act, "The old codes are invalid.")


class AddKey(_Page, AddWebAuthnView):
    """Add a security key or a passkey."""

    template_name = "access/own_key.html"
    title = "Add a passkey or security key"

    def form_valid(self, form: Any) -> HttpResponse:
        act = lambda: super(AddKey, self).form_valid(form)  # noqa: E731  # carried out later
        return self.noted("factor_add", "webauthn", act, "Key added.")


class RemoveKey(_Page, RemoveWebAuthnView):
    """Take a key away."""

    template_name = "access/own_factor_remove.html"
    title = "Remove the key"

    def get_success_url(self) -> str:
        return reverse("own-sign-in")

    def form_valid(self, form: Any) -> HttpResponse:
        act = lambda: super(RemoveKey, self).form_valid(form)  # noqa: E731  # carried out later
        return self.noted("factor_remove", "webauthn", act, "Key removed.")


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101  # views are closed to strangers
    return request.user
