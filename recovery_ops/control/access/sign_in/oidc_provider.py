"""Single sign-on by OpenID Connect: the code flow with PKCE, and an identity that is always checked by its signature.

OpenID Connect Core 1.0: §3.1.2.1 the request, with `max_age`, for then `auth_time` has to be told; §3.1.3.7 what has to
be true of an ID token; §5.3.4 that the answer about a person has to be about the person of the token.
"""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.app_settings import UID_MAX_LENGTH
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.crypto import constant_time_compare, get_random_string

from recovery_ops.control.access.sign_in import sessions
from recovery_ops.control.access.sign_in.oidc_discovery import NEEDED
from recovery_ops.server.oidc_environment import Provider

_KEPT = ("sub", "preferred_username", "email", "name")
_NONCE, _AGAIN = "single_sign_on_nonce", "single_sign_on_again"
_CLOCKS_APART_S = 60.0
"""So much the provider's clock may be before ours."""


class NotVouchedFor(OAuth2Error):
    """Why nobody comes in by what the provider told; `code` is a word for programs."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Exchange(OpenIDConnectOAuth2Adapter):
    """One exchange with the provider."""

    @property
    def openid_config(self) -> dict[str, Any]:
        """The provider's configuration. Raises NotVouchedFor for that of another issuer, and without an endpoint."""
        config: object = super().openid_config
        if not isinstance(config, dict) or str(config.get("issuer", "")).rstrip("/") != _known().issuer:
            raise NotVouchedFor("other_issuer", "the configuration is not that of the issuer in the settings")
        if missing := [name for name in NEEDED if not isinstance(config.get(name), str)]:
            raise NotVouchedFor("no_endpoint", f"the configuration has no {', '.join(missing)}")
        return config

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return settings.PUBLIC_URL + reverse("single-sign-on-back") if _is_public() else _own_address(request)

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **more: Any) -> SocialLogin:
        """Who it is: the ID token by its signature, and what the provider tells beside it of the same person."""
        try:
            claims = self._claims_of(request, app, token, more["response"])
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise NotVouchedFor("unreadable", f"the answer cannot be read: {error!r}") from error
        wanted = _known().groups_claim
        kept = {name: claims[name] for name in _KEPT if name in claims}
        kept["name"] = str(kept.get("preferred_username") or kept.get("email") or "")
        kept["groups"] = claims.get(wanted, [])
        return self.get_provider().sociallogin_from_response(request, kept)

    def _claims_of(self, request: HttpRequest, app: SocialApp, token: SocialToken, answer: Any) -> dict[str, Any]:
        given = answer.get("id_token")
        if not given:
            raise NotVouchedFor("no_token", "the provider sent no ID token")
        config = self.openid_config
        claims: dict[str, Any] = jwtkit.verify_and_decode(
            credential=given,
            keys_url=config["jwks_uri"],
            issuer=config["issuer"],
            audience=app.client_id,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )
        # A token for several clients has to name the one that asked for it.
        is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if is_shared else app.client_id) != app.client_id:
            raise NotVouchedFor("other_client", "the ID token is for another client")
        nonce = request.session.pop(_NONCE, "")
        if not nonce or not constant_time_compare(str(claims.get("nonce", "")), nonce):
            raise NotVouchedFor("other_sign_in", "the ID token is not for this sign-in")
        sessions.vouch(request, _time_of(claims.get("auth_time")))
        if config.get("userinfo_endpoint"):
            told = self._fetch_user_info(token.token)
            if told.get("sub") != claims.get("sub"):
                raise NotVouchedFor("other_person", "the provider told of somebody else")
            claims = claims | told
        if not isinstance(subject := claims.get("sub"), str) or not 0 < len(subject) <= UID_MAX_LENGTH:
            raise NotVouchedFor("no_subject", f"`sub` is no text of 1 to {UID_MAX_LENGTH} characters")
        return claims


def leave(request: HttpRequest, *, is_again: bool = False) -> HttpResponse:
    """Send somebody to the provider. Raises requests.RequestException where it does not answer."""
    nonce = get_random_string(32)
    longest_s = settings.FRESH_SIGN_IN_S if is_again else settings.SESSION_LONGEST_S
    asked = QueryDict(mutable=True)
    asked["next"] = request.GET.get("next", "")
    extra = QueryDict(mutable=True)
    extra.update({"nonce": nonce, "max_age": str(longest_s)} | ({"prompt": "login"} if is_again else {}))
    asked["auth_params"] = extra.urlencode()
    request.GET = asked  # type: ignore[assignment]  # what else an address says is nothing to the exchange
    answer: HttpResponse = OAuth2LoginView.adapter_view(Exchange(request, _known().id))(request)
    request.session[_NONCE], request.session[_AGAIN] = nonce, is_again
    return answer


def is_confirming(request: HttpRequest) -> bool:
    """Whether who comes back was sent to show once more who they are. It is asked once."""
    return bool(request.session.pop(_AGAIN, False))


def arrive(request: HttpRequest) -> HttpResponse:
    """Let somebody in whom the provider has sent back."""
    answer: HttpResponse = OAuth2CallbackView.adapter_view(Exchange(request, _known().id))(request)
    return answer


def _time_of(said: object) -> float:
    """`auth_time` in seconds; 0 where the provider does not say it. Raises NotVouchedFor for what is no such time."""
    if said is None:
        return 0.0
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise NotVouchedFor("no_time", f"the provider says {said!r} for when somebody signed in")
    if said > sessions.clock() + _CLOCKS_APART_S:
        raise NotVouchedFor("later_than_now", "the provider says that somebody will have signed in later than now")
    return min(float(said), sessions.clock())


def _known() -> Provider:
    known: Provider | None = settings.SINGLE_SIGN_ON
    if known is None:
        raise OAuth2Error("single sign-on is not set up")
    return known


def _is_public() -> bool:
    """Whether it was said where people reach the console."""
    return bool(settings.PUBLIC_URL_IS_SAID)


def _own_address(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("single-sign-on-back"))
