"""What a browser says of a passkey, read so that nothing it could say is more than a wrong answer.

django-allauth and the library below it read what a browser's own script has made; anybody can send anything.
"""

from __future__ import annotations

import struct
from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.webauthn import forms as usual
from cryptography.exceptions import InvalidSignature
from django import forms
from django.core.exceptions import ValidationError

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
            raise ValidationError("This is no answer of a passkey.", code="invalid")
        return found


class _Read(forms.Form):
    credential = CredentialField(required=True, widget=forms.HiddenInput)

    def clean_credential(self) -> Any:
        """As usual, and what cannot be read is a wrong answer."""
        try:
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
            return super().clean()
        except _UNREADABLE:
            raise get_adapter().validation_error("incorrect_code") from None
