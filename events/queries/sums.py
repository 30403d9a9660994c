"""Counts per bin of time, from the sums; one read answers for failures, capacity, fallbacks and rejections.

Bins are as wide as the range asks for, at least a minute because the sums are per minute. Failures of a quarter of an
hour or less are counted from their events, in bins of 1 to 10 s, as long as there are few enough of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal

from django.db.models import Q, Sum

from events.models import Fact
from events.moments import MINUTE_S, US_PER_S, Grid, Span, bin_width_s
from events.projections.sum_views import VIEWS, View
from events.projections.summing import capacity_kinds
from events.queries.fleet import reporting_spans
from events.queries.readings import category_or_none
from events.queries.sum_rows import KEPT, MEASURES, TELLING, SumRow, binned, in_all_dimensions, in_spans, widest
from events.queries.sums_of_calls import is_of_backend, rows_of_backend, rows_of_service
from events.rows import Bins, CapacityBins
from recovery_ops.rules.enums import FAMILY_OF, Category, Family
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names

FINE_BINS_S = (1, 2, 5, 10)
FINE_UP_TO = timedelta(minutes=15)
_MOST_BINS = 120
FACTS_READ = 5_000
"""With more failures than this in a short range, its bins are minutes after all."""
FAILED = names.EVENTS[FailureClassified].name

By = Literal["category", "family"]
_FIELDS = {"service": "agent__service"}
_STATUS_CODE = names.ATTRIBUTES["status_code"]

_VIEW_OF = {
    "failures": View.CATEGORY,
    "rate_limited": View.BACKEND,
    "overloaded": View.BACKEND,
    "fallbacks": View.OPERATION,
    "rejections": View.OPERATION,
}
"""Which view tells most about a measure in the fewest rows."""


@dataclass(frozen=True, slots=True)
class FineFailures:
    """The failures of a short window, a row for each, in bins below a minute."""

    grid: Grid
    unknown: list[bool]
    rows: Sequence[SumRow]


@dataclass(frozen=True, slots=True)
class Sums:
    """What was counted in a window, in each view."""

    grid: Grid
    unknown: list[bool]
    rows: Mapping[View, Sequence[SumRow]]
    called: frozenset[tuple[str, str]] = frozenset()
    """With a provider or a model: the breaker and operation of each call that named it, in the window or within the day
    before its end. What was not called is counted by these, for it names no provider."""
    fine: FineFailures | None = None
    """Its failures below a minute, where the window is short."""

    def failures(self, by: By = "category") -> Bins:
        """Failures by category or by family; of a short window in bins below a minute."""
        if self.fine is not None:
            counts = ((row.bin, _kind(row.category, by), row.failures) for row in self.fine.rows)
            return _bins(self.fine.grid, self.fine.unknown, counts)
        return self._bins("failures", lambda row: _kind(row.category, by))

    def in_minutes(self) -> Sums:
        """These sums with all bins of one width, at least a minute."""
        return replace(self, fine=None)

    def fallbacks(self) -> Bins:
        """Answers by an alternative, by operation."""
        return self._bins("fallbacks", lambda row: row.operation)

    def rejections(self) -> Bins:
        """Calls that were not made, by breaker."""
        return self._bins("rejections", lambda row: row.breaker or row.operation)

    def capacity(self) -> CapacityBins:
        """429 and 529 by "provider / model", with zeros for those that were called; in the bins of `failures`."""
        whole = _capacity(self.grid, self.unknown, self.rows[View.BACKEND])
        if self.fine is None:
            return whole
        return _capacity(self.fine.grid, self.fine.unknown, self.fine.rows, names=whole.series)

    def backends(self, part: Literal["provider", "model"]) -> set[str]:
        """The providers or the models that were called."""
        return {getattr(row, part) for row in self.rows[View.BACKEND]} - {""}

    def named(self) -> set[str]:
        """The breakers and operations of those that were `called`."""
        return {name for names in self.called for name in names} - {""}

    def successes(self) -> list[int]:
        """Attempts that went well, by bin, where `sums_per_bin` was asked for them."""
        found = [0] * self.grid.length
        for row in self.rows[View.CATEGORY]:
            found[row.bin] += row.successes
        return found

    def total(self, measure: str) -> int:
        """All of one measure in the window."""
        return sum(getattr(row, measure) for row in self.rows[_VIEW_OF[measure]])

    def _bins(self, measure: str, name_of: Callable[[SumRow], str]) -> Bins:
        counted = attrgetter(measure)
        rows = self.rows[_VIEW_OF[measure]]
        return _bins(self.grid, self.unknown, ((row.bin, name_of(row), counted(row)) for row in rows))


def sums_per_bin(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    operation: str | None = None,
    breaker: str | None = None,
    bin_s: int | None = None,
    reporting: Sequence[Span] | None = None,
    has_successes: bool = False,
    of_calls: Mapping[str, str] | None = None,
) -> Sums:
    """Everything the sums know of a window. Two queries; index `span_sum_once`, of a breaker `…_by_subject`, of a
    service `span_sum_of_service`.

    A quarter of an hour has `FineFailures`: one query more. `bin_s` is a multiple of 60; without it the width
    follows from the window. With `reporting`, what `reporting_spans` says of the window, it is one query less. What
    merely went well is read only where it `has_successes`, of one breaker. `of_calls` leaves the calls to a `provider`
    or `model`, or those of a `service`; for a model without its provider it is one more, and for either where a server
    of before counted.
    """
    grid = Grid.over(start, end, bin_s or bin_width_s(end - start))
    known = reporting_spans(environment, start=start, end=end) if reporting is None else reporting
    unknown = grid.outside(known)
    calls = {**(of_calls or {}), **({"operation": operation} if operation is not None else {})}
    if has_successes:
        rows = _rows_of_some(environment, grid, operation, breaker, telling=TELLING | Q(successes__gt=0))
        return Sums(grid, unknown, dict.fromkeys(_VIEW_OF.values(), rows))  # successes are known per minute alone
    sums = _sums(environment, grid, unknown, operation, breaker, of_calls or {})
    if bin_s is not None or end - start > FINE_UP_TO or sums.total("failures") > FACTS_READ:
        return sums
    fine = Grid.over(start, end, _fine_bin_s(end - start))
    failed = _failures_one_by_one(environment, fine, breaker, calls) if sums.total("failures") else []
    if sums.total("failures") and not failed:
        return sums  # the events have expired
    return replace(sums, fine=FineFailures(fine, fine.outside(known), failed))


def _fine_bin_s(window: timedelta) -> int:
    wanted = window.total_seconds() / _MOST_BINS
    return next(width for width in FINE_BINS_S if width >= wanted)


def _failures_one_by_one(
    environment: str, grid: Grid, breaker: str | None, calls: Mapping[str, str]
) -> Sequence[SumRow]:
    """A row for each failure of a short window. One query; index `fact_by_event`."""
    first_us, width_us = grid.start_s * US_PER_S, grid.bin_s * US_PER_S
    facts = Fact.objects.filter(
        environment=environment, event=FAILED, at_us__gte=first_us, at_us__lt=grid.end_s * US_PER_S
    )
    if breaker is not None:
        facts = facts.filter(Q(breaker=breaker) | Q(breaker="", operation=breaker))
    facts = facts.filter(**{_FIELDS.get(name, name): value for name, value in calls.items()}).order_by()
    nothing = dict.fromkeys(MEASURES, 0) | {"failures": 1}
    rows = []
    for at_us, attributes, *kept in facts.values_list("at_us", "attributes", *KEPT)[:FACTS_READ]:
        is_limited, is_overloaded = capacity_kinds(attributes.get(_STATUS_CODE), kept[0])
        told: dict[str, Any] = nothing | {"rate_limited": int(is_limited), "overloaded": int(is_overloaded)}
        rows.append(SumRow((at_us - first_us) // width_us, *kept, **told))
    return rows


def sums_earlier(
    environment: str,
    sums: Sums,
    by: timedelta,
    *,
    breaker: str | None,
    reporting: Sequence[Span],
    of_calls: Mapping[str, str] | None = None,
) -> Sums:
    """What was counted so much earlier, in whole bins, so that each lies under one of `sums`. As many
    queries as `sums_per_bin` takes with `reporting`.

    `reporting` is what `reporting_spans` says of that time.
    """
    now = sums.grid
    back_s = round(by.total_seconds() / now.bin_s) * now.bin_s
    grid = Grid(now.start_s - back_s, now.bin_s, now.length)
    unknown = grid.outside(reporting)
    return _sums(environment, grid, unknown, None, breaker, of_calls or {}, sums.called)


def _sums(
    environment: str,
    grid: Grid,
    unknown: list[bool],
    operation: str | None,
    breaker: str | None,
    of_calls: Mapping[str, str],
    called: frozenset[tuple[str, str]] | None = None,
) -> Sums:
    if is_of_backend(of_calls):
        calls = rows_of_backend(environment, grid, of_calls, breaker, called)
        return Sums(grid, unknown, calls.rows, calls.called)
    if operation is not None or breaker is not None:
        some = _rows_of_some(environment, grid, operation, breaker, of_calls=of_calls)
        return Sums(grid, unknown, dict.fromkeys(_VIEW_OF.values(), some))
    if of_calls:
        return Sums(grid, unknown, rows_of_service(environment, grid, of_calls["service"]).rows)
    return Sums(grid, unknown, _rows_of_all(environment, grid))


def _rows_of_all(environment: str, grid: Grid) -> Mapping[View, Sequence[SumRow]]:
    """Each measure in the view made for it."""
    minutes = widest(VIEWS[View.CATEGORY], grid.bin_s // MINUTE_S)
    found = in_spans(environment, grid, minutes).filter(view__in=set(_VIEW_OF.values()))
    found = found.exclude(view=View.CATEGORY, failures=0)
    rows: dict[View, list[SumRow]] = {view: [] for view in _VIEW_OF.values()}
    for view, *values in binned(found, "span", minutes, grid, "view"):
        rows[View(view)].append(SumRow(*values))
    return rows


def _rows_of_some(
    environment: str,
    grid: Grid,
    operation: str | None,
    breaker: str | None,
    *,
    telling: Q = TELLING,
    of_calls: Mapping[str, str] | None = None,
) -> Sequence[SumRow]:
    """All measures of one operation or one breaker, or of some calls."""
    found, moment, minutes = in_all_dimensions(environment, grid)
    found = found.filter(telling, **(of_calls or {}))
    if of_calls:
        found = found.filter(service__gt="")  # as the index says it: SQLite does not conclude it
    if operation is not None:
        found = found.filter(operation=operation)
    if breaker is not None:
        found = found.filter(subject=breaker)  # its own, and those of its operation that name no breaker
    return [SumRow(*values) for values in binned(found, moment, minutes, grid)]


def calls_between(environment: str, *, start: datetime, end: datetime) -> int:
    """How many calls were counted in the spans that a window touches. One query; index `span_sum_once`."""
    width = bin_width_s(end - start)
    grid = Grid.over(start, end, width)
    found = in_spans(environment, grid, widest(VIEWS[View.CATEGORY], grid.bin_s // MINUTE_S)).filter(view=View.CATEGORY)
    return found.aggregate(calls=Sum("calls"))["calls"] or 0


def capacity_per_bin(
    environment: str, *, start: datetime, end: datetime, of_calls: Mapping[str, str] | None = None
) -> CapacityBins:
    """429 and 529 by "provider / model", `of_calls` as for `sums_per_bin`, and as many queries."""
    return sums_per_bin(environment, start=start, end=end, of_calls=of_calls).capacity()


def fallbacks_per_bin(environment: str, *, start: datetime, end: datetime, operation: str | None = None) -> Bins:
    """Answers by an alternative, by operation. Two queries."""
    return sums_per_bin(environment, start=start, end=end, operation=operation).fallbacks()


def rejections_per_bin(environment: str, *, start: datetime, end: datetime, breaker: str | None = None) -> Bins:
    """Calls that were not made, by breaker. Two queries."""
    return sums_per_bin(environment, start=start, end=end, breaker=breaker).rejections()


def capacity_name(provider: str, model: str, operation: str) -> str:
    """What to call the backend that a call went to: "helios / large", or the operation where nobody said."""
    return f"{provider} / {model}" if provider and model else provider or model or operation


def _kind(category: str, by: By) -> str:
    known = category_or_none(category) or Category.UNKNOWN
    return known.value if by == "category" else FAMILY_OF.get(known, Family.UNKNOWN).value


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


def _capacity(grid: Grid, unknown: list[bool], rows: Sequence[SumRow], *, names: Iterable[str] = ()) -> CapacityBins:
    """429 and 529 by the name of a backend; `names` are there also where no row names them."""
    kinds: dict[str, dict[str, list[int]]] = {
        kind: {name: [0] * grid.length for name in names} for kind in ("rate_limited", "overloaded")
    }
    marks = list(unknown)
    for row in rows:
        is_named = row.provider or row.model
        if not (is_named and (row.calls or row.failures)) and not (row.rate_limited or row.overloaded):
            continue
        name = capacity_name(row.provider, row.model, row.operation)
        marks[row.bin] = False
        for kind, lanes in kinds.items():
            lanes.setdefault(name, [0] * grid.length)[row.bin] += getattr(row, kind)
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
