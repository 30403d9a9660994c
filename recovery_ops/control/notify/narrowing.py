"""What narrows the queue and stands in other tables: what a provider serves, and how far chains have come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from django.db.models import Q

from events.queries.breakers import providers_of, reported
from recovery_ops.control.escalations.asking import RESOLVED_FOR, Narrowed
from recovery_ops.control.models import Escalation
from recovery_ops.control.notify.chains import Reached, reached_by

LOOKED_THROUGH = 1_000
"""The newest questions of which the step is looked at."""
STEPS = tuple(str(number) for number in range(21))


def looked_up(narrowed: Narrowed, environment: str, now: datetime) -> tuple[Narrowed, Mapping[int, Reached]]:
    """The same with what was looked up for it, and how far the chains have come that were looked at.

    No query without `provider` and `step`; two for the one, four for the other.
    """
    reached: Mapping[int, Reached] = {}
    if narrowed.provider:
        served = operations_of(environment, narrowed.provider, now=now)
        narrowed = replace(narrowed, operations=served)
    if narrowed.step:
        kept = Q(resolved_at=None) | Q(resolved_at__gte=now - RESOLVED_FOR)
        every = Escalation.objects.filter(kept, environment=environment).order_by("-pk")
        reached = reached_by(list(narrowed.without("step").within(every, now)[:LOOKED_THROUGH]), now)
        numbers = frozenset(number for number, one in reached.items() if str(one.step) == narrowed.step)
        narrowed = replace(narrowed, numbers=numbers)
    return narrowed, reached


def operations_of(environment: str, provider: str, *, now: datetime) -> frozenset[str]:
    """The operations behind breakers whose calls of the last day named this provider. Two queries."""
    served = {name for name, said in providers_of(environment, now=now).items() if provider in said}
    known = reported(environment, now=now)
    return frozenset(served).union(*(known[name].operations for name in served if name in known))
