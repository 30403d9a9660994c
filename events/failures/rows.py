"""What failures are told with: frozen rows, times as aware UTC datetimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from events.moments import to_us
from recovery_ops.rules.words import Category


class Field(StrEnum):
    """What failures are told apart by, beside their fingerprint."""

    CATEGORY = "category"
    OPERATION = "operation"
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
    """One failure as it is counted. Failures that are alike share their `values`: there are few kinds of them."""

    fact_id: int
    at_us: int
    fingerprint: str
    run: str
    values: Mapping[Field, str]


def by_values(seen: Iterable[Seen]) -> Iterator[tuple[Mapping[Field, str], int]]:
    """How often which values are shared: thousands of failures become some dozen rows."""
    known: dict[int, Mapping[Field, str]] = {}
    counts: Counter[int] = Counter()
    for one in seen:
        key = id(one.values)
        known[key] = one.values
        counts[key] += 1
    return ((known[key], count) for key, count in counts.items())


def counted(shared: Iterable[tuple[Mapping[Field, str], int]], name: Field) -> Counter[str]:
    """How often each value of a field occurs, the most frequent first by `most_common`."""
    found: Counter[str] = Counter()
    for values, count in shared:
        found[values[name]] += count
    return found


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The newest failures of a range, newest first; `is_cut` where it has more than were read."""

    seen: Sequence[Seen]
    is_cut: bool
    since: datetime
    """How far back was read: the start of the range, or the oldest that was read of very many."""

    def matching(self, chosen: Mapping[Field, str]) -> Sample:
        """Those with these values."""
        fits: dict[int, bool] = {}
        for values, _ in self._shared:
            fits[id(values)] = all(values[name] == value for name, value in chosen.items())
        kept = [one for one in self.seen if fits[id(one.values)]]
        return Sample(seen=kept, is_cut=self.is_cut, since=self.since)

    def of(self, names: Collection[str]) -> Sample:
        """Those of these causes."""
        kept = [one for one in self.seen if one.fingerprint in names]
        return Sample(seen=kept, is_cut=self.is_cut, since=self.since)

    def counts(self, name: Field) -> Counter[str]:
        """How often each value of a field occurs."""
        return counted(self._shared, name)

    @cached_property
    def causes(self) -> frozenset[str]:
        """The names of all that failed."""
        return frozenset(one.fingerprint for one in self.seen)

    @cached_property
    def _shared(self) -> Sequence[tuple[Mapping[Field, str], int]]:
        """Counted once for all fields."""
        return list(by_values(self.seen))


@dataclass(slots=True)
class Tally:
    """What is added up about one fingerprint."""

    seen: list[Seen] = field(default_factory=list)
    """Newest first."""
    runs: set[str] = field(default_factory=set)
    bins: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Failures of one cause in a range."""

    fingerprint: str
    category: Category
    message: str
    error_type: str
    status_code: int | None
    count: int
    before: int | None
    """How many there were in the range before; None where that is not comparable."""
    runs: int
    instances: int
    derived: int
    """How many of them were derived from plain instrumentation."""
    first: datetime
    last: datetime
    course: Course
    operations: Sequence[str]
    """The most frequent first."""
    backends: Sequence[str]
    bins: Sequence[int | None]
    """Counts over the range, oldest first; None where too many came later for it to be read."""

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
