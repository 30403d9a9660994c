"""What failures are told with: frozen rows, times as aware UTC datetimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from events.moments import Grid, to_us
from recovery_ops.rules.enums import Category


class Field(StrEnum):
    """What failures are told apart by, beside their fingerprint."""

    CATEGORY = "category"
    OPERATION = "operation"
    BREAKER = "breaker"
    BACKEND = "backend"
    PROVIDER = "provider"
    MODEL = "model"
    REGION = "region"
    SERVICE = "service"
    VERSION = "version"
    WAITS = "waits"
    INSTANCE = "instance"
    ATTEMPT = "attempt"
    AGAIN = "again"
    TOLD_BY = "told_by"


class Course(StrEnum):
    """How a fingerprint goes, compared with the range of the same length before."""

    NEW = "new"
    RISING = "rising"
    ONGOING = "ongoing"
    FALLING = "falling"
    QUIET = "quiet"


class Seen(NamedTuple):
    """Failures of a range that are alike, counted. `values` have no instance and version; `bins` the counts by bin."""

    kind: bytes
    variant: int
    fingerprint: str
    values: Mapping[Field, str]
    failures: int
    first_us: int
    last_us: int
    bins: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The failures of a range. Counts are exact."""

    seen: Sequence[Seen]
    grid: Grid

    @cached_property
    def total(self) -> int:
        """How many failures."""
        return sum(one.failures for one in self.seen)

    def matching(self, chosen: Mapping[Field, str]) -> Sample:
        """Those with these values."""
        kept = [one for one in self.seen if all(one.values[name] == value for name, value in chosen.items())]
        return Sample(seen=kept, grid=self.grid)

    def of(self, names: Collection[str]) -> Sample:
        """Those of these causes."""
        return Sample(seen=[one for one in self.seen if one.fingerprint in names], grid=self.grid)

    def counts(self, name: Field) -> Counter[str]:
        """How often each value of a field occurs, the most frequent first by `most_common`."""
        found: Counter[str] = Counter()
        for one in self.seen:
            found[one.values[name]] += one.failures
        return found

    @cached_property
    def causes(self) -> frozenset[str]:
        """The names of all that failed."""
        return frozenset(one.fingerprint for one in self.seen)

    @cached_property
    def kinds(self) -> frozenset[bytes]:
        """The digests of their kinds."""
        return frozenset(one.kind for one in self.seen)

    def by_cause(self) -> dict[str, Sample]:
        """The failures of each cause."""
        found: dict[str, list[Seen]] = {}
        for one in self.seen:
            found.setdefault(one.fingerprint, []).append(one)
        return {name: Sample(seen=seen, grid=self.grid) for name, seen in found.items()}

    def bins(self) -> list[int]:
        """How many in each bin of the grid."""
        found = [0] * self.grid.length
        for one in self.seen:
            for place, count in one.bins.items():
                found[place] += count
        return found

    @property
    def first_us(self) -> int:
        """The moment of the first."""
        return min(one.first_us for one in self.seen)

    @property
    def newest(self) -> Seen:
        """Those among which is the newest failure."""
        return max(self.seen, key=lambda one: (one.last_us, one.kind, one.variant))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Failures of one cause in a range."""

    fingerprint: str
    category: Category
    message: str
    """What the newest says; so do the error type and the status."""
    error_type: str
    status_code: int | None
    count: int
    before: int | None
    """How many there were in the range before; None where that is not comparable."""
    runs: int | None
    """How many runs met it, `RUNS_MOST` at most; None where that is not known of the chosen failures, or not asked."""
    instances: int
    derived: int
    """How many of them were derived from plain instrumentation."""
    first: datetime
    last: datetime
    course: Course
    operations: Sequence[str]
    """The most frequent first."""
    backends: Sequence[str]
    bins: Sequence[int]
    """Counts over the grid, oldest first."""

    @property
    def place(self) -> tuple[int, int, str]:
        """Its place in the list: the most frequent first, of those the newest."""
        return -self.count, -to_us(self.last), self.fingerprint


PLACE = (int, int, str)
"""Of what `Fingerprint.place` is made."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A fingerprint that occurred in a range: one of its operations, and its first and last failure there."""

    fingerprint: str
    category: str
    operation: str
    first: datetime
    last: datetime

    def with_other(self, other: Marked) -> Marked:
        """Both as one."""
        return Marked(
            self.fingerprint,
            self.category,
            self.operation,
            min(self.first, other.first),
            max(self.last, other.last),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """How much of a fingerprint has one value, beside how much of all failures has it."""

    name: Field
    value: str
    share: float
    baseline: float
