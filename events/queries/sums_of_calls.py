"""What is kept to some calls: those to a provider or a model, or those of a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, CharField, F, IntegerField, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable

from events.models import SpanSum
from events.moments import MINUTE_S, Grid
from events.projections.sum_views import View
from events.queries.sum_rows import FAILED_OR_NAMED, REFUSED, SumRow, bin_of, in_all_dimensions, in_view, shown

_BACKEND = ("provider", "model")
_OF_NAMELESS = Case(
    When(Q(provider="", model="") & (Q(rate_limited__gt=0) | Q(overloaded__gt=0)), then=F("operation")),
    default=Value(""),
    output_field=CharField(),
)
"""By what a capacity error is told where nobody says whose it is."""
_DAY_S, _DAY_SPAN_MINUTES, _BEFORE = 86_400, 120, -1


@dataclass(frozen=True, slots=True)
class CallRows:
    """What was counted of some calls, in each view. Failures and capacity errors have the same rows."""

    rows: Mapping[View, Sequence[SumRow]]
    called: frozenset[tuple[str, str]] = frozenset()
    """As `Sums.called`."""


def is_of_backend(of_calls: Mapping[str, str] | None) -> bool:
    """Whether these are calls to a provider or a model."""
    return any(name in _BACKEND for name in of_calls or ())


def rows_of_service(environment: str, grid: Grid, service: str) -> CallRows:
    """All calls of a service. One query; indexes `span_sum_of_service`, `span_sum_refused`."""
    part = _Part(environment, grid, {"service": service}, {}, ())
    found, moment, minutes = in_all_dimensions(environment, grid)
    place = bin_of(moment, grid, minutes)
    calls = shown(
        part.some(found).filter(FAILED_OR_NAMED),
        View.BACKEND,
        place,
        *("category", "provider", "model"),
        operation=_OF_NAMELESS,
    )
    told = _by_view(calls.union(_refused(part, found, place), all=True))
    return _call_rows(told[View.BACKEND], told[View.OPERATION], frozenset())


def rows_of_backend(
    environment: str,
    grid: Grid,
    of_calls: Mapping[str, str],
    breaker: str | None,
    called: frozenset[tuple[str, str]] | None = None,
) -> CallRows:
    """The calls to a provider or model, and what its breakers refused. One query, which finds who `called` it, too, and
    one more where a server of before counted.

    Index `span_sum_once`; of some services or breakers `span_sum_of_provider`, `span_sum_refused`. For a model whose
    provider is not said it asks for that first.
    """
    backend = {name: value for name, value in of_calls.items() if name in _BACKEND}
    among = {name: value for name, value in of_calls.items() if name not in _BACKEND}
    if breaker is not None:
        among["subject"] = breaker
    part = _Part(environment, grid, among, backend, _providers_of(environment, grid, backend))
    told = _by_view(_parts(part, View.EACH if among else View.BACKEND, has_called=called is None))
    if not among and any(row.failures and not row.category for row in told[View.BACKEND]):
        # A server of before counted them, in the view that had no categories then (docs/decisions/0012).
        told = _by_view(_parts(part, View.EACH, has_called=called is None))
    if called is None:
        called = frozenset((row.breaker, row.operation) for row in told[View.EACH])
    breakers, operations = {breaker for breaker, _ in called}, {operation for _, operation in called}
    refused = [
        row for row in told[View.OPERATION] if (row.breaker in breakers if row.breaker else row.operation in operations)
    ]
    return _call_rows(told[View.BACKEND], refused, called)


def _call_rows(calls: Sequence[SumRow], refused: Sequence[SumRow], called: frozenset[tuple[str, str]]) -> CallRows:
    return CallRows({View.CATEGORY: calls, View.BACKEND: calls, View.OPERATION: refused}, called)


def _by_view(parts: Iterable[Any]) -> Mapping[View, Sequence[SumRow]]:
    told: dict[View, list[SumRow]] = {view: [] for view in (View.BACKEND, View.OPERATION, View.EACH)}
    for view, *values in parts:
        told[View(view)].append(SumRow(*values))
    return told


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

    def refused(self, found: QuerySet[Any]) -> QuerySet[Any]:
        """The same, for what has to be `REFUSED` besides. The service is said as a range: SQLite would otherwise look
        through all that the service did instead of the few rows that were refused.
        """
        others = {name: value for name, value in self.among.items() if name != "service"}
        service = self.among["service"]
        return found.filter(service__gt="", service__gte=service, service__lte=service, **others)


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


def _parts(part: _Part, calls: View, *, has_called: bool) -> Any:
    """Calls and failures, and what was refused or answered otherwise, each in the dimensions that are shown, after the
    view that tells of all calls; and with `has_called`, under `View.EACH`, who called.

    `calls` is the view that calls are read from: where all of them are meant, the one that keeps no service will do.
    """
    found, moment, minutes = in_all_dimensions(part.environment, part.grid)
    if calls is View.BACKEND:
        named, place = in_view(part.environment, part.grid, calls, **part.backend)
    else:
        named, place = part.named(found).filter(FAILED_OR_NAMED), bin_of(moment, part.grid, minutes)
    told = shown(named, View.BACKEND, place, "category", "provider", "model")
    others = [_refused(part, found, bin_of(moment, part.grid, minutes))]
    if has_called:
        first, last = _days_around(part.grid)
        kept = SpanSum.objects.filter(environment=part.environment, view=View.EACH, minutes=_DAY_SPAN_MINUTES)
        kept = part.named(kept.filter(span__gte=first, span__lte=last))
        before = Value(_BEFORE, output_field=IntegerField())
        others.append(shown(kept, View.EACH, before, "operation", "breaker", is_counted=False).distinct())
    return told.union(*others, all=True)


def _refused(part: _Part, found: QuerySet[Any], place: Combinable) -> Any:
    """What was refused or answered otherwise; `found` are the sums that keep every dimension, and in which bin."""
    if "service" in part.among:
        refused = part.refused(found)
    else:  # the view that keeps no service has fewer rows, and in wider spans
        refused, place = in_view(part.environment, part.grid, View.OPERATION, **part.among)
    return shown(refused.filter(REFUSED), View.OPERATION, place, "operation", "breaker")
