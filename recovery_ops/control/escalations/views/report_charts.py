"""The drawings of the report: when in a week people are asked, how soon they took and resolved it in each week and of
each group, and how the questions and the runs of each week ended.

Each has its numbers as a table on the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from django.utils.safestring import SafeString

from events.charts.boxes import Box, Scale, lying, upright
from events.charts.drawing import axis_of, heat_cells, stacked
from events.timelines.counts import heat_step
from events.wording import count_text, listing, span_text
from recovery_ops.control.capacity.views.week import DAYS
from recovery_ops.control.dashboard.views.lanes import Row
from recovery_ops.control.escalations.selectors.report import Load, Span

_HOURS = 24
_LABEL_EVERY = 3
_MOST_GROUPS = 12


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
    """A bar of three parts for each week, and the same as rows."""

    drawing: SafeString
    rows: Sequence[tuple[str, int | None, int | None, int | None]]
    """None where nobody knows."""
    unknown: str = ""
    """Those weeks, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekBoxes:
    """How long something took, a box for each week, and the same as rows; `key` names it in addresses of the page."""

    key: str
    title: str
    drawing: SafeString
    rows: Sequence[tuple[str, Box | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Rows of lanes over one axis."""

    rows: Sequence[Row]
    axis: SafeString


def boxes_of(weeks: Sequence[Span]) -> list[WeekBoxes]:
    """How soon the questions of each week were taken, and resolved, the oldest week first; nothing for one week."""
    if len(weeks) < 2:
        return []
    told = [
        ("take", "MTTA", [(week, week.acknowledging.box) for week in weeks]),
        ("resolve", "MTTR", [(week, week.resolving.box) for week in weeks]),
    ]
    found = []
    for key, title, boxes in told:
        rows = [(_day(week.week), box) for week, box in boxes]
        if any(box is not None for _, box in rows):
            drawing = upright(rows, label=f"{title}, by week")
            found.append(WeekBoxes(key=key, title=title, drawing=drawing, rows=rows))
    return found


def group_lanes(loads: Sequence[Load]) -> Lanes | None:
    """A lane for each group, how soon it was taken and resolved; None where nobody did either."""
    boxes = [(load, load.acknowledging.box, load.resolving.box) for load in loads[:_MOST_GROUPS]]
    drawn = [box for _, *both in boxes for box in both if box is not None]
    if not drawn:
        return None
    scale = Scale.of(drawn)
    rows = [
        Row(
            label=load.name,
            drawing=lying([("taken", taken), ("resolved", resolved)], scale=scale, label=load.name),
            value="–" if resolved is None else span_text(resolved.median_s),
        )
        for load, taken, resolved in boxes
    ]
    return Lanes(rows=rows, axis=axis_of(scale.ticks))


def runs_of(weeks: Sequence[Span]) -> Endings | None:
    """How runs that met trouble ended in each week: by themselves, with a person's help, or lost; None for one week, or
    where no day was summed up.
    """
    if len(weeks) < 2 or not any(week.troubled for week in weeks):
        return None
    rows = [(_day(week.week), week.alone, week.helped, week.lost) for week in weeks]
    bars = [(name, [count or 0 for count in counts]) for name, *counts in rows]
    words = ("auto-recovered", "with human input", "failed")
    drawing = stacked(bars, ("closed", "half_open", "open"), label="Recovery of runs by week", words=words)
    unknown = [name for name, alone, *_ in rows if alone is None]
    return Endings(drawing=drawing, rows=rows, unknown=listing(unknown, most=3))


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
                    (heat_step(count, hottest), f"{name} {begins:02}:00: {count_text(count, 'escalation')}")
                    for begins, count in enumerate(counts)
                ],
                label=f"{name}, {count_text(sum(counts), 'escalation')}",
            ),
            value=f"{sum(counts):,}",
        )
        for name, counts in zip(DAYS, span.by_hour, strict=True)
    ]
    labelled = range(0, _HOURS, _LABEL_EVERY)
    return Hours(
        rows=rows,
        axis=axis_of([((begins + 0.5) / _HOURS, f"{begins:02}") for begins in labelled]),
        words=f"Peak: {DAYS[day]} {hour:02}:00–{hour + 1:02}:00, {count_text(hottest, 'escalation')}.",
        table=[(f"{begins:02}:00", counts) for begins, counts in enumerate(zip(*span.by_hour, strict=True))],
        days=[day[:3] for day in DAYS],
    )


def endings_of(weeks: Sequence[Span]) -> Endings | None:
    """The questions of each week: taken in time, late or never, not due yet; None for one week, or for none asked."""
    if len(weeks) < 2 or not any(week.opened for week in weeks):
        return None
    rows = []
    for week in weeks:
        kept = week.acknowledged_in_time
        rows.append((_day(week.week), kept.kept, kept.of - kept.kept, week.opened - kept.of))
    bars = [(name, counts) for name, *counts in rows]
    words = ("in time", "late or never", "not due yet")
    drawing = stacked(bars, ("closed", "open", "wait"), label="Acknowledgement by week", words=words)
    return Endings(drawing=drawing, rows=rows)


def _day(day: date) -> str:
    return f"{day.day} {day:%b}"
