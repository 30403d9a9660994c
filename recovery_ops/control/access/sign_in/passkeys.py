"""What a browser says of a passkey, read so that nothing it could say is more than a wrong answer.

django-allauth and the library below it read what a browser's own script has made; anybody can send anything.
"""

from __future__ import annotations

import json
import struct
from typing import Any
from urllib.parse import urlsplit

from allauth.core import context
from allauth.mfa.adapter import get_adapter
from allauth.mfa.webauthn import forms as usual
from cryptography.exceptions import InvalidSignature
from django import forms
from django.core.exceptions import ValidationError
from fido2.utils import websafe_decode

_MOST_CHARS = 2**16
_UNREADABLE = (ArithmeticError, AttributeError, InvalidSignature, LookupError, TypeError, ValueError, struct.error)
"""What reading of foreign bytes fails with, above all of CBOR and of keys."""


class CredentialField(forms.JSONField):
    """A JSON object of ordinary size and depth."""

    def to_python(self, value: Any) -> Any:
        """The object. Raises ValidationError for anything else."""
        try:
            found = super().to_python(value) if len(str(value)) <= _MOST_CHARS else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("response", {}), dict):
            raise ValidationError("The response is not from a passkey.", code="invalid")
        return found


def _require_own_host(credential: Any) -> None:
    """Raise ValueError for a passkey that a page of another host asked for.

    The library below accepts every subdomain of ours; such a page may belong to another owner.
    """
    origin = json.loads(websafe_decode(credential["response"]["clientDataJSON"]))["origin"]
    if urlsplit(origin).hostname != urlsplit(f"//{context.request.get_host()}").hostname:
        raise ValueError("the passkey answers a page of another host")


class _Read(forms.Form):
    credential = CredentialField(required=True, widget=forms.HiddenInput)

    def clean_credential(self) -> Any:
        """As usual, and what cannot be read is a wrong answer."""
        try:
            _require_own_host(self.cleaned_data["credential"])
            return super().clean_credential()  # type: ignore[misc]  # of the form beside it
        except _UNREADABLE:
            raise get_adapter().validation_error("incorrect_code") from None


class Login(_Read, usual.LoginWebAuthnForm):
    """Come in by a passkey alone."""


class SecondFactor(_Read, usual.AuthenticateWebAuthnForm):
    """Show a key after the password."""


class Again(_Read, usual.ReauthenticateWebAuthnForm):
    """Show once more who one is."""


class Add(usual.AddWebAuthnForm):
    """Add a key."""

    credential = CredentialField(required=True, widget=forms.HiddenInput)

    def clean(self) -> Any:
        """As usual, and what cannot be read is a wrong answer."""
        try:
            if credential := self.cleaned_data.get("credential"):
                _require_own_host(credential)
            return super().clean()
        except _UNREADABLE:
            raise get_adapter().validation_error("incorrect_code") from None
