"""The door: a name and a password, a passkey, a second factor, or single sign-on; and how the page looks to them."""

from __future__ import annotations

from typing import Any

import requests
from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from allauth.account.views import ReauthenticateView
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as CodeAgainView
from allauth.mfa.webauthn.internal.flows import perform_passwordless_login
from allauth.mfa.webauthn.views import LoginWebAuthnView
from allauth.mfa.webauthn.views import ReauthenticateWebAuthnView as PasskeyAgainView
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from recovery_ops.control.access.account_names import find_account
from recovery_ops.control.access.services.sign_ins import is_break_glass
from recovery_ops.control.access.sign_in import oidc_provider as provider
from recovery_ops.control.access.sign_in.allauth_adapters import not_vouched_page, refusal_page
from recovery_ops.control.access.sign_in.limits import TOO_MANY
from recovery_ops.control.core.preferences import remember
from recovery_ops.control.core.responses import see_other

UNPROCESSABLE, TOO_MANY_REQUESTS = 422, 429
_PROVED = "password"
"""Which password was typed, as a sign-in remembers it between its steps: another one gives another hash."""


class SignInForm(AuthenticationForm):
    """A name and a password; which of the two was wrong is nobody's business."""

    error_messages = {
        "invalid_login": "Name and password do not match. The password is case-sensitive.",
        "inactive": "Name and password do not match. The password is case-sensitive.",
        "not_by_password": "Password sign-in is disabled; use {name}.",
    }

    def clean(self) -> dict[str, Any]:
        """Find out who it is, as long as not too many tries have failed."""
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return self.cleaned_data
        account = find_account(name)
        name = account.get_username() if account else name
        self.user_cache = get_adapter(self.request).authenticate(self.request, username=name, password=password)
        if self.user_cache is None:
            raise self.get_invalid_login_error()
        if not settings.PASSWORD_SIGN_IN and not is_break_glass(self.user_cache):
            usual = settings.SINGLE_SIGN_ON.name if settings.SINGLE_SIGN_ON else "a passkey"
            raise ValidationError(self.error_messages["not_by_password"].format(name=usual), code="not_by_password")
        return self.cleaned_data


def _ways(request: HttpRequest, address: str) -> dict[str, Any]:
    """The other ways in, for the page."""
    known = settings.SINGLE_SIGN_ON
    further = f"?{urlencode({'next': address})}" if address else ""
    return {
        "next": address,
        "single_sign_on": known.name if known else "",
        "single_sign_on_href": reverse("single-sign-on") + further,
    }


def _status_of(form: Any) -> int:
    """The status of a form with errors: 429 above a limit of failed attempts, else 422."""
    codes = {error.code for errors in form.errors.as_data().values() for error in errors}
    return TOO_MANY_REQUESTS if TOO_MANY in codes else UNPROCESSABLE


class SignIn(LoginView):
    """The door. A refused try is 422 or 429 and keeps the name that was typed."""

    template_name = "access/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def form_valid(self, form: Any) -> HttpResponse:
        """Let them in, or ask for the second factor that they have set up."""
        user = form.get_user()
        login = Login(user=user, redirect_url=self.get_success_url(), state={_PROVED: user.get_session_auth_hash()})
        answer: HttpResponse = perform_password_login(self.request, {"username": user.get_username()}, login)
        return answer

    def form_invalid(self, form: Any) -> TemplateResponse:
        return TemplateResponse(
            self.request, self.template_name, self.get_context_data(form=form), status=_status_of(form)
        )

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context = super().get_context_data(**more)
        return context | _ways(self.request, context.get("next", ""))


@method_decorator(login_not_required, name="dispatch")
@method_decorator(never_cache, name="dispatch")
class PasskeySignIn(LoginWebAuthnView):
    """GET tells the browser what to ask the passkey; POST brings what it said."""

    def form_invalid(self, form: Any) -> HttpResponse:
        problem = "The passkey is unknown or the response was too late. Try again, or use your password."
        typed = SignInForm(self.request)
        context = {"form": typed, "problem": problem, **_ways(self.request, self.request.POST.get("next", ""))}
        return TemplateResponse(self.request, "access/sign_in.html", context, status=UNPROCESSABLE)

    def form_valid(self, form: Any) -> HttpResponse:
        authenticator = form.cleaned_data["credential"]
        address = local_address(self.request, self.request.POST.get("next", ""))
        login = Login(user=authenticator.user, redirect_url=address)
        answer: HttpResponse = perform_passwordless_login(self.request, authenticator, login)
        return answer


