"""A breaker of this process and the operations behind it: what an operator wants of one of them is wanted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from recovery_ops.rules.desired_state import Desired, Probe, Reset
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import Policy, Settings
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.breaker_settings import shared_thresholds
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.runtime.calls.operation import Operation


@dataclass(slots=True)
class SharedBreaker:
    """Belongs to the runtime's lock. Resets and probes are obeyed once, in the order of their revisions."""

    breaker: Breaker
    operations: list[Operation] = field(default_factory=list)
    thresholds: Settings = Settings()
    """What the operations share, where they are several."""
    _reset_revision: int = 0
    _probe_revision: int = 0

    @property
    def places(self) -> list[Place]:
        """The places of its operations."""
        return [operation.place for operation in self.operations]

    def join(self, operation: Operation, desired: Desired) -> None:
        """Add an operation. Its resets and probes of the past do not concern the breaker."""
        self.operations.append(operation)
        here = [operation.place]
        self._reset_revision = _newest(desired.resets, here, self._reset_revision)
        self._probe_revision = _newest(desired.probes, here, self._probe_revision)

    def set_thresholds(self, policy: Policy) -> None:
        """Follow a policy, or an operation that has joined."""
        self.thresholds = shared_thresholds(policy, [operation.member for operation in self.operations])

    def due_reset(self, resets: Sequence[Reset]) -> Reset | None:
        """The newest reset of any of its operations, returned once."""
        newest = _newest(resets, self.places, self._reset_revision)
        if newest == self._reset_revision:
            return None
        self._reset_revision = newest
        return next(one for one in resets if one.revision == newest and one.scope.holds_any(self.places))

    def is_probe_due(self, probes: Sequence[Probe]) -> bool:
        """Whether a probe of any of its operations is wanted since the last answer."""
        newest = _newest(probes, self.places, self._probe_revision)
        is_due, self._probe_revision = newest > self._probe_revision, newest
        return is_due


def _newest(asked: Sequence[Reset | Probe], places: Sequence[Place], revision: int) -> int:
    """The newest revision that names one of the places, at least `revision`."""
    return max([revision, *(one.revision for one in asked if one.scope.holds_any(places))])
