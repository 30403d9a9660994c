"""Which runs wait for capacity now: those that said that they try again later, and for which it is not later yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTextTransform

from events.models import Fact
from events.moments import US_PER_S, from_us, to_us
from events.queries.overview_rows import Waiting
from events.queries.readings import number_in
from recovery_ops.rules.enums import CAPACITY
from recovery_ops.rules.events import RetryScheduled
from recovery_ops.wire import names

LOOKED_BACK = timedelta(hours=6)
"""As long as anybody waits."""
READ = 1_000
_USUAL = timedelta(minutes=10)
"""Most waits are shorter: where the newest that were read do not reach back so far, there may be more."""
_RETRY = names.EVENTS[RetryScheduled].name
_DELAY = names.attribute_of(RetryScheduled, "delay_s")
_OF_CAPACITY = frozenset(category.value for category in CAPACITY)


class Retry(NamedTuple):
    """What an instance (an id of agents) said of a run that tries again: when, why, of whom, and after how long."""

    run: str
    at_us: int
    category: str
    provider: str
    model: str
    operation: str
    delay_s: str | None
    agent_id: int


def retries_said(environment: str, *, now: datetime) -> QuerySet[Any, Any]:
    """The newest words on trying again, with the columns of a `Retry`. Index `fact_by_event`."""
    lately = Fact.objects.filter(
        environment=environment, event=_RETRY, at_us__gt=to_us(now - LOOKED_BACK), at_us__lte=to_us(now)
    )
    newest = lately.order_by("-at_us").values("pk")[:READ]
    return lately.filter(pk__in=newest).order_by().annotate(delay_s=KeyTextTransform(_DELAY, "attributes"))


def runs_waiting(environment: str, agents: Collection[int], *, now: datetime) -> Waiting:
    """Which runs of these instances wait for capacity now. One query."""
    said = retries_said(environment, now=now).values_list(*Retry._fields)
    return waiting_in(map(Retry._make, said), agents, now=now)


def waiting_in(said: Iterable[Retry], agents: Collection[int], *, now: datetime) -> Waiting:
    """Whose newest word is a wait for capacity that is not over, of the runs of these instances: what became of the
    others is not known.
    """
    newest: dict[str, Retry] = {}
    oldest_us, count = to_us(now), 0
    for one in said:
        count, oldest_us = count + 1, min(oldest_us, one.at_us)
        if one.run and (one.run not in newest or one.at_us > newest[one.run].at_us):
            newest[one.run] = one
    waiting = {run: one.at_us for run, one in newest.items() if one.agent_id in agents and _waits(one, to_us(now))}
    is_cut = count == READ and oldest_us > to_us(now - _USUAL)
    if not waiting:
        return Waiting(is_cut=is_cut)
    longest = min(waiting, key=lambda run: (waiting[run], run))
    return Waiting(runs=len(waiting), longest=longest, since=from_us(waiting[longest]), is_cut=is_cut)


def _waits(one: Retry, now_us: int) -> bool:
    wait_s = number_in(one.delay_s) if one.category in _OF_CAPACITY else None
    return wait_s is not None and one.at_us + min(wait_s, LOOKED_BACK.total_seconds()) * US_PER_S > now_us
