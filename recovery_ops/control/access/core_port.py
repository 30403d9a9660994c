"""Roles and sign-ins, as `core.environment.Access` asks for them."""

from __future__ import annotations

from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.access.sign_in.sessions import is_fresh

__all__ = ["grants_of", "is_fresh"]
