"""The moves of breakers, each with its evidence, newest first."""

from __future__ import annotations

from datetime import datetime

from events.models import BreakerState, Fact
from events.queries.moments import from_us, to_us
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
from recovery_ops.rules.facts import BreakerStateChanged
from recovery_ops.rules.words import State

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


def transitions(
    environment: str, *, start: datetime, end: datetime, breaker: str | None = None, limit: int = 200
) -> list[Transition]:
    """The moves in [start, end), newest first. One query; index `fact_by_breaker`, or `fact_by_event` for all."""
    moved = Fact.objects.filter(environment=environment, event=MOVED, at_us__gte=to_us(start), at_us__lt=to_us(end))
    if breaker is not None:
        moved = moved.filter(breaker=breaker)
    newest = moved.select_related("agent").order_by("-at_us", "-sequence_number", "-id")[:limit]
    return [transition_of(fact, fact.agent.service, fact.agent.instance) for fact in newest]


def transition_of(fact: Fact, service: str, instance: str) -> Transition:
    """The move that a stored fact states."""
    said = _EVIDENCE.of(fact.attributes)
    return Transition(
        fact_id=fact.pk,
        at=from_us(fact.at_us),
        service=service,
        instance=instance,
        breaker=fact.breaker,
        state=state_or_none(fact.state) or State.CLOSED,
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


def last_transition(row: BreakerState, service: str, instance: str) -> Transition | None:
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
