"""People's accounts as the server's own commands ask for them: whoever may run those may do anything."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User

from recovery_ops.control.access.services import accounts as people
from recovery_ops.control.core.actors import Actor, system_actor
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.models.bases import EVERYWHERE, NAME_CHARS
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.rules.policy.scope import ANY

_REASON = "Requested on the command line of the server"


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
    made = _asked(people.create_account, name, environment, by, role=role, password=password)
    return made.user, made.password or ""


def reset_account(name: str, *, password: str | None = None, by: Actor | None = None) -> tuple[User, str]:
    """Give an account a new password, which ends its sessions, and let it in again. Raises AccountInvalid."""
    mended = _asked(people.reset_account, name, EVERYWHERE, by, password=password)
    return mended.user, mended.password or ""


def grant_role(
    name: str, role: str, *, environment: str = EVERYWHERE, group: str = ANY, by: Actor | None = None
) -> User:
    """Change the role an account holds in one environment, or everywhere, for all agents or a group of them.

    Raises AccountInvalid.
    """
    return _asked(people.grant_role, name, environment, by, role=role, group=group).user


def on_the_command_line() -> Actor:
    """Whoever may run commands on the server may do anything; who that is, only the machine's own name tells."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        name = "unknown"
    return system_actor(f"{name} on the server"[:NAME_CHARS], "cli")


def _asked(
    act: Callable[..., CommandResult[people.Account]], name: str, environment: str, by: Actor | None, **said: Any
) -> people.Account:
    try:
        return act(by=by or on_the_command_line(), environment=environment, reason=_REASON, name=name, **said).object
    except CommandRejected as rejection:
        field, reason = next(iter(rejection.fields.items()), ("account", rejection.detail))
        raise AccountInvalid(field, reason) from None
