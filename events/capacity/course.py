"""How an outage went: failed attempts of its backends, in all regions, from its beginning on. By sums, so of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet, Sum

from events.capacity.rows import CapacityEventRow
from events.models import MinuteSum, SpanSum
from events.moments import MINUTE_S, US_PER_S, to_us
from events.projections.sum_views import VIEWS, View

POINTS_MOST = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Failed attempts in each span of `minutes` minutes, the one in which it began first.

    None where the sums of that time are not kept any more.
    """

    minutes: int
    counts: Sequence[int] | None


def courses(environment: str, *rows: CapacityEventRow) -> list[Course]:
    """Those of these events, in the narrowest spans of which the longest has no more than `POINTS_MOST`. A query each;
    index `span_sum_once`, or `minute_sum_once`.
    """
    longest = max(_minute(row.last) - _minute(row.started) for row in rows) + 1
    widths = VIEWS[View.BACKEND]
    minutes = next((width for width in widths if longest <= width * POINTS_MOST), widths[-1])
    return [Course(minutes=minutes, counts=_counts(environment, row, minutes)) for row in rows]


def _counts(environment: str, row: CapacityEventRow, minutes: int) -> list[int] | None:
    first, last = _minute(row.started) // minutes, _minute(row.last) // minutes
    sums = _sums_of(environment, row.parts or (row,), minutes).filter(at__gte=first, at__lte=last)
    found = dict(sums.values("at").annotate(count=Sum("failures")).order_by().values_list("at", "count"))
    return [found.get(at, 0) for at in range(first, last + 1)] if any(found.values()) else None


def _sums_of(environment: str, parts: Sequence[CapacityEventRow], minutes: int) -> QuerySet[Any]:
    """Those of its backends; where nobody names them, of the operations that called them. `at` is the span."""
    backends = Q()
    for part in parts:
        is_named = bool(part.provider or part.model)
        backends |= Q(provider=part.provider, model=part.model) if is_named else Q(operation=part.operation)
    sums: QuerySet[Any]
    if any(part.provider or part.model for part in parts):
        sums = SpanSum.objects.filter(view=View.BACKEND, minutes=minutes).annotate(at=F("span"))
    elif minutes == 1:
        sums = MinuteSum.objects.filter(provider="", model="").annotate(at=F("minute"))
    else:
        sums = SpanSum.objects.filter(view=View.EFFORT, minutes=minutes).annotate(at=F("span"))
    return sums.filter(backends, environment=environment)


def _minute(moment: datetime) -> int:
    return to_us(moment) // US_PER_S // MINUTE_S
