"""Who may do what, as one table: six roles for people, each with all that those before it may; scopes for keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from recovery_ops.control.models import EVERYWHERE, RoleGrant


class Role(StrEnum):
    """From the one who may only look to the one who may let others in."""

    VIEWER = "viewer"
    RESPONDER = "responder"
    OPERATOR = "operator"
    EDITOR = "editor"
    APPROVER = "approver"
    ADMIN = "admin"


ROLES = tuple(Role)

LEAST_ROLE: dict[str, Role] = {
    "see": Role.VIEWER,
    "see_audit": Role.VIEWER,
    "trip": Role.OPERATOR,
    "disable": Role.OPERATOR,
    "observe": Role.OPERATOR,
    "release": Role.OPERATOR,
    "extend": Role.OPERATOR,
    "reset": Role.OPERATOR,
    "edit_policy": Role.OPERATOR,  # one operation's knobs, live
    "override_for_long": Role.ADMIN,  # longer than 24 h
    "manage_keys": Role.ADMIN,
    "manage_accounts": Role.ADMIN,
}
"""Every permission there is, and the first role that has it."""

KEY_PERMISSIONS: dict[str, frozenset[str]] = {
    "read": frozenset({"see", "see_audit"}),
    "act": frozenset({"trip", "disable", "observe", "release", "extend", "reset", "edit_policy"}),
}
"""What the scopes of an API key stand for, in the key's own environment."""


@dataclass(frozen=True, slots=True)
class Grants:
    """What one person holds: a role by environment; `*` is every environment."""

    by_environment: Mapping[str, Role] = field(default_factory=dict)

    def role(self, environment: str) -> Role | None:
        """The higher one of the role held there and the role held everywhere; None where neither is held."""
        held = [self.by_environment[name] for name in (environment, EVERYWHERE) if name in self.by_environment]
        return max(held, key=ROLES.index, default=None)

    def may(self, permission: str, environment: str) -> bool:
        """Whether the table says so. A permission that is not in the table is a mistake in the code: KeyError."""
        least, held = LEAST_ROLE[permission], self.role(environment)
        return held is not None and ROLES.index(held) >= ROLES.index(least)

    def permissions(self, environment: str) -> dict[str, bool]:
        """Every permission and whether it is held there, for templates."""
        return {permission: self.may(permission, environment) for permission in LEAST_ROLE}


def grants_of(user: AbstractBaseUser | AnonymousUser) -> Grants:
    """What a person holds now. A superuser is an admin everywhere; who is not active holds nothing. One query."""
    if not user.is_authenticated or not user.is_active:
        return Grants()
    if getattr(user, "is_superuser", False):
        return Grants({EVERYWHERE: Role.ADMIN})
    granted = RoleGrant.objects.filter(user_id=user.pk).values_list("environment", "role")
    return Grants({environment: Role(role) for environment, role in granted if role in ROLES})


def may(user: AbstractBaseUser | AnonymousUser, permission: str, environment: str) -> bool:
    """Whether a person may do this there. Asks the database each time; a request keeps its `Grants`."""
    return grants_of(user).may(permission, environment)


def may_of_key(scopes: Iterable[str], key_environment: str, permission: str, environment: str) -> bool:
    """Whether a key with these scopes may do this there; never outside of its own environment."""
    held = frozenset[str]().union(*(KEY_PERMISSIONS.get(scope, frozenset()) for scope in scopes))
    return environment == key_environment and permission in held
