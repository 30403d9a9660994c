"""Reduced capabilities as pages and programs read them: the intervals of all instances put together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from events.moments import to_us
from recovery_ops.rules.enums import Category

KIND_WORDS = {
    "fallback": "answered by",
    "model": "answered by the model",
    "feature": "without",
    "withdrawn": "withdrawn",
}
"""How each kind of reduction reads before what stands in."""


class Standing(StrEnum):
    """How a reduction stands."""

    REDUCED = "reduced"
    NOT_KNOWN = "not known"
    """Every instance that did not say it is over stopped reporting, and none was whole again after it."""
    WHOLE = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What finished runs cost on average, in US dollars, over those that said so; None where none did."""

    mean_usd: float | None
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """A capability that was reduced in one way, from the first instance that began to the last that was whole again.

    `answers` and `runs` are those that got the weaker answer, or none where it was withdrawn; at least so many where
    `is_partial`. `warning` and `data_age_s` are what the newest
    weaker answer said of its own quality.
    """

    operation: str
    """Its operation; where no instance names one, the name of the capability itself."""
    has_operation: bool
    kind: str
    from_name: str
    to_name: str
    reason: str
    category: Category | None
    started: datetime
    ended: datetime | None
    """None: some instance has not said that it is over."""
    heard_until: datetime | None
    """Of what is not known to be over: the last sign of life of its instances. None where it is, or goes on."""
    standing: Standing
    instances: tuple[str, ...]
    """`service/instance` of each, by name."""
    services: tuple[str, ...]
    answers: int
    runs: tuple[str, ...]
    is_partial: bool
    warning: str
    data_age_s: float | None

    @property
    def key(self) -> str:
        """What tells two rows of one list apart."""
        return f"{self.operation}-{self.kind}-{self.to_name}-{self.started:%Y%m%d%H%M%S%f}"

    @property
    def place(self) -> tuple[int, int, str, str, str]:
        """Its place in the list: what goes on first, then the newest end first."""
        newest = -to_us(self.ended or self.started)
        return int(self.ended is not None), newest, self.operation, self.kind, self.key

    @property
    def words(self) -> str:
        """`answered by search_cache`."""
        return f"{KIND_WORDS.get(self.kind, self.kind)} {self.to_name}".strip()

    def lasted(self, now: datetime) -> timedelta:
        """From its beginning to its end, or to now; where that is not known, as far as its instances were heard of."""
        return (self.ended or self.heard_until or now) - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One capability over a window: how it stands, how often and for how long it was reduced, and in which ways."""

    operation: str
    has_operation: bool
    standing: Standing
    stand_ins: tuple[str, ...]
    times: int
    reduced_for: timedelta
    """In all, counting overlapping ways once."""
    answers: int
    runs: int
    is_partial: bool
    """Whether answers and runs are at least so many."""
    last: datetime | None
    """When it was whole again; None where it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unaccounted:
    """Weaker answers of one operation that lie in no interval: their sender reports answers and no degradations."""

    operation: str
    to_name: str
    answers: int
    instances: tuple[str, ...]


PLACE = (int, int, str, str, str)
"""Of what `Reduction.place` is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradations:
    """What was reduced in a window: what goes on first, then the newest end first."""

    rows: tuple[Reduction, ...]
    unaccounted: tuple[Unaccounted, ...]
    with_weaker: Cost
    without_weaker: Cost
    is_partial: bool
    """Whether there were more weaker answers, or finished runs, than are read: the counts are at least so many."""

    def capabilities(self, now: datetime) -> list[Capability]:
        """The same by capability: what is reduced first, then what was so for longest."""
        by_name: dict[str, list[Reduction]] = {}
        for row in self.rows:
            by_name.setdefault(row.operation, []).append(row)
        found = [_capability(operation, rows, now) for operation, rows in by_name.items()]
        return sorted(found, key=lambda one: (_ORDER.index(one.standing), -one.reduced_for, one.operation))

    @property
    def reduced(self) -> tuple[Reduction, ...]:
        """What is not whole again."""
        return tuple(row for row in self.rows if row.standing is not Standing.WHOLE)


_ORDER = (Standing.REDUCED, Standing.NOT_KNOWN, Standing.WHOLE)


def _capability(operation: str, rows: list[Reduction], now: datetime) -> Capability:
    standing = min((row.standing for row in rows), key=_ORDER.index)
    total, until = timedelta(), None
    for row in sorted(rows, key=lambda row: row.started):
        ended = row.ended or row.heard_until or now
        begins = row.started if until is None else max(row.started, until)
        total += max(timedelta(), ended - begins)
        until = ended if until is None else max(until, ended)
    return Capability(
        operation=operation,
        has_operation=any(row.has_operation for row in rows),
        standing=standing,
        stand_ins=tuple(sorted({row.to_name or "nothing" for row in rows})),
        times=len(rows),
        reduced_for=total,
        answers=sum(row.answers for row in rows),
        runs=len({run for row in rows for run in row.runs}),
        is_partial=any(row.is_partial for row in rows),
        last=until if standing is Standing.WHOLE else None,
    )
