"""A band of how many instances reported, of those that were there: others' silence leaves gaps in all bands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from events.moments import from_us, to_us
from events.rows import Presence
from events.timelines.charts import AT, LANE_PX, Band, Table, Trace, Trail
from events.wording import clock_text, count_text, listing

COLUMNS = ("At", "Reporting", "Of", "What changed")
PLOT_PX = 2 * LANE_PX
_MOST_STEPS = 400
"""More steps than this are put together; of those in one place the fewest that reported are drawn."""
_NAMED = 3


class _Step(NamedTuple):
    """From `at_us` on so many reported, of so many that were there. `what` tells who came and who went."""

    at_us: int
    reporting: int
    there: int
    what: str = ""


def reporters_band(presences: Iterable[Presence], *, start: datetime, end: datetime) -> Band:
    """A step line of the instances that reported, and a dotted one of those that had not said that they stop."""
    steps = _steps(presences, to_us(start), to_us(end))
    top = float(max((step.there for step in steps), default=0))
    title = "Agents reporting"
    return Band(
        key="agents",
        title=title,
        label="instances",
        top=top,
        plot_px=PLOT_PX,
        value=f"{steps[-1].reporting:,} of {steps[-1].there:,}" if steps else "",
        traces=tuple(_lines(_fewer(steps, start, end), end)) if top else (),
        table=_table(title, steps, start, end),
        caption=_caption(steps, start, end),
        is_named_empty=False,
    )


def _steps(presences: Iterable[Presence], start_us: int, end_us: int) -> list[_Step]:
    """Every moment of the window at which the number changed, its beginning first; empty where nobody ever was."""
    changes: list[tuple[int, int, int, str]] = []
    for one in presences:
        ended_us = end_us if one.ended_us is None else one.ended_us
        changes += ((one.born_us, 1, 1, f"{one.name} started"), (ended_us, -1, -1, f"{one.name} stopped"))
        for quiet_us, heard_us in one.silences:
            begin, until = max(quiet_us, one.born_us), min(heard_us, ended_us)
            if begin < until:
                changes += (
                    (begin, -1, 0, f"{one.name} stopped reporting"),
                    (until, 1, 0, f"{one.name} reported again"),
                )
    inside = sorted(change for change in changes if change[0] < end_us)
    if not inside:
        return []
    moments = sorted({max(start_us, at_us) for at_us, *_ in inside} | {start_us})
    by_moment: dict[int, list[tuple[int, int, int, str]]] = {moment: [] for moment in moments}
    for change in inside:
        by_moment[max(start_us, change[0])].append(change)
    reporting = list(accumulate(sum(one[1] for one in by_moment[moment]) for moment in moments))
    there = list(accumulate(sum(one[2] for one in by_moment[moment]) for moment in moments))
    return [
        _Step(moment, reporting[place], there[place], _words(by_moment[moment]) if moment > start_us else "")
        for place, moment in enumerate(moments)
    ]


def _words(changes: Sequence[tuple[int, int, int, str]]) -> str:
    return listing([words for *_, words in changes], most=_NAMED)


def _fewer(steps: Sequence[_Step], start: datetime, end: datetime) -> Sequence[_Step]:
    if len(steps) <= _MOST_STEPS:
        return steps
    start_us, width_us = to_us(start), (to_us(end) - to_us(start)) // _MOST_STEPS + 1
    kept: dict[int, _Step] = {}
    for step in steps:
        place = (step.at_us - start_us) // width_us
        held = kept.get(place)
        least = step.reporting if held is None else min(held.reporting, step.reporting)
        kept[place] = _Step(start_us + place * width_us, least, step.there)
    return list(kept.values())


def _lines(steps: Sequence[_Step], end: datetime) -> Iterable[Trace]:
    """Who was there, then who reported: where both are the same, the second covers the first. Every corner is a point,
    from the first moment on at which anybody was there.
    """
    begun = steps if steps[0].there else steps[1:]
    until = [*(step.at_us for step in begun[1:]), to_us(end)]
    at = [moment // 1000 for step, then in zip(begun, until, strict=True) for moment in (step.at_us, then)]
    base: Trace = {"type": "scatter", "mode": "lines", "x": at, "connectgaps": False}
    for name, values, line in (
        ("there", [step.there for step in begun], {"color": "token:--ink-3", "width": 1, "dash": "dot"}),
        ("reporting", [step.reporting for step in begun], {"color": "token:--ink-2", "width": 1.5}),
    ):
        yield base | {
            "name": name,
            "y": [value for value in values for _ in range(2)],
            "line": line | {"shape": "hv"},
            "hovertemplate": f"%{{y:,}} {name}{AT}<extra></extra>",
        }


def _table(title: str, steps: Sequence[_Step], start: datetime, end: datetime) -> Table:
    rows = tuple(
        (clock_text(from_us(step.at_us), today=end), step.reporting, step.there, step.what or "start of the range")
        for step in steps
    )
    until = [*(step.at_us for step in steps[1:]), to_us(end)][: len(steps)]
    trails = tuple(Trail(start=from_us(step.at_us), end=from_us(then)) for step, then in zip(steps, until, strict=True))
    return Table(title=title, columns=COLUMNS, rows=rows, trails=trails)


def _caption(steps: Sequence[_Step], start: datetime, end: datetime) -> str:
    if not steps:
        return "No instance in this range."
    last = steps[-1]
    now = f"{last.reporting:,} of {count_text(last.there, 'agent reporting', 'agents reporting')}"
    worst = max(steps, key=lambda step: step.there - step.reporting)
    missing = worst.there - worst.reporting
    if not missing:
        return f"{now}; none stopped reporting."
    at = clock_text(from_us(max(worst.at_us, to_us(start))), today=end)
    return f"{now}; at {at} {missing:,} of {worst.there:,} not reporting."
