"""What the list of breakers tells of each: the columns of its table and of its files, and when a probe comes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from events.pages.table_files import Cell
from events.rows import RANK, BreakerRow
from recovery_ops.control.core.columns import Column
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State

IN_FLIGHT = "in_flight"


def heard(row: BreakerRow, number: float) -> float | None:
    """A number that its instances told; None where nobody that has the breaker reports: that is not zero."""
    return number if row.worst is not None else None


HEADS: tuple[Column[BreakerRow], ...] = (
    Column(name="name", word="Breaker", key=lambda row: row.name, is_fixed=True),
    Column(name="state", word="Observed", key=lambda row: RANK[row.worst], is_most_first=True),
    Column(name="desired", word="Desired"),
    Column(name="since", word="Since", key=lambda row: row.since, is_most_first=True),
    Column(name="rate", word="Failure rate", key=lambda row: row.failure_rate, is_most_first=True),
    Column(name="probe", word="Next probe", key=lambda row: row.next_probe),
    Column(
        name="calls",
        word="Calls/min",
        key=lambda row: heard(row, row.calls_per_min),
        is_number=True,
        is_most_first=True,
    ),
    Column(
        name="refused",
        word="Rejected/min",
        key=lambda row: heard(row, row.rejected_per_min),
        is_number=True,
        is_most_first=True,
    ),
    Column(
        name=IN_FLIGHT,
        word="In flight",
        key=lambda row: row.in_flight,
        is_number=True,
        is_most_first=True,
        is_extra=True,
    ),
    Column(name="strip", word="State in range"),
)
FILE_COLUMNS = (
    *("breaker", "operations", "services", "worst state", "instances", "instances not reachable", "since"),
    *("failure rate", "limit", "calls per min", "failures per min", "refused per min", "held by", "held until"),
    *("groups", "providers", "next probe", "in flight", "held because"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An override as a table cell tells it."""

    mode: str
    by: str
    revision: int
    reason: str
    expires_at: datetime

    @staticmethod
    def of(override: Override | None) -> Held | None:
        """None where nobody holds it."""
        if override is None:
            return None
        expires_at = datetime.fromtimestamp(override.expires_at, UTC)
        return Held(
            mode=override.mode,
            by=override.by,
            revision=override.revision,
            reason=override.reason,
            expires_at=expires_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NextProbe:
    """When a breaker that blocks calls lets one through: a moment (`at`), or words where there is none to count to.

    `kind` is a code for the same: `moment`, `now`, `next_call`, `trip_end` or `none`.
    """

    kind: str = "none"
    at: datetime | None = None
    words: str = "–"

    @staticmethod
    def of(row: BreakerRow, now: datetime) -> NextProbe:
        """What is known of one that is open; a dash where none is, or where nobody said how long it waits."""
        if row.next_probe is not None and row.next_probe > now:
            return NextProbe(kind="moment", at=row.next_probe)
        if row.counts.get(State.HALF_OPEN):
            return NextProbe(kind="now", words="in progress")
        if row.next_probe is not None:
            return NextProbe(kind="next_call", words="next call")
        if row.counts.get(State.FORCED_OPEN):
            return NextProbe(kind="trip_end", words="after the override")
        return NextProbe()


def file_cells(row: BreakerRow, standing: Standing) -> tuple[Cell, ...]:
    """One line of a file, as `FILE_COLUMNS`."""
    held = Held.of(standing.override_of(row.name))
    return (
        *(row.name, ", ".join(row.operations), ", ".join(row.services), row.worst),
        *(row.instances, row.unknown, row.since),
        *(row.failure_rate, row.threshold),
        *(heard(row, one) for one in (row.calls_per_min, row.failures_per_min, row.rejected_per_min)),
        *((held.by, held.expires_at) if held is not None else (None, None)),
        *(", ".join(row.groups), ", ".join(row.providers), row.next_probe, row.in_flight),
        held.reason if held is not None else None,
    )
