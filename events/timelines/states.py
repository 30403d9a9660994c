"""Bands of breaker states: closed is a thin rail, every other state fills its lane, so that trouble stands out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from events.rows import Fleet, MajoritySegment, Segment
from events.timelines.charts import TRANSPARENT, Band, Lane, Table, Trace, Trail, Value, plain, to_ms
from events.timelines.durations import TimeInState, time_in_state
from events.timelines.majority import in_bins
from events.wording import (
    bin_text,
    cause_sentence,
    clock_text,
    count_text,
    listing,
    share_text,
    span_text,
    state_text,
    state_word,
)
from recovery_ops.rules.enums import State

RAIL = 4 / 24
FULL = 14 / 24
COLOURS: dict[State | None, str] = {
    State.CLOSED: "token:--closed",
    State.HALF_OPEN: "token:--half-open",
    State.OPEN: "token:--open",
    State.FORCED_OPEN: "token:--forced-open",
    State.DISABLED: "token:--disabled",
    State.METRICS_ONLY: "token:--metrics-only",
    None: "token:--unknown",
}
PATTERNS: dict[State | None, str] = {
    State.HALF_OPEN: "/",
    State.OPEN: "x",
    State.FORCED_OPEN: "|",
    State.METRICS_ONLY: "-",
    None: ".",
}
AUTO = "no override"
_SHORT = {State.HALF_OPEN: "half", State.FORCED_OPEN: "forced", State.METRICS_ONLY: "metrics"}
"""The column at the right is 132 px wide; the whole word stands in the hover and in the table."""
COLUMNS = ("Lane", "State", "Instances", "Start", "End", "Duration", "Why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One drawn span of one lane, and what is said of it. `end` None: so far."""

    lane: str
    state: State | None
    start: datetime
    end: datetime | None
    why: str
    instances: str = ""
    """`28 of 40` where the lane speaks for many."""
    fact_id: int | None = None
    """The fact that began it, where it is known."""
    breaker: str = ""
    is_auto: bool = False
    """What is desired while nobody holds it: the rules decide, so no state is."""

    @property
    def code(self) -> str:
        """Name of its pattern in the sprite; `auto` without an override."""
        return "auto" if self.is_auto else state_word(self.state)

    @property
    def word(self) -> str:
        """Label in the hover and in the table."""
        return AUTO if self.is_auto else state_text(self.state)


def bars_of(lane: str, segments: Sequence[Segment]) -> list[Bar]:
    """An instance's segments as bars."""
    return [
        Bar(
            lane=lane,
            state=segment.state,
            start=segment.start,
            end=segment.end,
            why=cause_sentence(segment.cause, state=segment.state),
            fact_id=segment.cause.fact_id if segment.cause is not None else None,
            breaker=segment.breaker,
        )
        for segment in segments
    ]


def majority_bars(lane: str, segments: Sequence[MajoritySegment], end: datetime) -> list[Bar]:
    """The fleet's segments as bars; the last one that reaches `end` goes on. Where nobody lived, nothing is drawn."""
    return [
        Bar(
            lane=lane,
            state=segment.state,
            start=segment.start,
            end=None if segment.end >= end else segment.end,
            why=_fleet_words(segment),
            instances=f"{segment.most} of {segment.instances}" if segment.state is not None else "",
            fact_id=segment.cause.fact_id if segment.cause is not None else None,
            breaker=segment.breaker,
        )
        for segment in segments
        if segment.is_there
    ]


def _fleet_words(segment: MajoritySegment) -> str:
    if segment.state is None:
        return "no instance reported"
    silent = (
        f"{segment.unknown} of {count_text(segment.instances, 'instance')} not reporting" if segment.unknown else ""
    )
    if segment.cause is None:
        return silent or "no state change reported"
    why = f"{segment.cause.instance}: {cause_sentence(segment.cause, state=segment.state)}"
    return f"{why}; {silent}" if silent else why


