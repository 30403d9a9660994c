""""""

from __future__ import annotations

from typing import Any

from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.wire import desired_document

NOW = 1_800_000_000.0


def document(revision: int, *, overrides: list[Override] | None = None, issued_at: float = NOW) -> dict[str, Any]:
    return desired_document(
        environment="dev",
        revision=revision,
        policy={"schema_version": 1},
        policy_version="1",
        overrides=overrides or [],
        resets=[],
        issued_at=issued_at,
    )


def trip(starts_at: float = NOW, expires_at: float = NOW + 3600) -> Override:
    return Override(
        id="o1",
        mode=State.FORCED_OPEN,
        scope=Scope(operation="search"),
        reason="down",
        by="ann",
        starts_at=starts_at,
        expires_at=expires_at,
        revision=1,
    )
