"""Counts per bin of time, from the per-minute sums; one read answers for failures, capacity, fallbacks and rejections.

Bins are as wide as the range asks for, at least a minute because the sums are per minute; a range of a quarter of an
hour gets its failures in bins of 10 s, from the facts themselves, as long as there are few enough of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db.models import Count, F, Q, Sum

from events.models import Fact, MinuteSum
from events.moments import MINUTE_S, US_PER_S, Grid, bin_width_s
from events.queries.fleet import reporting_spans
from events.queries.readings import category_or_none
from events.rows import Bins, CapacityBins
from recovery_ops.rules.facts import FailureClassified
from recovery_ops.rules.words import FAMILY_OF, Category, Family
from recovery_ops.wire import names

FINE_BIN_S = 10
FINE_UP_TO = timedelta(minutes=15)
FACTS_READ = 5_000
"""With more failures than this in a short range, its bins are minutes after all."""
FAILED = names.EVENTS[FailureClassified].name

By = Literal["category", "family"]

_MEASURES = ("failures", "rate_limited", "overloaded", "fallbacks", "rejections", "calls")
_TELLING = (
    Q(failures__gt=0)
    | Q(fallbacks__gt=0)
    | Q(rejections__gt=0)
    | Q(rate_limited__gt=0)
    | Q(overloaded__gt=0)
    | (Q(calls__gt=0) & (Q(provider__gt="") | Q(model__gt="")))
)
"""Calls that went well say nothing here, except that a provider answered well; grouping them would cost the most."""

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sums:
    """What was counted in a window: rows by bin, category, provider, model, operation and breaker."""

    grid: Grid
    unknown: list[bool]
    rows: Sequence[_Row]

    def failures(self, by: By = "category") -> Bins:
        """Failures by category or by family."""
        return self._bins("failures", lambda row: _kind(row["category"], by))

    def fallbacks(self) -> Bins:
        """Answers by an alternative, by operation."""
        return self._bins("fallbacks", lambda row: str(row["operation"]))

    def rejections(self) -> Bins:
        """Calls that were not made, by breaker."""
        return self._bins("rejections", lambda row: str(row["breaker"] or row["operation"]))

    def capacity(self) -> CapacityBins:
        """429 and 529 by "provider / model"; those that were called and never answered so have zeros."""
        return _capacity(self.grid, self.unknown, self.rows)

    def total(self, measure: str) -> int:
        """All of one measure in the window."""
        return sum(row[measure] for row in self.rows)

    def _bins(self, measure: str, name_of: Callable[[_Row], str]) -> Bins:
        return _bins(self.grid, self.unknown, ((row["bin"], name_of(row), row[measure]) for row in self.rows))


def sums_per_bin(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    operation: str | None = None,
    breaker: str | None = None,
    bin_s: int | None = None,
) -> Sums:
    """Everything the sums know of a window. Two queries; index `minute_sum_once`.

    `bin_s` is a multiple of 60; without it the width follows from the window.
    """
    grid = Grid.over(start, end, bin_s or bin_width_s(end - start))
    first, per_bin = grid.start_s // MINUTE_S, grid.bin_s // MINUTE_S
    sums = MinuteSum.objects.filter(
        environment=environment, minute__gte=first, minute__lt=first + per_bin * grid.length
    )
    sums = sums.filter(_TELLING)
    if operation is not None:
        sums = sums.filter(operation=operation)
    if breaker is not None:
        sums = sums.filter(Q(breaker=breaker) | Q(breaker="", operation=breaker))
    grouped = sums.values(
        "category", "provider", "model", "operation", "breaker", bin=(F("minute") - first) / per_bin
    ).annotate(**{measure: Sum(measure) for measure in _MEASURES})
    unknown = grid.outside(reporting_spans(environment, start=start, end=end))
    return Sums(grid, unknown, list(grouped.order_by("bin")))


def failures_per_bin(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    operation: str | None = None,
    breaker: str | None = None,
    by: By = "category",
) -> Bins:
    """Failures by category or family. Two queries, three for a short range."""
    sums = sums_per_bin(environment, start=start, end=end, operation=operation, breaker=breaker)
    if end - start > FINE_UP_TO or sums.total("failures") > FACTS_READ:
        return sums.failures(by)
    grid = Grid.over(start, end, FINE_BIN_S)
    first_us, width_us = grid.start_s * US_PER_S, grid.bin_s * US_PER_S
    facts = Fact.objects.filter(
        environment=environment, event=FAILED, at_us__gte=first_us, at_us__lt=grid.end_s * US_PER_S
    )
    if operation is not None:
        facts = facts.filter(operation=operation)
    if breaker is not None:
        facts = facts.filter(breaker=breaker)
    grouped = facts.values("category", bin=(F("at_us") - first_us) / width_us).annotate(count=Count("id")).order_by()
    unknown = [sums.unknown[_index_of(sums.grid, begin)] for begin in range(grid.start_s, grid.end_s, grid.bin_s)]
    return _bins(grid, unknown, ((row["bin"], _kind(row["category"], by), row["count"]) for row in grouped))


def capacity_per_bin(environment: str, *, start: datetime, end: datetime) -> CapacityBins:
    """429 and 529 by "provider / model". Two queries."""
    return sums_per_bin(environment, start=start, end=end).capacity()


def fallbacks_per_bin(environment: str, *, start: datetime, end: datetime, operation: str | None = None) -> Bins:
    """Answers by an alternative, by operation. Two queries."""
    return sums_per_bin(environment, start=start, end=end, operation=operation).fallbacks()


def rejections_per_bin(environment: str, *, start: datetime, end: datetime, breaker: str | None = None) -> Bins:
    """Calls that were not made, by breaker. Two queries."""
    return sums_per_bin(environment, start=start, end=end, breaker=breaker).rejections()


def capacity_name(provider: str, model: str, operation: str) -> str:
    """What to call the backend that a call went to: "helios / large", or the operation where nobody said."""
    return " / ".join(part for part in (provider, model) if part) or operation


def _kind(category: str, by: By) -> str:
    known = category_or_none(category) or Category.UNKNOWN
    return known.value if by == "category" else FAMILY_OF.get(known, Family.UNKNOWN).value


def _index_of(grid: Grid, at_s: int) -> int:
    return max(0, min(grid.length - 1, (at_s - grid.start_s) // grid.bin_s))


def _bins(grid: Grid, unknown: list[bool], counts: Iterable[tuple[int, str, int]]) -> Bins:
    """Series by name, the largest first; a bin in which something was counted is known, whatever else is said."""
    series: dict[str, list[int]] = {}
    marks = list(unknown)
    for index, name, count in counts:
        if count:
            series.setdefault(name, [0] * grid.length)[index] += count
            marks[index] = False
    largest = dict(sorted(series.items(), key=lambda item: (-sum(item[1]), item[0])))
    return Bins(start=grid.start, bin_s=grid.bin_s, series=largest, unknown=marks)


def _capacity(grid: Grid, unknown: list[bool], rows: Sequence[_Row]) -> CapacityBins:
    kinds: dict[str, dict[str, list[int]]] = {"rate_limited": {}, "overloaded": {}}
    marks = list(unknown)
    for row in rows:
        is_named = row["provider"] or row["model"]
        if not (is_named and (row["calls"] or row["failures"])) and not (row["rate_limited"] or row["overloaded"]):
            continue
        name = capacity_name(row["provider"], row["model"], row["operation"])
        marks[row["bin"]] = False
        for kind, lanes in kinds.items():
            lanes.setdefault(name, [0] * grid.length)[row["bin"]] += row[kind]
    both = {
        name: [sum(pair) for pair in zip(kinds["rate_limited"][name], kinds["overloaded"][name], strict=True)]
        for name in kinds["rate_limited"]
    }
    return CapacityBins(
        start=grid.start,
        bin_s=grid.bin_s,
        series=dict(sorted(both.items(), key=lambda item: (-sum(item[1]), item[0]))),
        unknown=marks,
        rate_limited=kinds["rate_limited"],
        overloaded=kinds["overloaded"],
    )
