"""Keys and people: who may change them, what is told once, what is written down, and who is never locked out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from recovery_ops.control.access.services import accounts
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.permissions import Grants
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, person

EVERYWHERE_ADMIN = replace(person(Role.ADMIN, name="root"), may=Grants({"*": Role.ADMIN}).may)


def account(
    act: Callable[..., CommandResult[accounts.Account]], name: str, environment: str = "*", **changed: Any
) -> Any:
    given = {"by": EVERYWHERE_ADMIN, "environment": environment, "reason": REASON, "name": name}
    return act(**given | changed)
