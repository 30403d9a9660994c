"""What narrows the queue and stands in other tables: what a provider serves, and how far chains have come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from django.db.models import Q, QuerySet

from events.queries.breakers import served_by
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.selectors.queue import RESOLVED_FOR, Narrowed
from recovery_ops.control.notifications.escalation_policies import Reached, chains_of, due_of, reached_by, standing_by
from recovery_ops.control.notifications.models.notifications import EscalationChain

LOOKED_THROUGH = 1_000
"""The newest questions of which the step is looked at."""
STEPS = tuple(str(number) for number in range(21))


def looked_up(narrowed: Narrowed, environment: str, now: datetime) -> tuple[Narrowed, Mapping[int, Reached]]:
    """The same with what was looked up for it, and how far the chains have come that were looked at.

    No query without `step`, four with it.
    """
    narrowed = _served(narrowed, environment, now)
    if not narrowed.step:
        return narrowed, {}
    reached = reached_by(list(_looked_through(narrowed, environment, now)), now)
    return _at_step(narrowed, {number: one.step for number, one in reached.items()}), reached


def narrowed_down(
    narrowed: Narrowed, environment: str, now: datetime, chains: Mapping[str, EscalationChain] | None = None
) -> Narrowed:
    """The same for who shows no chains. No query without `step`; with it one, and one for the `chains` if not given."""
    narrowed = _served(narrowed, environment, now)
    if not narrowed.step:
        return narrowed
    chains = chains_of(environment) if chains is None else chains
    return _at_step(narrowed, _steps_due(_looked_through(narrowed, environment, now), chains, now))


def _served(narrowed: Narrowed, environment: str, now: datetime) -> Narrowed:
    if not narrowed.provider:
        return narrowed
    return replace(narrowed, operations=served_by(environment, narrowed.provider, now=now))


def _looked_through(narrowed: Narrowed, environment: str, now: datetime) -> QuerySet[Escalation]:
    kept = Q(resolved_at=None) | Q(resolved_at__gte=now - RESOLVED_FOR)
    every = Escalation.objects.filter(kept, environment=environment).order_by("-pk")
    return narrowed.without("step").within(every, now)[:LOOKED_THROUGH]


def _at_step(narrowed: Narrowed, steps: Mapping[int, int]) -> Narrowed:
    numbers = frozenset(number for number, step in steps.items() if str(step) == narrowed.step)
    return replace(narrowed, numbers=numbers)


def _steps_due(found: QuerySet[Escalation], chains: Mapping[str, EscalationChain], now: datetime) -> dict[int, int]:
    """How many steps of its chain were due, of each of these by its number; those whose queue has none are left out.
    One query.
    """
    told = Escalation.objects.filter(pk__in=found.values("pk")).order_by("notes__at", "notes__pk")
    of_note = ("at", "verb", "by", "text", "chain_s")
    ends, stories = dict[int, tuple[str, datetime | None]](), defaultdict[int, list[EscalationNote]](list)
    for number, queue, resolved_at, *said in told.values_list(
        "pk", "queue", "resolved_at", *(f"notes__{name}" for name in of_note)
    ):
        ends[number] = (queue, resolved_at)
        if said[0] is not None:  # it has none else
            stories[number].append(EscalationNote(**dict(zip(of_note, said, strict=True))))
    standing = standing_by(chains, ends, stories, now)
    return {number: due_of(steps, clock) for number, (steps, clock) in standing.items()}
