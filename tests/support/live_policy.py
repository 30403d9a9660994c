"""A new policy reaches running agents: every section is obeyed at once, and nothing that was counted is lost."""

from __future__ import annotations

from typing import Any

from recovery_ops import wire
from recovery_ops.runtime.testing import Lab


def obey(lab: Lab, revision: int = 1, **document: Any) -> None:
    """As it comes from a server: by way of the wire."""
    whole = wire.desired_document(
        environment="dev",
        revision=revision,
        policy=document,
        policy_version=str(revision),
        overrides=[],
        resets=[],
        issued_at=0.0,
    )
    lab.recovery.apply(wire.parse_desired(whole))
