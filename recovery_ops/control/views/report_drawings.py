"""The drawings of the report: when in a week people are asked, and how the questions of each week ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from events.drawing import axis_of, heat_cells, stacked
from events.timelines.counts import heat_step
from events.wording import count_text
from recovery_ops.control.escalations.report import Span
from recovery_ops.control.views.strip import Row
from recovery_ops.control.views.week import DAYS

_HOURS = 24
_LABEL_EVERY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Lanes by weekday over an axis of hours, the sentence on them, and the same as a table: hours down, `days` across,
    which fits a phone."""

    rows: Sequence[Row]
    axis: SafeString
    words: str
    table: Sequence[tuple[str, Sequence[int]]]
    days: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endings:
    """A bar for each week: what was taken in time, taken late, and what nobody took or its deadline answered."""

    drawing: SafeString
    rows: Sequence[tuple[str, int, int, int]]


def hours_of(span: Span) -> Hours | None:
    """When the questions of a span were put; None where there were none."""
    hottest = max((count for day in span.by_hour for count in day), default=0)
    if not hottest:
        return None
    day, hour = next((day, hour) for day in range(7) for hour in range(_HOURS) if span.by_hour[day][hour] == hottest)
    rows = [
        Row(
            label=name,
            drawing=heat_cells(
                [
                    (heat_step(count, hottest), f"{name} {begins:02}:00: {count_text(count, 'question')}")
                    for begins, count in enumerate(counts)
                ],
                label=f"{name}, {count_text(sum(counts), 'question')}",
            ),
            value=f"{sum(counts):,}",
        )
        for name, counts in zip(DAYS, span.by_hour, strict=True)
    ]
    labelled = range(0, _HOURS, _LABEL_EVERY)
    return Hours(
        rows=rows,
        axis=axis_of([((begins + 0.5) / _HOURS, f"{begins:02}") for begins in labelled]),
        words=f"Most on {DAYS[day]} from {hour:02}:00 to {hour + 1:02}:00: {count_text(hottest, 'question')}.",
        table=[(f"{begins:02}:00", counts) for begins, counts in enumerate(zip(*span.by_hour, strict=True))],
        days=[day[:3] for day in DAYS],
    )


def endings_of(weeks: Sequence[Span]) -> Endings | None:
    """How the questions of each week came out, the oldest week first; None for one week, or for none asked."""
    if len(weeks) < 2 or not any(week.opened for week in weeks):
        return None
    rows = []
    for week in weeks:
        kept = week.acknowledged_in_time
        rows.append((f"{week.week:%d %b}", kept.kept, kept.of - kept.kept, week.opened - kept.of))
    bars = [(name, counts) for name, *counts in rows]
    return Endings(drawing=stacked(bars, ("closed", "open", "wait"), label="Questions by week"), rows=rows)
