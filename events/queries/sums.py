"""Counts per bin of time, from the sums; one read answers for failures, capacity, fallbacks and rejections.

Bins are as wide as the range asks for, at least a minute because the sums are per minute; a range of a quarter of an
hour gets its failures in bins of 10 s, from the facts themselves, as long as there are few enough of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from django.db.models import CharField, Count, F, IntegerField, Q, QuerySet, Sum, Value
from django.db.models.expressions import Combinable

from events.models import Fact, MinuteSum, SpanSum
from events.moments import MINUTE_S, US_PER_S, Grid, Span, bin_width_s
from events.queries.fleet import reporting_spans
from events.queries.readings import category_or_none
from events.rows import Bins, CapacityBins
from events.sum_views import VIEWS, View
from recovery_ops.rules.facts import FailureClassified
from recovery_ops.rules.words import FAMILY_OF, Category, Family
from recovery_ops.wire import names

FINE_BIN_S = 10
FINE_UP_TO = timedelta(minutes=15)
FACTS_READ = 5_000
"""With more failures than this in a short range, its bins are minutes after all."""
FAILED = names.EVENTS[FailureClassified].name

By = Literal["category", "family"]

_MEASURES = ("failures", "rate_limited", "overloaded", "fallbacks", "rejections", "calls", "successes")
_VIEW_OF = {
    "failures": View.CATEGORY,
    "rate_limited": View.BACKEND,
    "overloaded": View.BACKEND,
    "fallbacks": View.OPERATION,
    "rejections": View.OPERATION,
}
"""Which view tells most about a measure in the fewest rows."""
_TELLING = (
    Q(failures__gt=0)
    | Q(fallbacks__gt=0)
    | Q(rejections__gt=0)
    | Q(rate_limited__gt=0)
    | Q(overloaded__gt=0)
    | (Q(calls__gt=0) & (Q(provider__gt="") | Q(model__gt="")))
)
"""Calls that went well say nothing here, except that a provider answered well; grouping them would cost the most."""


class _Row(NamedTuple):
    """What was counted in one bin, in the dimensions that its view keeps."""

    bin: int
    category: str
    provider: str
    model: str
    operation: str
    breaker: str
    failures: int
    rate_limited: int
    overloaded: int
    fallbacks: int
    rejections: int
    calls: int
    successes: int


_KEPT = _Row._fields[1:6]
_BACKEND = ("provider", "model")
_REFUSED = Q(fallbacks__gt=0) | Q(rejections__gt=0)
_DAY_S, _DAY_SPAN_MINUTES, _BEFORE = 86_400, 120, -1


@dataclass(frozen=True, slots=True)
class Sums:
    """What was counted in a window, in each view."""

    grid: Grid
    unknown: list[bool]
    rows: Mapping[View, Sequence[_Row]]
    called: frozenset[tuple[str, str]] = frozenset()
    """With a provider or a model: the breaker and operation of each call that named it, in the window or within the day
    before its end. What was not called is counted by these, for it names no provider."""

    def failures(self, by: By = "category") -> Bins:
        """Failures by category or by family."""
        return self._bins("failures", lambda row: _kind(row.category, by))

    def fallbacks(self) -> Bins:
        """Answers by an alternative, by operation."""
        return self._bins("fallbacks", lambda row: row.operation)

    def rejections(self) -> Bins:
        """Calls that were not made, by breaker."""
        return self._bins("rejections", lambda row: row.breaker or row.operation)

    def capacity(self) -> CapacityBins:
        """429 and 529 by "provider / model"; those that were called and never answered so have zeros."""
        return _capacity(self.grid, self.unknown, self.rows[View.BACKEND])

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

    def _bins(self, measure: str, name_of: Callable[[_Row], str]) -> Bins:
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

    `bin_s` is a multiple of 60; without it the width follows from the window. With `reporting`, what `reporting_spans`
    says of the window, it is one query less. What merely went well is read only where it `has_successes`, of one
    breaker. `of_calls` leaves the calls to a `provider` or `model`, or those of a `service`.
    """
    grid = Grid.over(start, end, bin_s or bin_width_s(end - start))
    known = reporting_spans(environment, start=start, end=end) if reporting is None else reporting
    unknown = grid.outside(known)
    if has_successes:
        rows = _rows_of_some(environment, grid, operation, breaker, telling=_TELLING | Q(successes__gt=0))
        return Sums(grid, unknown, dict.fromkeys(_VIEW_OF.values(), rows))
    if any(name in _BACKEND for name in of_calls or ()):
        return _sums_of_backend(environment, grid, unknown, breaker, of_calls or {})
    return _sums(environment, grid, unknown, operation, breaker, of_calls)


