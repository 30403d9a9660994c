"""People's accounts: made and mended by commands, each with a role, and written down in the audit log."""

from __future__ import annotations

import getpass
import secrets
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from recovery_ops.control import audit
from recovery_ops.control.actors import Actor, system
from recovery_ops.control.models import ENVIRONMENT_CHARS, EVERYWHERE, NAME_CHARS, RoleGrant
from recovery_ops.control.roles import ROLES, Role

_PASSWORD_BYTES = 15
_NAME_CHARS = 150
_REASON = "asked for on the server's command line"


class AccountInvalid(ValueError):
    """An account that cannot be made or changed so. `field` is what is wrong, `reason` says what it has to be."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def create_account(
    name: str, role: str, *, environment: str = EVERYWHERE, password: str | None = None, by: Actor | None = None
) -> tuple[User, str]:
    """Make an account that holds a role in one environment or everywhere; return it with its password.

    The password is made up where none is given, and cannot be shown again. Raises AccountInvalid.
    """
    people = get_user_model().objects
    if not name.strip() or len(name) > _NAME_CHARS or not name.isprintable():
        raise AccountInvalid("name", f"has to have 1 to {_NAME_CHARS} characters that can be shown")
    if people.filter(username=name).exists():
        raise AccountInvalid("name", f"{name} is taken; `account grant` changes its role, `account reset` its password")
    with transaction.atomic():
        user = people.create_user(username=name)
        chosen = _set_password(user, password)
        _grant(user, role, environment)
        _note("account.create", user, environment, by, after={"role": role, "environment": environment})
    return user, chosen


def reset_account(name: str, *, password: str | None = None, by: Actor | None = None) -> tuple[User, str]:
    """Give an account a new password, which ends its sessions, and let it in again. Raises AccountInvalid."""
    with transaction.atomic():
        user = _found(name)
        chosen = _set_password(user, password)
        user.is_active = True
        user.save(update_fields=["is_active"])
        _note("account.reset", user, EVERYWHERE, by)
    return user, chosen


def grant_role(name: str, role: str, *, environment: str = EVERYWHERE, by: Actor | None = None) -> User:
    """Change the role an account holds in one environment, or everywhere. Raises AccountInvalid."""
    with transaction.atomic():
        user = _found(name)
        held = RoleGrant.objects.filter(user=user, environment=environment).values_list("role", flat=True).first()
        _grant(user, role, environment)
        _note("account.grant", user, environment, by, before={"role": held}, after={"role": role})
    return user


def _found(name: str) -> User:
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise AccountInvalid("name", f"there is no account called {name}; `account list` shows them")
    return user


def _grant(user: User, role: str, environment: str) -> None:
    if role not in ROLES:
        raise AccountInvalid("role", f"is one of {', '.join(ROLES)}, not {role}")
    if not environment.strip() or len(environment) > ENVIRONMENT_CHARS or not environment.isprintable():
        raise AccountInvalid("environment", f"has to have 1 to {ENVIRONMENT_CHARS} characters that can be shown")
    RoleGrant.objects.update_or_create(user=user, environment=environment, defaults={"role": Role(role)})


def _set_password(user: User, password: str | None) -> str:
    chosen = password if password is not None else secrets.token_urlsafe(_PASSWORD_BYTES)
    try:
        validate_password(chosen, user)
    except ValidationError as error:
        raise AccountInvalid("password", " ".join(error.messages)) from None
    user.set_password(chosen)
    user.save()
    return chosen


def _note(
    verb: str,
    user: User,
    environment: str,
    by: Actor | None,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    deed = audit.Deed(verb=verb, object=user.get_username(), reason=_REASON, before=before, after=after)
    audit.append(environment, deed, by=by or _at_the_command_line(), at=timezone.now())


def _at_the_command_line() -> Actor:
    """Whoever may run commands on the server may do anything; who that is, only the machine's own name tells."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        name = "unknown"
    return system(f"{name} on the server"[:NAME_CHARS], "cli")
