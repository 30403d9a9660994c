"""The outages behind a run: of the backends that it called, while it ran. They explain its waits and its climbs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from events.capacity.asking import capacity_events
from events.capacity.rows import OWNER_WORDS, CapacityEventRow
from events.runs.rows import Backend, Behind, RunStory, Step
from events.wording import listing

MOST = 20
_APART = 1 << 40
"""No fact tells such a line: its number is below those of facts and of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageTold(Step):
    """A line of a run's story: an outage began, or was over. `event` is its number."""

    event: int


def with_outages(story: RunStory, environment: str, now: datetime, *, is_lost: bool = False) -> RunStory:
    """The same story with the outages behind it, and a line where each began and was over. At most two queries.

    Of one that `is_lost` nobody knows how long it ran: what was since its last word is not behind it.
    """
    if not story.backends:
        return story
    until = story.steps[-1].at if is_lost and story.steps else story.until(now)
    found = capacity_events(environment, start=story.started, end=until, now=now)
    behind = [one for one in (_behind(story, event, until) for event in reversed(found)) if one is not None][:MOST]
    if not behind:
        return story
    told = [line for one in behind for line in _lines(one, story.started, until)]
    return replace(story, behind=behind, steps=sorted((*story.steps, *told), key=lambda step: step.at))


def _behind(story: RunStory, event: CapacityEventRow, until: datetime) -> Behind | None:
    """The event as far as it is of backends that the run called; None where none of it is."""
    mine = [
        part
        for part in event.parts or (event,)
        if part.last >= story.started and part.started <= until and any(_is_of(part, one) for one in story.backends)
    ]
    if not mine:
        return None
    return Behind(
        event=event.id,
        number=event.number,
        name=listing(sorted({part.name for part in mine})),
        start=min(part.started for part in mine),
        end=max(part.last for part in mine) if all(part.is_over for part in mine) else None,
        whose=OWNER_WORDS[event.owner],
    )


def _is_of(part: CapacityEventRow, backend: Backend) -> bool:
    is_its = (backend.provider, backend.model) == (part.provider, part.model)
    return is_its and part.operation in ("", backend.operation)


def _lines(one: Behind, started: datetime, until: datetime) -> Iterator[OutageTold]:
    yield OutageTold(
        fact_id=-_APART - 2 * one.event,
        at=max(one.start, started),
        mark="half_open",
        title=f"capacity incident{' ongoing' if one.start < started else ''}: {one.name}",
        detail=one.whose,
        event=one.event,
    )
    if one.end is not None and one.end <= until:
        yield OutageTold(
            fact_id=-_APART - 2 * one.event - 1,
            at=max(one.end, started),
            mark="closed",
            title=f"capacity recovered: {one.name}",
            event=one.event,
        )