def sums_earlier(
    environment: str,
    sums: Sums,
    by: timedelta,
    *,
    breaker: str | None,
    reporting: Sequence[Span],
    of_calls: Mapping[str, str] | None = None,
) -> Sums:
    """What was counted so much earlier, in whole bins, so that each lies under one of `sums`. One query.

    `reporting` is what `reporting_spans` says of that time.
    """
    now = sums.grid
    back_s = round(by.total_seconds() / now.bin_s) * now.bin_s
    grid = Grid(now.start_s - back_s, now.bin_s, now.length)
    unknown = grid.outside(reporting)
    if any(name in _BACKEND for name in of_calls or ()):
        return _sums_of_backend(environment, grid, unknown, breaker, of_calls or {}, sums.called)
    return _sums(environment, grid, unknown, None, breaker, of_calls)


def _sums_of_backend(
    environment: str,
    grid: Grid,
    unknown: list[bool],
    breaker: str | None,
    of_calls: Mapping[str, str],
    called: frozenset[tuple[str, str]] | None = None,
) -> Sums:
    """The calls to a provider or model, and what its breakers refused. One query, which finds who `called` it, too.

    Index `span_sum_once`; of some services or breakers `span_sum_of_provider`, `span_sum_refused`. For a model whose
    provider is not said it asks for that first.
    """
    backend = {name: value for name, value in of_calls.items() if name in _BACKEND}
    among = {name: value for name, value in of_calls.items() if name not in _BACKEND}
    if breaker is not None:
        among["subject"] = breaker
    part = _Part(environment, grid, among, backend, _providers_of(environment, grid, backend))
    told = _told(part, View.EACH if among else View.BACKEND, has_called=called is None)
    if not among and any(row.failures and not row.category for row in told[View.BACKEND]):
        # A server of before counted them, in the view that had no categories then (docs/decisions/0116).
        told = _told(part, View.EACH, has_called=called is None)
    if called is None:
        called = frozenset((row.breaker, row.operation) for row in told[View.EACH])
    breakers, operations = {breaker for breaker, _ in called}, {operation for _, operation in called}
    refused = [
        row for row in told[View.OPERATION] if (row.breaker in breakers if row.breaker else row.operation in operations)
    ]
    rows = {View.CATEGORY: told[View.BACKEND], View.BACKEND: told[View.BACKEND], View.OPERATION: refused}
    return Sums(grid, unknown, rows, called)


@dataclass(frozen=True, slots=True)
class _Part:
    """Which calls are meant: those `among` all, to a `backend`, which is one of these `providers`."""

    environment: str
    grid: Grid
    among: Mapping[str, str]
    backend: Mapping[str, str]
    providers: Sequence[str]

    def named(self, found: QuerySet[Any]) -> QuerySet[Any]:
        """What names the backend; where somebody names the model alone, there is no provider to find it by."""
        found = self.some(found).filter(**self.backend)
        return found if "" in self.providers else found.filter(provider__gt="", provider__in=self.providers)

    def some(self, found: QuerySet[Any]) -> QuerySet[Any]:
        """Those `among` all. That there is a service is said as the indexes say it: SQLite concludes nothing."""
        return found.filter(service__gt="", **self.among)


def _providers_of(environment: str, grid: Grid, backend: Mapping[str, str]) -> list[str]:
    """Whose the backend is, as the sums of the days around say: calls are found by their provider. One query, and none
    where the provider is said.
    """
    if "provider" in backend:
        return [backend["provider"]]
    first, last = _days_around(grid)
    found = SpanSum.objects.filter(environment=environment, view=View.BACKEND, minutes=_DAY_SPAN_MINUTES)
    found = found.filter(span__gte=first, span__lte=last, **backend)
    return sorted(set(found.order_by().values_list("provider", flat=True)))


