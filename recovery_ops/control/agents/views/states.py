"""How one instance stood over time, as lanes with a sentence and a table of the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.charts import drawing
from events.pages.window import Window
from events.queries.over_time import UNREACHABLE, InstanceStates, Stretch, instance_over_time
from events.rows import AgentRow
from events.wording import clock_text, count_text, lasted_text, listing
from recovery_ops.control.dashboard.views.lanes import Row, Strip

MOST_BARS = 400
_FILLS: Mapping[str, str] = {"running": "closed", "stopped": "", UNREACHABLE: "unknown"}
"""How a word is filled; any other one, such as starting or draining, is on its way."""
_ON_ITS_WAY = "half_open"
_LEAST = 0.3
"""Per cent: what is shorter is drawn so wide, or nobody would see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the table."""

    what: str
    mark: str
    start: datetime
    end: datetime
    is_so_far: bool

    @property
    def lasted_s(self) -> float:
        """How long it lasted."""
        return (self.end - self.start).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesFigure:
    """The lanes, what they say in a sentence, and the lines of their table, the newest first."""

    lanes: Strip
    sentence: str
    lines: Sequence[Line]
    start: datetime
    is_cut: bool
    """Whether the window is longer than what is told of it, since `start`."""


def states_figure(agent: AgentRow, window: Window, now: datetime) -> StatesFigure | None:
    """The figure of a window; None for who tells no heartbeats. One query."""
    found = instance_over_time(agent, start=window.start, end=window.end)
    if found is None:
        return None
    rows = [
        Row(label="State", drawing=_lane(found, found.stretches), value=_last(found)),
        Row(label="Waits", drawing=_lane(found, found.waits, fill="wait"), value=_waited(found)),
    ]
    lines = [
        *(_line(one, _FILLS.get(one.word, _ON_ITS_WAY), found.end, now) for one in found.stretches),
        *(_line(one, "", found.end, now) for one in found.waits),
        *(Line(what="restarted", mark="", start=at, end=at, is_so_far=False) for at in found.restarts),
    ]
    return StatesFigure(
        lanes=Strip(rows=rows, axis=drawing.axis(found.start, found.end), bin_s=0),
        sentence=_sentence(found),
        lines=sorted(lines, key=lambda one: one.start, reverse=True)[:MOST_BARS],
        start=found.start,
        is_cut=found.start > window.start,
    )


def _line(one: Stretch, mark: str, end: datetime, now: datetime) -> Line:
    is_so_far = one.end >= end and end >= now - timedelta(seconds=1)
    return Line(what=one.word, mark=mark, start=one.start, end=one.end, is_so_far=is_so_far)


def _lane(found: InstanceStates, stretches: Sequence[Stretch], fill: str | None = None) -> SafeString:
    length = (found.end - found.start) / timedelta(seconds=1)
    bars = []
    for one in stretches[-MOST_BARS:]:
        name = fill if fill is not None else _FILLS.get(one.word, _ON_ITS_WAY)
        if not name:
            continue
        width = max(_LEAST, 100 * (one.end - one.start).total_seconds() / length)
        x = min(100 * (one.start - found.start).total_seconds() / length, 100 - width)
        is_rail = name == "closed"
        words = f"{one.word}: {clock_text(one.start, today=found.end)} to {clock_text(one.end, today=found.end)}"
        bars.append((f"{x:.2f}%", 10 if is_rail else 5, f"{width:.2f}%", 4 if is_rail else 14, name, words))
    shape = '<rect x="{}" y="{}" width="{}" height="{}" fill="url(#p-{})"><title>{}</title></rect>'
    return format_html(
        '<svg height="24" role="img" aria-label="{}">{}{}</svg>',
        _told(stretches) or "no data",
        drawing.grid(found.start, found.end),
        format_html_join("", shape, bars),
    )


def _told(stretches: Iterable[Stretch]) -> str:
    """`running 5 h 50 min, unreachable 10 min`."""
    lasted: dict[str, timedelta] = {}
    for one in stretches:
        lasted[one.word] = lasted.get(one.word, timedelta()) + (one.end - one.start)
    parts = sorted(lasted.items(), key=lambda item: -item[1])
    return listing([f"{word} {lasted_text(length.total_seconds())}" for word, length in parts], most=4)


def _last(found: InstanceStates) -> str:
    return found.stretches[-1].word if found.stretches else "no data"


def _waited(found: InstanceStates) -> str:
    return count_text(len(found.waits), "wait") if found.waits else "none"


def _sentence(found: InstanceStates) -> str:
    told = _told(found.stretches)
    if not told:
        return "The instance reported nothing in this range."
    times = {1: "once", 2: "twice"}.get(len(found.restarts), f"{len(found.restarts)} times")
    began = f" Restarted {times} under the same name." if found.restarts else ""
    return f"The instance was {told}.{began}"
