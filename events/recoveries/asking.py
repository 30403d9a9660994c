"""The questions asked of recovered and lost runs: days, added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from events.moments import from_us
from events.recoveries.models import RecoveryDay

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Runs of one outcome: how many, how long they took, what they said they cost."""

    runs: int
    took_s: float
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One operation failing in one way. `runs` met it, `lost` of them failed or were stopped; a run counts each day."""

    operation: str
    category: str
    failures: int
    runs: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What so many runs said they cost, together."""

    runs: int
    usd: float

    @property
    def each_usd(self) -> float:
        """Of one, on average."""
        return self.usd / self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoveries:
    """Some days of one environment, added up; `read_at` is None where no day of them has been read."""

    first: date
    last: date
    runs: int
    alone: Ended
    helped: Ended
    lost: Ended
    costed: int
    """How many of the runs that met trouble said what they cost."""
    failures: int
    retries: int
    fallbacks: int
    exhausted: int
    causes: Sequence[Cause]
    """Most failures first."""
    costs: Mapping[str, Cost]
    """By operation what the runs that met a failure of it cost, where any of them said so."""
    days: Sequence[tuple[date, int, int, int]]
    """Each day, oldest first: how many recovered alone, were helped, were lost."""
    is_partial: bool
    read_at: datetime | None

    @property
    def troubled(self) -> int:
        """How many runs met trouble."""
        return self.alone.runs + self.helped.runs + self.lost.runs

    @property
    def share_alone(self) -> float | None:
        """How many of those recovered without anybody; None where none met trouble."""
        return self.alone.runs / self.troubled if self.troubled else None

    @property
    def knows_cost(self) -> bool:
        return self.costed > 0


def recoveries(environment: str, *, first: date, last: date) -> Recoveries:
    """What became of the runs of these days, both included. One query; index `recovery_day_once`."""
    days = RecoveryDay.objects.filter(environment=environment, day__gte=_number(first), day__lte=_number(last))
    return added_up(list(days.order_by("day")), first=first, last=last)


def two_spans(environment: str, *, first: date, last: date) -> tuple[Recoveries, Recoveries]:
    """These days, both included, and as many before them. One query; index `recovery_day_once`."""
    before = first - (last - first) - timedelta(days=1)
    days = RecoveryDay.objects.filter(environment=environment, day__gte=_number(before), day__lte=_number(last))
    found, border = list(days.order_by("day")), _number(first)
    return (
        added_up([row for row in found if row.day >= border], first=first, last=last),
        added_up([row for row in found if row.day < border], first=before, last=first - timedelta(days=1)),
    )


def added_up(rows: Sequence[RecoveryDay], *, first: date, last: date) -> Recoveries:
    """Days of one environment as one."""
    outcomes = {
        word: Ended(
            runs=sum(getattr(row, word) for row in rows),
            took_s=sum(getattr(row, f"{word}_s") for row in rows),
            cost_usd=sum(getattr(row, f"{word}_usd") for row in rows),
        )
        for word in ("alone", "helped", "lost")
    }
    by_day = {row.day: row for row in rows}
    numbers = range(_number(first), _number(last) + 1)
    return Recoveries(
        first=first,
        last=last,
        runs=sum(row.runs for row in rows),
        **outcomes,
        costed=sum(row.costed for row in rows),
        failures=sum(row.failures for row in rows),
        retries=sum(row.retries for row in rows),
        fallbacks=sum(row.fallbacks for row in rows),
        exhausted=sum(row.exhausted for row in rows),
        causes=_causes(rows),
        costs=_costs(rows),
        days=[_day(number, by_day.get(number)) for number in numbers],
        is_partial=any(row.is_partial for row in rows),
        read_at=from_us(max(row.read_us for row in rows)) if rows else None,
    )


def by_operation(causes: Iterable[Cause]) -> dict[str, tuple[int, int]]:
    """Of each operation the runs that met a failure of it, and those of them that did not get over it. A run counts for
    each way in which it failed, and each day.
    """
    found: dict[str, tuple[int, int]] = {}
    for one in causes:
        runs, lost = found.get(one.operation, (0, 0))
        found[one.operation] = (runs + one.runs, lost + one.lost)
    return found


def today_of(now: datetime) -> date:
    """The day of a moment, UTC."""
    return now.astimezone(UTC).date()


def _day(number: int, row: RecoveryDay | None) -> tuple[date, int, int, int]:
    at = _EPOCH + timedelta(days=number)
    return (at, row.alone, row.helped, row.lost) if row is not None else (at, 0, 0, 0)


def _causes(rows: Iterable[RecoveryDay]) -> list[Cause]:
    sums: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        for operation, category, *counts in row.causes:
            kept = sums.setdefault((operation, category), [0, 0, 0])
            sums[operation, category] = [old + new for old, new in zip(kept, counts, strict=True)]
    found = [
        Cause(operation=operation, category=category, failures=failures, runs=runs, lost=lost)
        for (operation, category), (failures, runs, lost) in sums.items()
    ]
    return sorted(found, key=lambda one: (-one.failures, -one.lost, one.operation, one.category))


def _costs(rows: Iterable[RecoveryDay]) -> dict[str, Cost]:
    sums: dict[str, tuple[int, float]] = {}
    for row in rows:
        for operation, runs, usd in row.costs or ():
            before, spent = sums.get(operation, (0, 0.0))
            sums[operation] = (before + runs, spent + usd)
    return {operation: Cost(runs=runs, usd=usd) for operation, (runs, usd) in sums.items() if runs}


def _number(day: date) -> int:
    return (day - _EPOCH).days
