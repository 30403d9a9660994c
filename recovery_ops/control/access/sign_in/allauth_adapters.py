"""What django-allauth asks us: how our people are called, how secrets are kept, who may come from the provider."""

from __future__ import annotations

import base64
import logging
from typing import Any, NoReturn

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from recovery_ops.control.access.account_names import normal_name
from recovery_ops.control.access.services import sign_ins
from recovery_ops.control.access.sign_in.limits import count_attempt
from recovery_ops.control.access.sign_in.oidc_provider import Exchange, is_confirming
from recovery_ops.control.access.sign_in.sessions import is_fresh, is_recent, vouched_at
from recovery_ops.control.core.client_addresses import UNKNOWN_ADDRESS, client_address
from recovery_ops.control.core.environment import origin_of
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.server.oidc_environment import Provider

logger = logging.getLogger(__name__)

_STALE = "Sign out there and try again, or confirm with a passkey. Your session here continues."


class AccountAdapter(DefaultAccountAdapter):
    """Nobody signs up by themselves; admins, the server's own commands and the provider's groups make accounts."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "too_many_login_attempts": "Too many failed sign-ins; try again in five minutes.",
        "rate_limited": "Too many attempts; try again in a few minutes.",
        "incorrect_password": "The password is wrong. It is case-sensitive.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """As uvicorn found it; which proxy it believes is FORWARDED_ALLOW_IPS."""
        return client_address(request) or UNKNOWN_ADDRESS

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        return not is_fresh(self.request)

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Our own pages say what was done."""

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the attempt for its address and its account; record the first one that is rejected."""
        try:
            attempt = count_attempt(request)
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            sign_ins.note_lock_out(str(credentials.get("username", "")), origin_of(request))
            raise
        self._login_failed_rl_usage.usage += attempt.usage  # a correct password takes both back

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """One count per account, whatever the Host header and the spelling of the name."""
        return normal_name(str(credentials.get("username", "")))

    def respond_user_inactive(self, request: HttpRequest, user: AbstractBaseUser) -> HttpResponse:
        detail = "The account is disabled. An admin of all environments can enable it."
        return refusal_page(request, "locked", detail)


class SecondFactorAdapter(DefaultMFAAdapter):
    """Secrets of second factors are encrypted with a key made from the console's own."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "The code is wrong, used or expired; use the next one.",
    }

    def encrypt(self, text: str) -> str:
        return _box().encrypt(text.encode()).decode("ascii")

    def decrypt(self, encrypted_text: str) -> str:
        return _box().decrypt(encrypted_text.encode("ascii")).decode()

    def get_totp_label(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def _get_user_identifier(self, user: AbstractBaseUser) -> str:
        return user.get_username()

    def _get_site_name(self) -> str:
        return "Recovery Ops"


class ProviderAdapter(DefaultSocialAccountAdapter):
    """The one provider of the settings: its people are known by its own number for them, and hold what groups say."""

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        known: Provider | None = settings.SINGLE_SIGN_ON
        if known is None or provider not in (None, "openid_connect", known.id):
            return []
        app = SocialApp(
            provider="openid_connect",
            provider_id=known.id,
            name=known.name,
            client_id=known.client_id,
            secret=known.client_secret,
            settings={"server_url": known.issuer, "oauth_pkce_enabled": True, "scope": list(known.scopes)},
        )
        return [app]

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> Any:
        found = super().get_provider(request, provider, client_id=client_id)
        found.oauth2_adapter_class = Exchange
        return found

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Make the account where there is none, and give it exactly the roles that its groups stand for."""
        known: Provider | None = settings.SINGLE_SIGN_ON
        claims = sociallogin.account.extra_data
        if known is None:
            _turn_away(request, "no_provider", "Single sign-on is not configured.")
        if is_confirming(request) and not is_recent(vouched_at(request, unless_said=0.0)):
            detail = f"{known.name} did not authenticate you again; a fresh sign-in is required. {_STALE}"
            _turn_away(request, "not_fresh", detail)
        held = known.roles_of(claims.get("groups"))
        try:
            user = sign_ins.come_from_provider(
                sociallogin.user if sociallogin.is_existing else None,
                name=str(claims.get("name", "")),
                email=str(claims.get("email", "")),
                held=held,
                provider=known.name,
                origin=origin_of(request),
            )
        except CommandRejected as rejection:
            _turn_away(request, rejection.code, rejection.detail)
        if sociallogin.is_existing:
            sociallogin.user = user
        else:
            sociallogin.connect(request, user)

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: str = "", exception: Exception | None = None, **more: Any
    ) -> None:
        if error == AuthError.CANCELLED:
            return
        raise ImmediateHttpResponse(not_vouched_page(request, provider.name, exception or error))


def not_vouched_page(request: HttpRequest, name: str, error: object) -> HttpResponse:
    """The rejection of a sign-in by the provider; the reason is logged."""
    logger.warning("single sign-on did not let somebody in: %r", error)
    detail = f"{name} did not authenticate you. Try again; the server log has the reason."
    return refusal_page(request, "not_vouched_for", detail)


def refusal_page(request: HttpRequest, code: str, detail: str, *, status: int = 403) -> HttpResponse:
    """Why somebody cannot come in, as a word for programs and a sentence, and the way back to the door."""
    context = {"code": code, "detail": detail, "back": reverse("sign-in")}
    return render(request, "access/sign_in_refused.html", context, status=status)


def _turn_away(request: HttpRequest, code: str, detail: str) -> NoReturn:
    raise ImmediateHttpResponse(refusal_page(request, code, detail))


def _box() -> MultiFernet:
    """Opens what any of the console's keys has closed, and closes with the newest."""
    return MultiFernet([_fernet(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _fernet(key: str | bytes) -> Fernet:
    raw = key.encode() if isinstance(key, str) else key
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"recovery-ops second factors").derive(raw)
    return Fernet(base64.urlsafe_b64encode(derived))
