"""The moves of breakers, each with its evidence: as facts, newest first, and as what the current state keeps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import orjson
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from events.models import Fact
from events.moments import from_us, to_us
from events.queries.readings import (
    MOVED,
    Attributes,
    category_or_none,
    number_or_none,
    state_or_none,
    text_of,
    trigger_or_none,
    whole_or_none,
)
from events.rows import Transition
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerStateChanged

_EVIDENCE = Attributes(
    BreakerStateChanged,
    "previous_state",
    "trigger",
    "calls",
    "failures",
    "failure_rate",
    "threshold",
    "last_category",
    "override_id",
    "revision",
)


class Move(NamedTuple):
    """A stored move as the columns have it; `written` is its attributes as JSON text."""

    id: int
    agent_id: int
    service: str
    instance: str
    breaker: str
    at_us: int
    state: str
    written: str


class Standing(NamedTuple):
    """What the current state of one breaker in one instance keeps; `at_us` None: it never moved."""

    id: int
    agent_id: int
    breaker: str
    at_us: int | None
    state: str
    previous_state: str
    trigger: str
    calls: int | None
    failures: int | None
    failure_rate: float | None
    threshold: float | None
    last_category: str
    override_id: str
    revision: int | None


def transitions(
    environment: str, *, start: datetime, end: datetime, breaker: str | None = None, limit: int = 200
) -> list[Transition]:
    """The moves in [start, end), newest first. One query; index `fact_by_breaker`, or `fact_by_event` for all."""
    moved = Fact.objects.filter(environment=environment, event=MOVED, at_us__gte=to_us(start), at_us__lt=to_us(end))
    if breaker is not None:
        moved = moved.filter(breaker=breaker)
    return [transition_of(move) for move in moves_of(moved.order_by("-at_us", "-sequence_number", "-id")[:limit])]


def moves_of(facts: QuerySet[Fact]) -> Iterator[Move]:
    """The moves among these facts, without the price of a model instance for each."""
    columns = ("id", "agent_id", "agent__service", "agent__instance", "breaker", "at_us", "state", "written")
    rows = facts.annotate(written=Cast("attributes", TextField())).values_list(*columns)
    return map(Move._make, rows)


def transition_of(move: Move) -> Transition:
    """What a move states."""
    said = _EVIDENCE.of(orjson.loads(move.written))
    return Transition(
        fact_id=move.id,
        at=from_us(move.at_us),
        service=move.service,
        instance=move.instance,
        breaker=move.breaker,
        state=state_or_none(move.state) or State.CLOSED,
        previous_state=state_or_none(said["previous_state"]),
        trigger=trigger_or_none(said["trigger"]),
        calls=whole_or_none(said["calls"]),
        failures=whole_or_none(said["failures"]),
        failure_rate=number_or_none(said["failure_rate"]),
        threshold=number_or_none(said["threshold"]),
        last_category=category_or_none(said["last_category"]),
        override_id=text_of(said["override_id"]),
        revision=whole_or_none(said["revision"]),
    )


def last_transition(row: Standing, service: str, instance: str) -> Transition | None:
    """The move that made the current state; None for a breaker that never moved."""
    if row.at_us is None:
        return None
    return Transition(
        fact_id=None,
        at=from_us(row.at_us),
        service=service,
        instance=instance,
        breaker=row.breaker,
        state=state_or_none(row.state) or State.CLOSED,
        previous_state=state_or_none(row.previous_state),
        trigger=trigger_or_none(row.trigger),
        calls=row.calls,
        failures=row.failures,
        failure_rate=row.failure_rate,
        threshold=row.threshold,
        last_category=category_or_none(row.last_category),
        override_id=row.override_id,
        revision=row.revision,
    )
