"""What an overview is made of: figures as they are now, how they went over a range, and who waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from events.rows import AgentRow, BreakerRow, DegradationRow
from recovery_ops.rules.enums import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityNow:
    """One provider, model or operation that answers 429 or 529 now."""

    name: str
    rate_limited_per_min: float
    overloaded_per_min: float
    since: datetime
    provider: str = ""
    model: str = ""

    @property
    def per_min(self) -> float:
        """Both kinds together."""
        return self.rate_limited_per_min + self.overloaded_per_min


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a figure went over a range: its bins, oldest first (None: not known), what they come to, and what those of
    the range before did; None where that is not known.
    """

    bins: tuple[int | None, ...] = ()
    total: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Runs that wait for capacity, the one that has waited longest, and since when; at least these where `is_cut`."""

    runs: int = 0
    longest: str = ""
    since: datetime | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewNumbers:
    """The numbers of the overview's tiles as they are now, and how they went over a range."""

    breakers: int
    breakers_blocking: tuple[BreakerRow, ...]
    """Those that block calls somewhere, worst first."""
    breaker_rows: tuple[BreakerRow, ...]
    """All of them, worst first."""
    breakers_held: tuple[BreakerRow, ...]
    """Those on which a person's override rests somewhere, blocking or not."""
    capacity: tuple[CapacityNow, ...]
    capacity_per_min: float
    failures_per_min: float
    failures_by_family: dict[Family, float]
    calls_per_min: float
    degraded: tuple[DegradationRow, ...]
    """Capabilities that are reduced now, oldest first."""
    restored: tuple[DegradationRow, ...]
    """What ended within the last half hour, of operations that are whole everywhere."""
    runs_in_flight: int
    agents_reporting: int
    agents: int
    silent: tuple[AgentRow, ...]
    """Instances that stopped reporting without a word, the longest silence first."""
    fleet: tuple[AgentRow, ...]
    """All of them, for whoever asks how far a change has come."""
    opened: Trend
    """Breakers that stopped letting calls flow, each counted once."""
    short: Trend
    """429 and 529."""
    waits: Trend
    """Waits that began after one of these."""
    waiting: Waiting
    left_out: int
    """Senders that obey nobody and send nothing now: whether they are missing nobody knows, so `agents` has none of
    them.
    """
    reporting: Trend
    """Instances that lived at the end of each bin; `before` at the end of the range before."""

    @property
    def breakers_dark(self) -> int:
        """Of how many breakers nobody tells now."""
        return sum(row.worst is None for row in self.breaker_rows)