def standing(segments: Sequence[MajoritySegment]) -> str:
    """The fleet's state at the end, by the rule of all screens: the worst state of the reporting instances, and their
    number. The bar shows the state of most, which is named behind it where it is another one.
    """
    last = segments[-1]
    if last.state is None:
        return "unknown" if last.is_there else "no instance"
    if last.last == last.instances and last.state not in (State.OPEN, State.CLOSED):
        return last.state.value
    if last.worst in (last.state, None):
        return f"{_short(last.state)} {last.last}/{last.instances}"
    return f"{_short(last.worst)} {last.worst_count}/{last.instances}, most {_short(last.state)}"


def _short(state: State) -> str:
    return _SHORT.get(state, state.value)


def state_band(
    title: str,
    lanes: Sequence[tuple[Lane, Sequence[Bar]]],
    *,
    end: datetime,
    caption: str,
    is_named_empty: bool = True,
    key: str = "",
) -> Band:
    """Lanes of states. Bars end at `end` at the latest, which is now for those that go on."""
    bars = [bar for _, drawn in lanes for bar in drawn]
    return Band(
        key=key,
        title=title,
        lanes=tuple(lane for lane, _ in lanes),
        traces=(*(trace for state in COLOURS for trace in _traces(state, bars, end)), *_auto(bars, end)),
        table=_table(title, bars, end),
        caption=caption,
        is_named_empty=is_named_empty,
    )


def _traces(state: State | None, bars: Sequence[Bar], end: datetime) -> list[Trace]:
    """One trace per state: width, colour and pattern belong to it, and so to the legend under the plot."""
    mine = [bar for bar in bars if bar.state is state and not bar.is_auto]
    if not mine:
        return []
    trace = _trace(mine, end, width=RAIL if state is State.CLOSED else FULL, marker=_marker(state))
    if state is not State.DISABLED:
        return [trace]
    # Traffic flows, and a person sees to it: a rail inside an outline.
    rail = {key: trace[key] for key in ("type", "orientation", "name", "y", "base", "x")}
    return [
        {**rail, "width": RAIL, "marker": {"color": COLOURS[state]}, "hoverinfo": "skip"},
        {**trace, "marker": {"color": TRANSPARENT, "line": {"color": COLOURS[state], "width": 1.5}}},
    ]


def _auto(bars: Sequence[Bar], end: datetime) -> list[Trace]:
    """A hairline: nothing is imposed there."""
    mine = [bar for bar in bars if bar.is_auto]
    line: dict[str, object] = {"color": "token:--line-strong", "line": {"width": 0}}
    return [_trace(mine, end, width=RAIL / 2, marker=line)] if mine else []


def _trace(bars: Sequence[Bar], end: datetime, *, width: float, marker: dict[str, object]) -> Trace:
    word = bars[0].word
    return {
        "type": "bar",
        "orientation": "h",
        "name": bars[0].code,
        "meta": word,
        "y": [plain(bar.lane) for bar in bars],
        "base": [to_ms(bar.start) for bar in bars],
        "x": [max(1, to_ms(bar.end or end) - to_ms(bar.start)) for bar in bars],
        "width": width,
        "marker": marker,
        "customdata": [_said(bar, end) for bar in bars],
        "hovertemplate": f"%{{y}} {word}%{{customdata[5]}}<br>%{{customdata[0]}} – %{{customdata[1]}}, "
        "%{customdata[2]}<br>%{customdata[3]}<extra></extra>",
    }


def _marker(state: State | None) -> dict[str, object]:
    marker: dict[str, object] = {"color": COLOURS[state], "line": {"width": 0}}
    if state in PATTERNS:
        marker["pattern"] = {
            "shape": PATTERNS[state],
            "fgcolor": "token:--panel",
            "fgopacity": 1,
            "fillmode": "overlay",
            "size": 8,
            "solidity": 0.15,
        }
    if state is State.FORCED_OPEN:
        marker["line"] = {"color": COLOURS[state], "width": 1.5}
    return marker


UNKNOWN_MARKER = _marker(None)
"""How a bar is painted where nobody reported."""


def _said(bar: Bar, end: datetime) -> list[object]:
    """What hover and click show: start, end, duration, why, fact, how many instances, and the breaker in an address."""
    until = "so far" if bar.end is None else clock_text(bar.end, today=end)
    count = f" on {bar.instances}" if bar.instances else ""
    length = span_text((bar.end or end) - bar.start)
    return [
        clock_text(bar.start, today=end),
        until,
        length,
        plain(bar.why),
        bar.fact_id,
        count,
        quote(bar.breaker, safe=""),
    ]


