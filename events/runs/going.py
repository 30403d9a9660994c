"""How a run goes on that has not told its end: what it waits for, and whether anybody still tells of it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from events.runs.rows import LOST, RunStory
from recovery_ops.rules.enums import CAPACITY

Reporting = Collection[tuple[str, str]]
"""Who reports now, as (service, instance)."""


class Goes(StrEnum):
    """How a run goes on."""

    RUNNING = "running"
    WAITING_ON_CAPACITY = "waiting_on_capacity"
    """It tries again later, after a provider or a tool had no room for it."""
    RETRYING = "retrying"
    """It tries again later, after another failure."""
    PAUSED_FOR_PERSON = "paused_for_person"
    LOST = LOST
    """Its instance fell silent."""


def how_it_goes(story: RunStory, now: datetime, reporting: Reporting) -> Goes | None:
    """How a run goes on; None for one that has told its end."""
    if story.ended is not None:
        return None
    if (story.service, story.holder) not in reporting:
        return Goes.LOST
    if story.questions:
        return Goes.PAUSED_FOR_PERSON
    due = [wait for wait in story.waits if wait.until > now]
    if not due:
        return Goes.RUNNING
    return Goes.WAITING_ON_CAPACITY if any(wait.category in CAPACITY for wait in due) else Goes.RETRYING