def _days_around(grid: Grid) -> tuple[int, int]:
    """The first and the last of the longest spans in the window, or within the day before its end."""
    first = min(grid.start_s, grid.end_s - _DAY_S) // MINUTE_S // _DAY_SPAN_MINUTES
    return first, (grid.end_s - 1) // MINUTE_S // _DAY_SPAN_MINUTES


def _told(part: _Part, calls: View, *, has_called: bool) -> Mapping[View, Sequence[_Row]]:
    """The rows of `_parts` by view. One query."""
    told: dict[View, list[_Row]] = {view: [] for view in (View.BACKEND, View.OPERATION, View.EACH)}
    for view, *values in _parts(part, calls, has_called=has_called):
        told[View(view)].append(_Row(*values))
    return told


def _parts(part: _Part, calls: View, *, has_called: bool) -> Any:
    """Calls and failures, and what was refused or answered otherwise, each in the dimensions that are shown, after the
    view that tells of all calls; and with `has_called`, under `View.EACH`, who called.

    `calls` is the view that calls are read from: where all of them are meant, the one that keeps no service will do.
    """
    found, moment, minutes = _in_all_dimensions(part.environment, part.grid)
    if calls is View.BACKEND:
        named, place = _in_view(part, calls, part.backend)
    else:
        named, place = part.named(found).filter(_TELLING), _bin_of(moment, part.grid, minutes)
    told = _shown(named, View.BACKEND, place, "category", "provider", "model")
    if "service" in part.among:
        refused, place = part.some(found), _bin_of(moment, part.grid, minutes)
    else:  # the view that keeps no service has fewer rows, and in wider spans
        refused, place = _in_view(part, View.OPERATION, part.among)
    others = [_shown(refused.filter(_REFUSED), View.OPERATION, place, "operation", "breaker")]
    if has_called:
        first, last = _days_around(part.grid)
        kept = SpanSum.objects.filter(environment=part.environment, view=View.EACH, minutes=_DAY_SPAN_MINUTES)
        kept = part.named(kept.filter(span__gte=first, span__lte=last))
        before = Value(_BEFORE, output_field=IntegerField())
        others.append(_shown(kept, View.EACH, before, "operation", "breaker", is_counted=False).distinct())
    return told.union(*others, all=True)