def _table(title: str, bars: Sequence[Bar], end: datetime) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=tuple(
            (
                bar.lane,
                bar.word,
                bar.instances,
                clock_text(bar.start, today=end),
                "so far" if bar.end is None else clock_text(bar.end, today=end),
                span_text((bar.end or end) - bar.start),
                bar.why,
            )
            for bar in bars
        ),
        trails=tuple(
            Trail(start=bar.start, end=bar.end or end, breaker=bar.breaker, fact_id=bar.fact_id) for bar in bars
        ),
    )


def times_table(lanes: Mapping[str, TimeInState], what: str, *, title: str = "Time in state") -> Table:
    """How long each lane was in each state, all of them added up first; `what` a lane is.

    A share is one of the time in which the state was known; how long nobody knew stands beside it.
    """
    total = sum(lanes.values(), TimeInState())
    shown = {"all instances": total, **lanes} if len(lanes) > 1 else lanes
    return Table(
        title=title,
        columns=(what, "State", "Time", "Seconds", "Share of the known time"),
        rows=tuple(row for name, times in shown.items() for row in _times_rows(name, times)),
    )


def _times_rows(name: str, times: TimeInState) -> list[tuple[Value, ...]]:
    rows: list[tuple[Value, ...]] = [
        (name, state_word(state), span_text(spent), round(spent.total_seconds(), 3), share_text(times.share(state)))
        for state, spent in times.by_state.items()
    ]
    if times.unknown:
        rows.append((name, state_word(None), span_text(times.unknown), round(times.unknown.total_seconds(), 3), "–"))
    return rows


def fleet_times(fleet: Fleet) -> dict[str, TimeInState]:
    """By breaker, how long most of the fleet was in each state."""
    return {name: time_in_state(segments, end=fleet.end) for name, segments in fleet.items()}


PageOf = Callable[[str], str]
"""The address of the page about a breaker."""


def no_page(breaker: str) -> str:
    """For a figure that stands alone."""
    del breaker
    return ""


def breakers_band(fleet: Fleet, page_of: PageOf = no_page) -> Band:
    """One lane per breaker: what most of the fleet was in. What stands at its right is exact, whatever is drawn."""
    drawn = in_bins(fleet)
    rows = [
        (
            Lane(name=name, value=standing(segments), href=page_of(name)),
            majority_bars(name, drawn[name], fleet.end),
        )
        for name, segments in fleet.items()
    ]
    return state_band(
        "Breakers, majority of the fleet",
        rows,
        end=fleet.end,
        caption=_fleet_caption(fleet, drawn.bin_s),
        key="breakers",
    )


def _none_blocks(fleet: Fleet) -> str:
    """That none is seen to block calls at the end, and of how many that is not known."""
    dark = sum(segments[-1].worst is None for segments in fleet.values())
    if dark == len(fleet):
        return "Breaker states at the end of the range are unknown: no instance reports"
    known = f"; {count_text(dark, 'breaker')} unknown" if dark else ""
    return f"No breaker blocks calls at the end of the range{known}"


def _fleet_caption(fleet: Fleet, bin_s: int) -> str:
    if not fleet:
        return "No breaker was reported in this range."
    blocking = {State.OPEN, State.FORCED_OPEN}
    now = [f"{name} ({standing(one)})" for name, one in fleet.items() if one[-1].worst in blocking]
    was = [name for name, segments in fleet.items() if any(one.state in blocking for one in segments)]
    binned = f" Shown in bins of {bin_text(bin_s)}, each by its worst state." if bin_s else ""
    if now:
        verb = "blocks" if len(now) == 1 else "block"
        words = f"{count_text(len(now), 'breaker')} {verb} calls at the end of the range: {listing(now, most=3)}"
    elif was:
        verb = "was" if len(was) == 1 else "were"
        words = f"{_none_blocks(fleet)}; {listing(was, most=3)} {verb} open before"
    else:
        verb = "was" if len(fleet) == 1 else "were"
        words = f"{count_text(len(fleet), 'breaker')} {verb} reported, and none was open on most instances"
    return f"{words}.{binned}"
