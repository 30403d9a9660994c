"""One instance at work: the runs that it started last, and how each of its breakers stood over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.charts import drawing
from events.pages.window import Window
from events.queries.instance import standing_in
from events.queries.lanes import segments
from events.rows import RANK, AgentRow, Segment
from events.runs.ladder import steps_taken
from events.runs.rows import RunStory
from events.runs.selectors import runs_begun_by
from events.wording import count_text, listing, span_text, state_text, state_word
from recovery_ops.control.dashboard.views.lanes import Row, Strip
from recovery_ops.control.runs.status import Standing, reporting_in, standing_of
from recovery_ops.rules.enums import State

RUNS_SHOWN = 20
MOST_LANES = 20
MOST_LINES = 200
_STATES = (*map(state_word, State), state_word(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run in the table: how it stands, and its recovery steps."""

    story: RunStory
    standing: Standing
    steps: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """While a breaker was in one state. `end` None: so far."""

    breaker: str
    state: str
    start: datetime
    end: datetime | None
    lasted_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLanes:
    """A lane for each breaker, what they say in a sentence, and the same as lines, newest first.

    `more` breakers without trouble have no lane; `is_cut`: there are older lines.
    """

    lanes: Strip
    sentence: str
    lines: Sequence[Spell]
    states: Sequence[str]
    """Those that are drawn."""
    more: int
    is_cut: bool


def at_work(environment: str, agent: AgentRow, window: Window, now: datetime) -> Mapping[str, Any]:
    """What the tab shows. At most ten queries."""
    stories = runs_begun_by(environment, agent.id, limit=RUNS_SHOWN)
    reporting = reporting_in(environment, stories, now)
    return {
        "runs": [
            RunLine(story=one, standing=standing_of(one, now, reporting), steps=steps_taken(one)) for one in stories
        ],
        "lanes": breaker_lanes(environment, agent, window, now),
    }


def breaker_lanes(environment: str, agent: AgentRow, window: Window, now: datetime) -> BreakerLanes | None:
    """Those of a window, the most troubled first; None where it has no breaker then. At most seven queries."""
    standing = standing_in(agent.id)
    if not standing:
        return None
    end = max(window.start, min(window.end, now))
    found = segments(environment, start=window.start, end=end, now=now, standing=standing)
    mine = {breaker: next(iter(lanes.values())) for breaker, lanes in found.items() if lanes}
    if not mine:
        return None
    ordered = sorted(mine, key=lambda name: (-_trouble_s(mine[name], end), name))
    shown = ordered[:MOST_LANES]
    spells = [spell for name in mine for spell in _spells(name, mine[name], end)]
    spells.sort(key=lambda one: (one.start, one.breaker), reverse=True)
    rows = [_row(name, mine[name], window.start, end) for name in shown]
    return BreakerLanes(
        lanes=Strip(rows=rows, axis=drawing.axis(window.start, end), bin_s=found.bin_s),
        sentence=_sentence(mine, end),
        lines=spells[:MOST_LINES],
        states=[word for word in _STATES if any(one.state == word for one in spells)],
        more=len(ordered) - len(shown),
        is_cut=len(spells) > MOST_LINES,
    )


def _row(name: str, lane: Sequence[Segment], start: datetime, end: datetime) -> Row:
    return Row(
        label=name,
        drawing=drawing.lane(lane, start=start, end=end, label=name),
        value=state_text(lane[-1].state),
    )


def _spells(name: str, lane: Sequence[Segment], end: datetime) -> list[Spell]:
    return [
        Spell(
            breaker=name,
            state=state_word(one.state),
            start=one.start,
            end=one.end,
            lasted_s=(one.until(end) - one.start).total_seconds(),
        )
        for one in lane
    ]


def _trouble_s(lane: Sequence[Segment], end: datetime) -> float:
    """How long it was worse than closed, as far as is known."""
    worse = (one for one in lane if one.state is not None and RANK[one.state] > RANK[State.CLOSED])
    return sum((one.until(end) - one.start).total_seconds() for one in worse)


def _unknown_s(lane: Sequence[Segment], end: datetime) -> float:
    """Seconds without a report."""
    return sum((one.until(end) - one.start).total_seconds() for one in lane if one.state is None)


def _sentence(mine: Mapping[str, Sequence[Segment]], end: datetime) -> str:
    """`2 of 5 breakers not always closed: search_web for 4m 10s and prices for 20 s.`"""
    troubled = sorted(((_trouble_s(lane, end), name) for name, lane in mine.items()), key=lambda one: (-one[0], one[1]))
    told = [f"{name} for {span_text(lasted_s)}" for lasted_s, name in troubled if lasted_s]
    silent_s = max(_unknown_s(lane, end) for lane in mine.values())
    silent = f" No report for {span_text(silent_s)}." if silent_s else ""
    counted = count_text(len(mine), "breaker")
    if not told:
        return f"{counted}, closed in all reports.{silent}" if silent_s else f"{counted}, always closed."
    return f"{len(told)} of {counted} not always closed: {listing(told, most=3)}.{silent}"