def _in_view(part: _Part, view: View, kept: Mapping[str, str]) -> tuple[QuerySet[Any], Combinable]:
    """The widest sums of a view that have these values, and in which bin each is."""
    minutes = widest(VIEWS[view], part.grid.bin_s // MINUTE_S)
    found = _in_spans(part.environment, part.grid, minutes).filter(view=view, **kept)
    return found, _bin_of("span", part.grid, minutes)


def _bin_of(moment: str, grid: Grid, minutes: int) -> Combinable:
    return (F(moment) - _first(grid, minutes)) / (grid.bin_s // MINUTE_S // minutes)


def _shown(found: QuerySet[Any], view: View, place: Combinable, *dimensions: str, is_counted: bool = True) -> Any:
    """All measures, or zeros, by bin and by these dimensions; the others are empty."""
    kept = {f"of_{name}": F(name) if name in dimensions else Value("", CharField()) for name in _KEPT}
    sums = {f"all_{measure}": Sum(measure) if is_counted else Value(0) for measure in _MEASURES}
    grouped = found.values(view_of=Value(view.value, CharField()), bin=place, **kept).annotate(**sums)
    return grouped.order_by().values_list("view_of", "bin", *kept, *sums)


def _sums(
    environment: str,
    grid: Grid,
    unknown: list[bool],
    operation: str | None,
    breaker: str | None,
    of_calls: Mapping[str, str] | None,
) -> Sums:
    if operation is None and breaker is None and not of_calls:
        rows = _rows_of_all(environment, grid)
    else:
        some = _rows_of_some(environment, grid, operation, breaker, of_calls=of_calls)
        rows = dict.fromkeys(_VIEW_OF.values(), some)
    return Sums(grid, unknown, rows)


def _rows_of_all(environment: str, grid: Grid) -> Mapping[View, Sequence[_Row]]:
    """Each measure in the view made for it."""
    minutes = widest(VIEWS[View.CATEGORY], grid.bin_s // MINUTE_S)
    found = _in_spans(environment, grid, minutes).filter(view__in=set(_VIEW_OF.values()))
    found = found.exclude(view=View.CATEGORY, failures=0)
    rows: dict[View, list[_Row]] = {view: [] for view in _VIEW_OF.values()}
    for view, *values in _binned(found, "span", minutes, grid, "view"):
        rows[View(view)].append(_Row(*values))
    return rows


def _rows_of_some(
    environment: str,
    grid: Grid,
    operation: str | None,
    breaker: str | None,
    *,
    telling: Q = _TELLING,
    of_calls: Mapping[str, str] | None = None,
) -> Sequence[_Row]:
    """All measures of one operation or one breaker, or of some calls."""
    found, moment, minutes = _in_all_dimensions(environment, grid)
    found = found.filter(telling, **(of_calls or {}))
    if of_calls:
        found = found.filter(service__gt="")  # as the index says it: SQLite does not conclude it
    if operation is not None:
        found = found.filter(operation=operation)
    if breaker is not None:
        found = found.filter(subject=breaker)  # its own, and those of its operation that name no breaker
    return [_Row(*values) for values in _binned(found, moment, minutes, grid)]


def _in_all_dimensions(environment: str, grid: Grid) -> tuple[QuerySet[Any], str, int]:
    """The widest sums that keep every dimension, in which field their moment is, and how many minutes they span."""
    minutes = widest((1, *VIEWS[View.EACH]), grid.bin_s // MINUTE_S)
    if minutes > 1:
        return _in_spans(environment, grid, minutes).filter(view=View.EACH), "span", minutes
    first, until = grid.start_s // MINUTE_S, grid.end_s // MINUTE_S
    return MinuteSum.objects.filter(environment=environment, minute__gte=first, minute__lt=until), "minute", minutes


def widest(widths: Iterable[int], minutes: int) -> int:
    """The longest of these spans that so many minutes are made of."""
    return max(width for width in widths if minutes % width == 0)


def _in_spans(environment: str, grid: Grid, minutes: int) -> QuerySet[SpanSum]:
    first, until = grid.start_s // MINUTE_S // minutes, grid.end_s // MINUTE_S // minutes
    return SpanSum.objects.filter(environment=environment, minutes=minutes, span__gte=first, span__lt=until)


def _binned(found: QuerySet[Any], moment: str, minutes: int, grid: Grid, *more: str) -> Iterable[Any]:
    """`more`, the bin, the dimensions and the measures; rows of one bin are added up where it has several spans."""
    first, per_bin = _first(grid, minutes), grid.bin_s // MINUTE_S // minutes
    rows: Iterable[Any]
    if per_bin == 1:
        rows = found.annotate(bin=F(moment) - first).order_by().values_list(*more, "bin", *_KEPT, *_MEASURES)
    else:
        rows = _grouped(found, (F(moment) - first) / per_bin, *more)
    return rows


def _first(grid: Grid, minutes: int) -> int:
    return grid.start_s // MINUTE_S // minutes


def _grouped(found: QuerySet[Any], place: Combinable, *more: str) -> Any:
    sums = {f"all_{measure}": Sum(measure) for measure in _MEASURES}
    grouped = found.values(*more, *_KEPT, bin=place).annotate(**sums)
    return grouped.order_by().values_list(*more, "bin", *_KEPT, *sums)


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


def calls_between(environment: str, *, start: datetime, end: datetime) -> int:
    """How many calls were counted in the spans that a window touches. One query; index `span_sum_once`."""
    width = bin_width_s(end - start)
    grid = Grid.over(start, end, width)
    found = _in_spans(environment, grid, widest(VIEWS[View.CATEGORY], grid.bin_s // MINUTE_S)).filter(
        view=View.CATEGORY
    )
    return found.aggregate(calls=Sum("calls"))["calls"] or 0


def capacity_per_bin(
    environment: str, *, start: datetime, end: datetime, of_calls: Mapping[str, str] | None = None
) -> CapacityBins:
    """429 and 529 by "provider / model", `of_calls` as for `sums_per_bin`. Two queries."""
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
