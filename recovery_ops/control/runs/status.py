"""How a run stands: by what it said, and by who still reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from events.runs.going import Goes, Reporting, how_it_goes
from events.runs.rows import LOST, RunStory
from events.runs.selectors import reporting_now
from recovery_ops.rules.enums import RunStatus

_MARKS = {
    RunStatus.SUCCEEDED: "closed",
    RunStatus.DEGRADED: "half_open",
    RunStatus.FAILED: "open",
    RunStatus.STOPPED: "open",
    RunStatus.CANCELLED: "unknown",
}
_WORDS: Mapping[str, str] = {RunStatus.CANCELLED: "aborted"}
"""Outcomes that people call by another word than agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run stands: a mark and a word."""

    mark: str
    word: str


_GOING = {
    Goes.RUNNING: Standing(mark="closed", word="running"),
    Goes.WAITING_ON_CAPACITY: Standing(mark="half_open", word="waiting for capacity"),
    Goes.RETRYING: Standing(mark="half_open", word="retrying"),
    Goes.PAUSED_FOR_PERSON: Standing(mark="half_open", word="needs human input"),
    Goes.LOST: Standing(mark="unknown", word=LOST),
}


def word_of_status(status: str) -> str:
    """How people read a word by which runs are narrowed; one that says it itself as it is."""
    return next((one.word for goes, one in _GOING.items() if goes == status), _WORDS.get(status, status))


def runs_waiting_href(also: str = "") -> str:
    """Where the runs that wait for capacity are listed; `also` is the range behind an address with parameters."""
    return f"{reverse('runs')}?show=running&status={Goes.WAITING_ON_CAPACITY}{also}"


def standing_of(story: RunStory, now: datetime, reporting: Reporting) -> Standing:
    """How a run stands, by what it said and by who still reports."""
    if story.ended is not None:
        if story.status is RunStatus.SUCCEEDED and story.failed_attempts:
            return Standing(mark="closed", word="recovered")
        mark = _MARKS.get(story.status or RunStatus.SUCCEEDED, "unknown")
        return Standing(mark=mark, word=word_of_status(story.status or "ended"))
    return _GOING[how_it_goes(story, now, reporting) or Goes.RUNNING]


def reporting_in(environment: str, stories: Iterable[RunStory], now: datetime) -> Reporting:
    """Who reports; asked for only where a run has not told its end."""
    if all(story.ended is not None for story in stories):
        return frozenset()
    return reporting_now(environment, now)
