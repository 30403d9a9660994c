"""The heat of a usual week: weekdays from top to bottom, hours from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from django.utils.safestring import SafeString

from events.charts.drawing import axis_of, heat_cells
from events.queries.weekly import HOURS, PER_DAY, WEEKS, CapacityWeek, capacity_week
from events.timelines.counts import heat_step
from events.wording import rate_text
from recovery_ops.control.dashboard.views.lanes import Row

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SPANS = tuple(f"{place * HOURS:02}–{(place + 1) * HOURS:02} h" for place in range(PER_DAY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """Lanes by weekday over an axis of hours, the sentence on them, and the same as a table."""

    rows: Sequence[Row]
    axis: SafeString
    words: str
    table: Sequence[tuple[str, Sequence[str]]]
    spans: Sequence[str] = SPANS


def week_of(environment: str, *, now: datetime) -> Week:
    """Read and draw it. Two queries."""
    found = capacity_week(environment, end=now)
    hottest = max((found.per_week(day, span) or 0.0 for day in range(7) for span in range(PER_DAY)), default=0.0)
    return Week(
        rows=[_row(found, day, hottest) for day in range(7)],
        axis=axis_of([(place / PER_DAY, f"{place * HOURS:02}:00") for place in range(1, PER_DAY)]),
        words=_words(found, hottest),
        table=[
            (name, [_cell_words(found.per_week(day, span)) for span in range(PER_DAY)]) for day, name in enumerate(DAYS)
        ],
    )


def _row(found: CapacityWeek, day: int, hottest: float) -> Row:
    values = [found.per_week(day, span) for span in range(PER_DAY)]
    cells = [
        (None if value is None else heat_step(ceil(value), round(hottest)), f"{DAYS[day]} {name}: {_cell_words(value)}")
        for name, value in zip(SPANS, values, strict=True)
    ]
    told = f"{sum(found.counts[day]):,} in all" if any(found.known[day]) else "unknown"
    return Row(label=DAYS[day], drawing=heat_cells(cells, label=f"{DAYS[day]}, {told}"), value=told)


def _cell_words(value: float | None) -> str:
    return "unknown" if value is None else f"{rate_text(value)} a week"


def _words(found: CapacityWeek, hottest: float) -> str:
    """When it is worst, and how much of the week is known at all."""
    known = sum(weeks > 0 for day in found.known for weeks in day)
    if not hottest:
        return f"No 429 and no 529 in {WEEKS} weeks, as far as it is known: {known} of {7 * PER_DAY} spans."
    day, span = next((day, span) for day in range(7) for span in range(PER_DAY) if found.per_week(day, span) == hottest)
    worst = f"Worst on {DAYS[day]} {SPANS[span]}, with {rate_text(hottest)} in such a span on average"
    return f"{worst}; {known} of {7 * PER_DAY} spans of the week are known."
