"""When in a week capacity runs short: the sums of four weeks, folded onto one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Sum

from events.models import SpanSum
from events.moments import MINUTE_S, US_PER_S, Grid, from_us
from events.projections.sum_views import View
from events.queries.fleet import reporting_spans

WEEKS = 4
HOURS = 2
PER_DAY = 24 // HOURS
_WIDTH_S = HOURS * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityWeek:
    """429 and 529 by weekday (Monday first) and span of two hours, in UTC, because so are the sums.

    `counts` has how many there were in all, `known` in how many of the four weeks somebody lived to tell.
    """

    start: datetime
    end: datetime
    counts: Sequence[Sequence[int]]
    known: Sequence[Sequence[int]]

    def per_week(self, day: int, span: int) -> float | None:
        """How many there were on average; None where nobody ever told."""
        weeks = self.known[day][span]
        return self.counts[day][span] / weeks if weeks else None


def capacity_week(environment: str, *, end: datetime) -> CapacityWeek:
    """The four weeks before a moment. Two queries; index `span_sum_once` over 337 spans."""
    start = end - timedelta(weeks=WEEKS)
    grid = Grid.over(start, end, _WIDTH_S)
    first = grid.start_s // _WIDTH_S
    sums = SpanSum.objects.filter(
        environment=environment,
        view=View.BACKEND,
        minutes=_WIDTH_S // MINUTE_S,
        span__gte=first,
        span__lt=first + grid.length,
    )
    grouped = sums.values("span").annotate(limited=Sum("rate_limited"), overloaded=Sum("overloaded")).order_by()
    told = {one["span"] - first: one["limited"] + one["overloaded"] for one in grouped}
    unknown = grid.outside(reporting_spans(environment, start=start, end=end))
    counts = [[0] * PER_DAY for _ in range(7)]
    known = [[0] * PER_DAY for _ in range(7)]
    for place, is_unknown in enumerate(unknown):
        at = from_us((grid.start_s + place * _WIDTH_S) * US_PER_S)
        day, span = at.weekday(), at.hour // HOURS
        counts[day][span] += told.get(place, 0)
        known[day][span] += not is_unknown or place in told
    return CapacityWeek(start=start, end=end, counts=counts, known=known)
