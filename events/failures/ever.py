"""The failures of a range beside when an issue was seen first and last of all time, as far as sums are kept."""

# ruff: noqa: S608  (only words of our own are put together; every value is a parameter)

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from events.failures.asking import grid_of, sample_of
from events.failures.grouping import Grouping
from events.failures.rows import Sample
from events.failures.sums import Asked, count_asked
from events.moments import from_us, to_us

_VARIANTS_MOST = 64
"""A kind has at most so many rows in one minute."""
_EDGE = (
    "(SELECT {find}({column}) FROM (SELECT {column} FROM events_failuresum one WHERE one.minutes = 1"
    f" AND one.kind = named.digest ORDER BY one.span {{order}} LIMIT {_VARIANTS_MOST}) edge)"
)
_FIRST = _EDGE.format(find="MIN", column="first_us", order="ASC")
_LAST = _EDGE.format(find="MAX", column="last_us", order="DESC")


class Ever(NamedTuple):
    """The first and the last failure of an issue."""

    first: datetime
    last: datetime


@dataclass(frozen=True, kw_only=True)
class _AskedEver(Asked):
    """The first and the last failure of each kind with one of these fingerprints; they are not counted."""

    fingerprints: frozenset[str]

    def statement(self) -> tuple[str, list[Any]]:
        """Indexes: `failure_kind_by_issue`, `failure_sum_by_kind`."""
        among = ", ".join(["%s"] * len(self.fingerprints))
        edges = (
            f"SELECT digest AS kind, {_FIRST} AS first_us, {_LAST} AS last_us FROM events_failurekind named"
            f" WHERE environment = %s AND fingerprint IN ({among})"
        )
        rows = f"SELECT kind, 0, 0, 0, -1, 0, first_us, last_us FROM ({edges}) edges WHERE first_us IS NOT NULL"
        return rows, [self.environment, *sorted(self.fingerprints)]


def read_with_ever(
    environment: str, name: str, *, start: datetime, end: datetime, grouping: Grouping
) -> tuple[Sample, Ever | None]:
    """All failures in [start, end), and the first and last of those of any time that belong to an issue now; None where
    none is kept. Three queries at most.
    """
    parts, (start_us, end_us) = grouping.parts(name), (to_us(start), to_us(end))
    marks = frozenset([*parts, *filter(None, map(grouping.split_from, parts))])
    grid = grid_of(start, end)
    here = Asked(environment=environment, start_us=start_us, end_us=end_us, grid=grid)
    ever = _AskedEver(environment=environment, start_us=start_us, end_us=end_us, fingerprints=marks)
    count_asked([here, ever])
    its = grouping.of(sample_of(ever.found, grid)).of([name])
    seen = Ever(from_us(its.first_us), from_us(its.newest.last_us)) if its.seen else None
    return grouping.of(sample_of(here.found, grid)), seen
