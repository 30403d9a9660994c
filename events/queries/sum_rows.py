"""Rows of sums: how those of a window are found in the widest spans that fit its bins, and what each says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db.models import CharField, F, Q, QuerySet, Sum, Value
from django.db.models.expressions import Combinable

from events.models import MinuteSum, SpanSum
from events.moments import MINUTE_S, Grid
from events.projections.sum_views import VIEWS, View

MEASURES = ("failures", "rate_limited", "overloaded", "fallbacks", "rejections", "calls", "successes")
REFUSED = Q(fallbacks__gt=0) | Q(rejections__gt=0)
FAILED_OR_NAMED = (
    Q(failures__gt=0)
    | Q(rate_limited__gt=0)
    | Q(overloaded__gt=0)
    | (Q(calls__gt=0) & (Q(provider__gt="") | Q(model__gt="")))
)
"""What is told by category, or says that a provider or a model was called."""
TELLING = FAILED_OR_NAMED | REFUSED
"""Calls that went well say nothing here, except that a provider answered well; grouping them would cost the most."""


class SumRow(NamedTuple):
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


KEPT = SumRow._fields[1:6]


def in_all_dimensions(environment: str, grid: Grid) -> tuple[QuerySet[Any], str, int]:
    """The widest sums that keep every dimension, in which field their moment is, and how many minutes they span."""
    minutes = widest((1, *VIEWS[View.EACH]), grid.bin_s // MINUTE_S)
    if minutes > 1:
        return in_spans(environment, grid, minutes).filter(view=View.EACH), "span", minutes
    first, until = grid.start_s // MINUTE_S, grid.end_s // MINUTE_S
    return MinuteSum.objects.filter(environment=environment, minute__gte=first, minute__lt=until), "minute", minutes


def widest(widths: Iterable[int], minutes: int) -> int:
    """The longest of these spans that so many minutes are made of."""
    return max(width for width in widths if minutes % width == 0)


def in_spans(environment: str, grid: Grid, minutes: int) -> QuerySet[SpanSum]:
    """All spans of so many minutes in the window."""
    first, until = grid.start_s // MINUTE_S // minutes, grid.end_s // MINUTE_S // minutes
    return SpanSum.objects.filter(environment=environment, minutes=minutes, span__gte=first, span__lt=until)


def binned(found: QuerySet[Any], moment: str, minutes: int, grid: Grid, *more: str) -> Iterable[Any]:
    """`more`, the bin, the dimensions and the measures; rows of one bin are added up where it has several spans."""
    first, per_bin = _first(grid, minutes), grid.bin_s // MINUTE_S // minutes
    rows: Iterable[Any]
    if per_bin == 1:
        rows = found.annotate(bin=F(moment) - first).order_by().values_list(*more, "bin", *KEPT, *MEASURES)
    else:
        rows = _grouped(found, (F(moment) - first) / per_bin, *more)
    return rows


def _first(grid: Grid, minutes: int) -> int:
    return grid.start_s // MINUTE_S // minutes


def _grouped(found: QuerySet[Any], place: Combinable, *more: str) -> Any:
    sums = {f"all_{measure}": Sum(measure) for measure in MEASURES}
    grouped = found.values(*more, *KEPT, bin=place).annotate(**sums)
    return grouped.order_by().values_list(*more, "bin", *KEPT, *sums)


def bin_of(moment: str, grid: Grid, minutes: int) -> Combinable:
    """In which bin a row is."""
    return (F(moment) - _first(grid, minutes)) / (grid.bin_s // MINUTE_S // minutes)


def in_view(environment: str, grid: Grid, view: View, **kept: str) -> tuple[QuerySet[SpanSum], Combinable]:
    """The widest sums of a view that have these values, and in which bin each is."""
    minutes = widest(VIEWS[view], grid.bin_s // MINUTE_S)
    return in_spans(environment, grid, minutes).filter(view=view, **kept), bin_of("span", grid, minutes)


def shown(
    found: QuerySet[Any],
    view: View,
    place: Combinable,
    *dimensions: str,
    is_counted: bool = True,
    **others: Combinable,
) -> Any:
    """After the word of a view all measures, or zeros, by bin and by these dimensions; the others are empty, or what is
    said of them.
    """
    empty = Value("", CharField())
    kept = {f"of_{name}": F(name) if name in dimensions else others.get(name, empty) for name in KEPT}
    sums = {f"all_{measure}": Sum(measure) if is_counted else Value(0) for measure in MEASURES}
    grouped = found.values(view_of=Value(view.value, CharField()), bin=place, **kept).annotate(**sums)
    return grouped.order_by().values_list("view_of", "bin", *kept, *sums)
