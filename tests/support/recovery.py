"""The runtime through its public door: guards, runs, the desired state, counts; with a pushed clock and no threads."""

from __future__ import annotations

from typing import Any

import pytest

from recovery_ops.rules.desired_state import Desired, Override
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import (
    RecoveryExhausted,
)
from recovery_ops.runtime.testing import Lab

NO_RETRY = Settings(max_retries=0, max_retries_background=0)


def tripped(lab: Lab, scope: Scope, *, lasts_s: float = 60.0, revision: int = 1, **more: Any) -> Desired:
    now = lab.clock.wall()
    override = Override(
        id="ov-1",
        mode=more.pop("mode", State.FORCED_OPEN),
        scope=scope,
        reason="the provider is down",
        by="Ana Ruiz",
        starts_at=now + more.pop("in_s", 0.0),
        expires_at=now + lasts_s,
        revision=revision,
    )
    return Desired(revision=revision, overrides=(override,), **more)


def broken(lab: Lab, name: str = "search", **said: Any) -> Any:
    """A guarded operation whose breaker has opened."""
    guarded = lab.recovery.guard(name, idempotent=True, settings=NO_RETRY, **said)(lab.script(TimeoutError()))
    for _ in range(5):
        with pytest.raises((RecoveryExhausted, TimeoutError)):
            guarded()
    return guarded


def state(lab: Lab, name: str = "search") -> str:
    breaker = lab.recovery.breaker(name)
    return breaker.state.value if breaker else ""
