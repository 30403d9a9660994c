"""The roles of users, declared once for the console, single sign-on and the command line."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """From the one who may only look to the one who may let others in; each may do what those before it may."""

    VIEWER = "viewer"
    RESPONDER = "responder"
    OPERATOR = "operator"
    EDITOR = "editor"
    APPROVER = "approver"
    ADMIN = "admin"


ROLES = tuple(Role)
