"""The failures of an outage, one by one and over time, and what answered instead first, while their events are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, Q, QuerySet

from events.capacity.course import courses
from events.capacity.rows import CapacityEventRow
from events.failures.sums import FailurePlace, behind
from events.models import Fact
from events.moments import MINUTE_S, US_PER_S, bin_width_s, from_us, to_us
from events.queries.readings import text_of
from events.queries.sums import FAILED
from events.queries.trouble import failure_row
from events.rows import FailureRow
from recovery_ops.rules.events import FallbackActivated
from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS
from recovery_ops.wire import names

FALLBACKS_READ = 200
COUNTED_MOST = 20_000
"""Failures of one outage that are counted one by one for its chart."""
_FELL_BACK = names.EVENTS[FallbackActivated].name
_FALLBACK = names.attribute_of(FallbackActivated, "fallback")
_BINS_MOST = 60
_NARROW_S = (1, 2, 5, 10, 30)
"""Widths of bins below a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureBins:
    """Failed attempts in each `bin_s` seconds from `start` on."""

    start: datetime
    bin_s: int
    counts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFallback:
    """What answered first instead of an operation."""

    at: datetime
    operation: str
    fallback: str
    run: str


def failures_in(
    row: CapacityEventRow,
    environment: str,
    *,
    limit: int = 20,
    is_oldest_first: bool = False,
    after: FailurePlace | None = None,
) -> list[FailureRow]:
    """Its newest failures, or its oldest, behind a place. One query; index `fact_by_event`."""
    found = _failures_of(row, environment).filter(behind(after, is_oldest_first=is_oldest_first))
    order = ("at_us", "id") if is_oldest_first else ("-at_us", "-id")
    return [failure_row(fact) for fact in found.select_related("agent").order_by(*order)[:limit]]


def failures_per_bin(row: CapacityEventRow, environment: str, *, until: datetime) -> FailureBins | None:
    """From its start to `until`, at most 60 bins of a second or more; None where nothing is kept. A query or two.

    Its failures are counted one by one, so that the bins add up to its number; those of a flood, or whose events have
    expired, by the sums of all failures of its backends.
    """
    lasted = until - row.started
    narrow_s = next((width for width in _NARROW_S if lasted <= timedelta(seconds=width * _BINS_MOST)), None)
    bin_s = narrow_s or bin_width_s(lasted, most_bins=_BINS_MOST)
    counts: Sequence[int] | None = _counts(row, environment, bin_s) if row.failures <= COUNTED_MOST else None
    if not counts:
        [course] = courses(environment, row)
        bin_s, counts = course.minutes * MINUTE_S, course.counts
    if not counts:
        return None
    first = to_us(row.started) // US_PER_S // bin_s
    length = (to_us(until) - 1) // US_PER_S // bin_s - first + 1
    told = [*counts, *[0] * (length - len(counts))]
    return FailureBins(start=from_us(first * bin_s * US_PER_S), bin_s=bin_s, counts=told)


def first_fallbacks(row: CapacityEventRow, environment: str) -> list[FirstFallback]:
    """The first answer of each fallback to its operations, of the first `FALLBACKS_READ`, oldest first. One query."""
    within = Fact.objects.filter(
        environment=environment, event=_FELL_BACK, at_us__gte=to_us(row.started), at_us__lte=to_us(row.last)
    )
    told = within.filter(operation__in=sorted(row.operations)).order_by("at_us", "id")
    found: dict[tuple[str, str], FirstFallback] = {}
    for at_us, operation, run, said in told.values_list("at_us", "operation", "run", "attributes")[:FALLBACKS_READ]:
        one = FirstFallback(at=from_us(at_us), operation=operation, fallback=text_of(said.get(_FALLBACK)), run=run)
        found.setdefault((operation, one.fallback), one)
    return list(found.values())


def _failures_of(row: CapacityEventRow, environment: str) -> QuerySet[Fact]:
    about = Q()
    for part in row.parts or (row,):
        one = Q(provider=part.provider, model=part.model, at_us__gte=to_us(part.started), at_us__lte=to_us(part.last))
        one &= Q(region=part.region or None)
        about |= one & Q(operation=part.operation) if part.operation else one
    return Fact.objects.filter(
        about,
        environment=environment,
        event=FAILED,
        at_us__gte=to_us(row.started),
        at_us__lte=to_us(row.last),
        category__in=[one.value for one in OUTAGE_COUNTS],
    )


def _counts(row: CapacityEventRow, environment: str, bin_s: int) -> list[int]:
    width_us = bin_s * US_PER_S
    first = to_us(row.started) // width_us
    bins = _failures_of(row, environment).order_by().values(bin=F("at_us") / width_us).annotate(count=Count("pk"))
    found = dict(bins.values_list("bin", "count"))
    return [found.get(at, 0) for at in range(first, max(found) + 1)] if found else []