class SecondFactor(AuthenticateView):
    """A code, or a key, of whoever has typed their password a moment ago."""

    template_name = "access/sign_in_code.html"

    def form_valid(self, form: Any) -> HttpResponse:
        """Let them in, unless the account was locked, or given another password, since they typed theirs."""
        login = self.stage.login
        if not login.user.is_active or login.state.get(_PROVED, now := login.user.get_session_auth_hash()) != now:
            aborted: HttpResponse = self.stage.abort()
            return aborted
        answer: HttpResponse = super().form_valid(form)
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = super().form_invalid(form)
        answer.status_code = _status_of(form)
        return answer


class _Again:
    """Confirm who one is, by one's own means; the others are offered beside it."""

    template_name = "access/sign_in_again.html"
    request: HttpRequest

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**more)  # type: ignore[misc]  # of the view beside it
        address = local_address(self.request, self.request.GET.get("next") or self.request.POST.get("next", ""))
        ways = [one | {"description": _WAYS.get(one["id"], "")} for one in context["reauthentication_alternatives"]]
        return context | {"next": address, "ways": ways}

    def form_invalid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = self.render_to_response(self.get_context_data(form=form))  # type: ignore[attr-defined]
        answer.status_code = _status_of(form)
        return answer


_WAYS = {
    "reauthenticate": "Use your password",
    "mfa_reauthenticate": "Use a code",
    "mfa_reauthenticate:webauthn": "Use a key or passkey",
}


class PasswordAgain(_Again, ReauthenticateView):
    """By password; whoever has no means of their own here goes to the provider again."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not get_adapter(request).get_reauthentication_methods(request.user):
            address = local_address(request, request.GET.get("next", ""))
            context = {"next": address, "ways": [], "only_provider": True, "again": urlencode({"next": address})}
            return TemplateResponse(request, self.template_name, context | _ways(request, address))
        answer: HttpResponse = super().dispatch(request, *args, **kwargs)
        return answer


class CodeAgain(_Again, CodeAgainView):
    """By a code."""


class PasskeyAgain(_Again, PasskeyAgainView):
    """By a key or passkey."""


@login_not_required
@never_cache
@require_GET
def single_sign_on(request: HttpRequest) -> HttpResponse:
    """Off to the provider; `again` asks it to look who is there once more."""
    if settings.SINGLE_SIGN_ON is None:
        raise Http404("Single sign-on is not configured.")
    try:
        return provider.leave(request, is_again="again" in request.GET)
    except requests.RequestException:
        detail = f"{settings.SINGLE_SIGN_ON.name} does not respond. Try again in a minute, or use your password."
        return refusal_page(request, "provider_away", detail, status=503)
    except OAuth2Error as error:
        return not_vouched_page(request, settings.SINGLE_SIGN_ON.name, error)


@login_not_required
@never_cache
@require_GET
def single_sign_on_back(request: HttpRequest) -> HttpResponse:
    """Back from the provider, with a code that is good once."""
    if settings.SINGLE_SIGN_ON is None:
        raise Http404("Single sign-on is not configured.")
    try:
        return provider.arrive(request)
    except (OAuth2Error, requests.RequestException) as error:
        return not_vouched_page(request, settings.SINGLE_SIGN_ON.name, error)


@login_not_required
@require_POST
def look(request: HttpRequest) -> HttpResponse:
    """Remember how the console is to look, for browsers without script. What is not among the choices is the usual."""
    answer = see_other(local_address(request, request.POST.get("next", "")))
    remember(answer, request.POST.dict())
    return answer


def local_address(request: HttpRequest, address: str) -> str:
    """The address if it leads to this console, else the overview."""
    is_ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if is_ours else "/"
