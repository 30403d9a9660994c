"""How each operation was called lately: by whom, how often, and how many attempts a call took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Case, QuerySet, Sum, Value, When

from events.ingest.cardinality import OTHER, Kind
from events.models import BreakerState, KnownName, MinuteSum, SpanSum
from events.moments import MINUTE_S, US_PER_S, to_us
from events.projections.sum_views import View
from events.queries.amplification import spent_on_more
from events.rows import OperationRow

LISTED_MINUTES = 60
RATE_MINUTES = 5
SPAN_MINUTES = 5
DAY_SPAN_MINUTES = 15
_SPANS_A_DAY = 24 * 60 // DAY_SPAN_MINUTES
_MEASURES = ("calls", "attempts", "failures", "fallbacks", "retries")


@dataclass(slots=True)
class _Tally:
    breaker: str = ""
    services: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    foreground: set[str] = field(default_factory=set)
    hour: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_MEASURES, 0))
    recent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_MEASURES, 0))
    by_caller: dict[tuple[str, bool], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """The same of the hour, by source and whether somebody waits for it: as amplification is told."""


def operations(environment: str, *, now: datetime) -> list[OperationRow]:
    """Every operation of the last hour, and those of which only a breaker is known, by name. Three queries.

    Rates are over the last five minutes, ratios over the last hour.
    Indexes: `minute_sum_once`, `span_sum_once`, `breaker_state_once`.
    """
    tallies: dict[str, _Tally] = {}
    minute = to_us(now) // US_PER_S // MINUTE_S
    for row in _last_hour(environment, minute):
        _add(tallies.setdefault(row["operation"], _Tally()), row)
    known = BreakerState.objects.filter(environment=environment).values_list("breaker", "operation")
    for breaker, operation in known.distinct().order_by():
        if operation and operation not in tallies:
            tallies[operation] = _Tally(breaker=breaker)
    minutes = RATE_MINUTES - 1 + to_us(now) / US_PER_S % MINUTE_S / MINUTE_S
    return [_row(name, tallies[name], minutes) for name in sorted(tallies)]


def is_known_operation(environment: str, name: str) -> bool:
    """Whether any event of this environment named the operation, however long ago. One query."""
    known = KnownName.objects.filter(environment=environment, kind=Kind.OPERATION.value, name=name)
    return name == OTHER or known.exists()


def calls_of_a_day(environment: str, *, now: datetime) -> Mapping[str, int]:
    """How many calls of each operation were counted in the last 24 hours, to the quarter of an hour; those of none are
    not in it. One query; index `span_sum_once`.
    """
    span = to_us(now) // US_PER_S // MINUTE_S // DAY_SPAN_MINUTES
    spans = SpanSum.objects.filter(environment=environment, view=View.EFFORT, minutes=DAY_SPAN_MINUTES)
    spans = spans.filter(span__gt=span - _SPANS_A_DAY, span__lte=span).exclude(operation="")
    found = spans.values("operation").annotate(called=Sum("calls")).filter(called__gt=0).order_by()
    return dict(found.values_list("operation", "called"))


def _last_hour(environment: str, minute: int) -> Iterator[Mapping[str, Any]]:
    """What was counted in it: the minutes at its ends one by one, those between in whole spans."""
    first, until = minute - LISTED_MINUTES + 1, minute - RATE_MINUTES + 1
    whole = range(-(-first // SPAN_MINUTES), until // SPAN_MINUTES)
    # By their numbers: two ranges at once need not be read by the index alone.
    sides = range(first, whole.start * SPAN_MINUTES), range(whole.stop * SPAN_MINUTES, minute + 1)
    ends = MinuteSum.objects.filter(environment=environment, minute__in=[*sides[0], *sides[1]])
    is_recent = Case(When(minute__gte=until, then=Value(True)), default=Value(False))
    yield from _grouped(ends.annotate(is_recent=is_recent))
    between = SpanSum.objects.filter(environment=environment, view=View.EACH, minutes=SPAN_MINUTES)
    between = between.filter(span__gte=whole.start, span__lt=whole.stop)
    yield from _grouped(between.annotate(is_recent=Value(False)))


def _grouped(sums: QuerySet[Any]) -> Iterable[Mapping[str, Any]]:
    kept = sums.exclude(operation="").values("operation", "breaker", "service", "source", "is_foreground", "is_recent")
    found: Iterable[Mapping[str, Any]] = kept.annotate(**{one: Sum(one) for one in _MEASURES}).order_by()
    return found


def _add(tally: _Tally, row: Mapping[str, Any]) -> None:
    tally.breaker = tally.breaker or row["breaker"]
    tally.services.update({row["service"]} - {""})
    tally.sources.update({row["source"]} - {""})
    if row["is_foreground"]:
        tally.foreground.update({row["source"]} - {""})
    for measure in _MEASURES:
        tally.hour[measure] += row[measure]
        tally.by_caller[row["source"], row["is_foreground"]][measure] += row[measure]
        if row["is_recent"]:
            tally.recent[measure] += row[measure]


def _row(name: str, tally: _Tally, minutes: float) -> OperationRow:
    attempts = tally.hour["attempts"]
    more = sum(spent_on_more(one["calls"], one["attempts"], one["retries"]) for one in tally.by_caller.values())
    return OperationRow(
        operation=name,
        breaker=tally.breaker or name,
        services=tuple(sorted(tally.services)),
        sources=tuple(sorted(tally.sources)),
        foreground_sources=tuple(sorted(tally.foreground)),
        calls_per_min=tally.recent["calls"] / minutes,
        failures_per_min=tally.recent["failures"] / minutes,
        fallbacks_per_min=tally.recent["fallbacks"] / minutes,
        attempts_per_call=attempts / (attempts - more) if attempts > more else None,
        failure_rate=min(1.0, tally.hour["failures"] / attempts) if attempts else None,
    )
