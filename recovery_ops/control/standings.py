"""How a run stands: by what it said, and by who still reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from events import queries
from events.runs.rows import LOST, RunStory
from recovery_ops.rules.words import RunStatus

_MARKS = {
    RunStatus.SUCCEEDED: "closed",
    RunStatus.DEGRADED: "half_open",
    RunStatus.FAILED: "open",
    RunStatus.STOPPED: "open",
    RunStatus.CANCELLED: "unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run stands: a mark and a word."""

    mark: str
    word: str


def standing_of(story: RunStory, now: datetime, reporting: set[tuple[str, str]]) -> Standing:
    """How a run stands, by what it said and by who still reports."""
    if story.ended is not None:
        if story.status is RunStatus.SUCCEEDED and story.failed_attempts:
            return Standing(mark="closed", word="recovered")
        return Standing(mark=_MARKS.get(story.status or RunStatus.SUCCEEDED, "unknown"), word=story.status or "ended")
    if (story.service, story.instance) not in reporting:
        return Standing(mark="unknown", word=LOST)
    if story.questions:
        return Standing(mark="half_open", word="waits for a person")
    waits = [piece for piece in story.pieces if piece.end is not None and piece.end > now]
    return Standing(mark="half_open", word="waits to try again") if waits else Standing(mark="closed", word="running")


def reporting_in(environment: str, stories: Iterable[RunStory], now: datetime) -> set[tuple[str, str]]:
    """Who reports; asked for only where a run has not told its end."""
    if all(story.ended is not None for story in stories):
        return set()
    return {(one.service, one.instance) for one in queries.fleet(environment, now=now) if one.is_reachable}
