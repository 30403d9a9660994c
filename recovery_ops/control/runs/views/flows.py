"""How runs end that climbed to a rung: all those that a list of runs asks for, added up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, QueryDict
from django.utils.safestring import SafeString

from events.charts.sankey import sankey
from events.pages.window import window_in
from events.runs.rows import RUNG_WORDS, RUNGS
from events.runs.selectors import RunList
from events.wording import count_text
from recovery_ops.control.runs.export import run_list_of
from recovery_ops.control.runs.status import word_of_status

MATCHING_MOST = 200
"""Runs of a whole list that one act is about, the newest."""
_QUERY_CHARS = 2000
NO_RUNG = "no recovery step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """So many runs climbed to this rung at most, and stand so now."""

    rung: str
    outcome: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """The runs of a list by rung and outcome."""

    rows: Sequence[Flow]
    drawing: SafeString | str
    sentence: str


def flows_of(listed: RunList, reporting: Collection[int]) -> Flows:
    """All runs of a list, by the instances that report."""
    rows = added_up(listed.by_outcome(reporting))
    total = sum(one.count for one in rows)
    first = max(rows, key=lambda one: one.count, default=None)
    most = f" Most frequent: {first.rung}, {first.outcome} ({first.count:,})." if first else ""
    return Flows(
        rows=rows,
        drawing=sankey([(one.rung, one.outcome, one.count) for one in rows]) if rows else "",
        sentence=f"{count_text(total, 'run')} by highest recovery step.{most}",
    )


def added_up(counts: Mapping[tuple[int, str], int]) -> list[Flow]:
    """Counts by level and status: by rung, the lowest first, the most frequent first."""
    order = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    words = [NO_RUNG, *(RUNG_WORDS[rung] for rung in RUNGS)]
    return [Flow(rung=words[level], outcome=word_of_status(status), count=count) for (level, status), count in order]


def matching_runs(request: HttpRequest, environment: str, query: str, now: datetime) -> list[str]:
    """The runs that the list with this query has on all its pages, the newest first; `MATCHING_MOST` at most."""
    asked = copy(request)
    asked.GET = QueryDict(query[:_QUERY_CHARS])
    window = window_in(asked, environment, now=now)
    return run_list_of(environment, asked.GET, start=window.start, end=window.end, now=now).names(limit=MATCHING_MOST)
