"""How runs end that climbed to a rung: all those that a list of runs asks for, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.safestring import SafeString

from events.runs.asking import Runs, runs
from events.runs.going import Reporting
from events.runs.rows import RUNG_WORDS, RUNGS, RunStory, level_of
from events.sankey import sankey
from events.window import Window, window_in
from events.wording import count_text
from recovery_ops.control.exporting.runs import asked_of, before_of
from recovery_ops.control.standings import standing_of

MOST = 400
"""Runs that are added up, the newest."""
MATCHING_MOST = 200
"""Runs of a whole list that one act is about, the newest."""
_QUERY_CHARS = 2000
NO_RUNG = "no rung"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """So many runs climbed to this rung at most, and stand so now."""

    rung: str
    outcome: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """The runs of a list by rung and outcome; `is_cut` where there are older ones that were not read."""

    rows: Sequence[Flow]
    drawing: SafeString | str
    sentence: str
    is_cut: bool


def added_up_to(given: Mapping[str, Any]) -> int:
    """How many runs an address asks to be added up; 0 for none."""
    return MOST if given.get("view") == "flows" else 0


def flows_of(found: Runs, reporting: Reporting, now: datetime) -> Flows:
    """Those that were found for a list, the newest `MOST` of it, by who still reports."""
    rows = added_up((story, standing_of(story, now, reporting).word) for story in found.rows)
    total = sum(one.count for one in rows)
    first = max(rows, key=lambda one: one.count, default=None)
    most = f" Most often: {first.rung}, then {first.outcome} ({first.count:,})." if first else ""
    newest = "The newest " if found.older_us is not None else ""
    return Flows(
        rows=rows,
        drawing=sankey([(one.rung, one.outcome, one.count) for one in rows]) if rows else "",
        sentence=f"{newest}{count_text(total, 'run')}, by the highest rung that each climbed.{most}",
        is_cut=found.older_us is not None,
    )


def added_up(runs_: Iterable[tuple[RunStory, str]]) -> list[Flow]:
    """Runs and how they stand, counted by rung and outcome: by rung, the lowest first, the most frequent first."""
    counts = Counter((level_of(story.rung), outcome) for story, outcome in runs_)
    order = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    words = [NO_RUNG, *(RUNG_WORDS[rung] for rung in RUNGS)]
    return [Flow(rung=words[level], outcome=outcome, count=count) for (level, outcome), count in order]


def matching_runs(request: HttpRequest, environment: str, query: str, now: datetime) -> list[str]:
    """The runs that the list with this query has on all its pages, the newest first; `MATCHING_MOST` at most."""
    asked = copy(request)
    asked.GET = QueryDict(query[:_QUERY_CHARS])
    window = window_in(asked, environment, now=now)
    return [story.run for story in _runs(environment, window, asked.GET, most=MATCHING_MOST).rows[:MATCHING_MOST]]


def _runs(environment: str, window: Window, given: Mapping[str, Any], *, most: int) -> Runs:
    asked = asked_of(environment, given)
    return runs(
        environment,
        start=window.start,
        end=window.end,
        before_us=before_of(given),
        most=most,
        now=timezone.now(),
        **asked,
    )
