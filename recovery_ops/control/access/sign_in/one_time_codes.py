"""Forms for one-time codes. Each code is accepted once, and each failed attempt counts for its address.

django-allauth remembers a used code for one step of 30 seconds, but accepts it for three.
"""

from __future__ import annotations

from allauth.core import context
from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa import app_settings
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import forms as usual
from allauth.mfa.totp.forms import ActivateTOTPForm
from django import forms
from django.contrib.auth.models import User
from django.core.cache import cache

from recovery_ops.control.access.sign_in.limits import count_attempt

_ACCEPTED_S = app_settings.TOTP_PERIOD * (2 * app_settings.TOTP_TOLERANCE + 1)


class _Code(forms.Form):
    user: User

    def clean_code(self) -> str:
        """The code. Raises ValidationError for a wrong or used one, and above the limit of the address."""
        attempt = count_attempt(context.request)
        code: str = normalize_user_code(self.cleaned_data["code"])
        used = f"code:{self.user.pk}:{code}"
        if used in cache:
            raise get_adapter().validation_error("incorrect_code")
        super().clean_code()  # type: ignore[misc]  # of the form beside it
        if not cache.add(used, 1, _ACCEPTED_S):
            raise get_adapter().validation_error("incorrect_code")
        attempt.rollback()
        return code


class SecondFactor(_Code, usual.AuthenticateForm):
    """A code after the password."""


class Again(_Code, usual.ReauthenticateForm):
    """A code that confirms who is signed in."""


class Activate(_Code, ActivateTOTPForm):
    """The first code of a new authenticator app."""
