"""One instance of the fleet as its page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from events.queries.workload import Workload
from events.rows import AgentRow
from recovery_ops.control.agents.filters import status_of
from recovery_ops.control.agents.pause_status import Heeded
from recovery_ops.rules.enums import ApplyStatus

APPLY_ORDER = (
    ApplyStatus.UNREACHABLE,
    ApplyStatus.FAILED,
    ApplyStatus.DRIFTED,
    ApplyStatus.PENDING,
    ApplyStatus.APPLIED,
)
_MARKS = {
    ApplyStatus.UNREACHABLE: "unknown",
    ApplyStatus.FAILED: "open",
    ApplyStatus.DRIFTED: "open",
    ApplyStatus.PENDING: "half_open",
    ApplyStatus.APPLIED: "closed",
}
"""With which mark an instance stands in the grid; the word is in its label."""
TELEMETRY_ONLY = "only sends"
"""What `show` calls an instance that only sends: it follows no revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One instance and where it stands against the newest revision."""

    agent: AgentRow
    apply: ApplyStatus | None
    """None where it follows no revision."""
    obeys: str
    work: Workload
    labels: Sequence[str] = ()
    told: Heeded | None = None
    """What it has said of somebody's wish about its new work, while it does not do so."""

    @property
    def status(self) -> str:
        """What it says of itself."""
        return status_of(self.agent)

    @property
    def breakers_open(self) -> int | None:
        """How many of its breakers block calls; None where it is silent, and nobody knows."""
        return self.agent.breakers_open if self.agent.is_reachable else None

    @property
    def held_back(self) -> int:
        """How many of its own ceilings hold back what it applied; `obeys` names the first of them."""
        is_applied = self.apply is ApplyStatus.APPLIED and self.agent.retired_at is None
        return len(self.agent.clamped) if is_applied else 0

    @property
    def mark(self) -> str:
        """The mark of its standing."""
        if self.apply is None:
            return "metrics_only" if self.agent.is_reachable else "unknown"
        return _MARKS[self.apply]

    @property
    def rank(self) -> int:
        """The silent first, then by how far they are from what is desired; who follows nothing comes last."""
        if self.apply is None:
            return len(APPLY_ORDER) if self.agent.is_reachable else APPLY_ORDER.index(ApplyStatus.UNREACHABLE)
        return APPLY_ORDER.index(self.apply)

    @property
    def shown_by(self) -> str:
        """Which chip shows it."""
        return TELEMETRY_ONLY if self.apply is None else self.apply.value
