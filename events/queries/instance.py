"""One instance from the inside: its breakers, what it told and what failed in it last, which revisions it obeyed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from events.models import BreakerState, Fact
from events.moments import from_us, to_us
from events.queries.breakers import instance_state
from events.queries.readings import text_of, whole_or_none
from events.queries.sums import FAILED
from events.queries.trouble import failure_row
from events.rows import RANK, FailureRow, InstanceState, RevisionMove
from events.store.partitions import BEHIND_DAYS, is_partitioned, newest_number
from recovery_ops.rules.events import (
    CallsCounted,
    DesiredStateApplied,
    DesiredStateRejected,
    InstanceHeartbeat,
    SettingsInForce,
)
from recovery_ops.wire import names

READ = 2_000
"""So many of the newest facts of a kind are looked through for those of one instance."""
EVENTS_READ = 5_000
"""So many of the newest facts of all kinds and instances are."""
LATELY = timedelta(hours=24)
_TOLD_LATE = timedelta(days=BEHIND_DAYS)
"""So much later an outbox may bring what an instance told."""
_ROUTINE = [names.EVENTS[kind].name for kind in (InstanceHeartbeat, CallsCounted, SettingsInForce)]
_APPLIED = names.EVENTS[DesiredStateApplied].name
_REJECTED = names.EVENTS[DesiredStateRejected].name


class InstanceEvent(NamedTuple):
    """One thing that an instance told. `severity` as OpenTelemetry counts."""

    fact_id: int
    at: datetime
    event: str
    severity: int
    operation: str
    category: str
    run: str
    body: str

    @property
    def is_error(self) -> bool:
        """Whether its severity is that of an error."""
        return self.severity >= 17


def breakers_in(agent_id: int, *, now: datetime) -> list[InstanceState]:
    """Every breaker that it ever reported, the worst first. One query; the index of the instance."""
    rows = [instance_state(row, now) for row in standing_in(agent_id)]
    return sorted(rows, key=lambda one: (-RANK[one.reported_state], one.breaker))


def standing_in(agent_id: int) -> list[BreakerState]:
    """The same as it is kept, by name, for `segments`. One query."""
    return list(BreakerState.objects.filter(agent_id=agent_id).select_related("agent").order_by("breaker"))


def failures_of(environment: str, agent_id: int, *, now: datetime, limit: int = 10) -> list[FailureRow]:
    """Its newest failures among the newest of the last 24 hours of all instances. One query; `fact_by_event`."""
    newest = _newest(environment, FAILED, agent_id, now).select_related("agent")
    return [failure_row(fact) for fact in newest[:limit]]


def last_events_of(agent_id: int, *, last_seen: datetime, limit: int = 50) -> list[InstanceEvent]:
    """What it told last, also late, among the newest facts of all instances, but for what it tells all the time. Two
    queries.

    On PostgreSQL of the eight days before it was heard last: by their numbers alone, each day that is kept would be
    asked.
    """
    newest = Fact.objects.filter(agent_id=agent_id, id__gt=newest_number() - EVENTS_READ)
    lately = newest.filter(at_us__gte=to_us(last_seen - _TOLD_LATE)) if is_partitioned() else newest
    columns = ("id", "at_us", "event", "severity", "operation", "category", "run", "body")
    found = lately.exclude(event__in=_ROUTINE).order_by("-id").values_list(*columns)[:limit]
    return [InstanceEvent(fact_id, from_us(at_us), *rest) for fact_id, at_us, *rest in found]


def revisions_of(environment: str, agent_id: int, *, now: datetime, limit: int = 10) -> list[RevisionMove]:
    """Which revisions it applied or refused lately, the newest first. One query; `fact_by_event`."""
    applied, rejected = (
        _newest(environment, event, agent_id, now).order_by().values_list("event", "at_us", "attributes")
        for event in (_APPLIED, _REJECTED)
    )
    found = []
    for event, at_us, said in applied.union(rejected, all=True):
        kind: type[Any] = DesiredStateRejected if event == _REJECTED else DesiredStateApplied
        revision = whole_or_none(said.get(names.attribute_of(kind, "revision")))
        reason = text_of(said.get(names.attribute_of(kind, "reason"))) if event == _REJECTED else ""
        found.append(RevisionMove(at=from_us(at_us), revision=revision, is_refused=event == _REJECTED, reason=reason))
    return sorted(found, key=lambda one: one.at, reverse=True)[:limit]


def _newest(environment: str, event: str, agent_id: int, now: datetime) -> QuerySet[Fact]:
    """Those of one instance among the newest `READ` facts of a kind: no index has the facts of one.

    Bounded by the moment of the last of these, not by their numbers, which PostgreSQL would look up in every day.
    """
    since_us = to_us(now - LATELY)
    ours = Fact.objects.filter(environment=environment, event=event)
    last = ours.filter(at_us__gte=since_us).order_by("-at_us").values("at_us")[READ - 1 : READ]
    # In this order: of two bounds SQLite seeks by the first, and PostgreSQL plans by the one that is a number.
    mine = ours.filter(agent_id=agent_id, at_us__gte=Coalesce(Subquery(last), since_us)).filter(at_us__gte=since_us)
    return mine.order_by("-at_us", "-sequence_number", "-id")
