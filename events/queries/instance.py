"""One instance from the inside: its breakers, what failed in it last, and which revisions it came to obey."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from events.models import BreakerState, Fact
from events.moments import from_us, to_us
from events.queries.breakers import instance_state
from events.queries.readings import text_of, whole_or_none
from events.queries.sums import FAILED
from events.queries.trouble import failure_row
from events.rows import RANK, FailureRow, InstanceState, RevisionMove
from recovery_ops.rules.facts import DesiredStateApplied, DesiredStateRejected
from recovery_ops.wire import names

READ = 2_000
"""So many of the newest facts of a kind are looked through for those of one instance."""
LATELY = timedelta(hours=24)
_APPLIED = names.EVENTS[DesiredStateApplied].name
_REJECTED = names.EVENTS[DesiredStateRejected].name


def breakers_in(agent_id: int, *, now: datetime) -> list[InstanceState]:
    """Every breaker that it ever reported, the worst first. One query; the index of the instance."""
    found = BreakerState.objects.filter(agent_id=agent_id).select_related("agent")
    rows = [instance_state(row, now) for row in found]
    return sorted(rows, key=lambda one: (-RANK[one.reported_state], one.breaker))


def failures_of(environment: str, agent_id: int, *, now: datetime, limit: int = 10) -> list[FailureRow]:
    """Its newest failures among the newest of the last 24 hours of all instances. One query; `fact_by_event`."""
    newest = _newest(environment, FAILED, agent_id, now).select_related("agent")
    return [failure_row(fact) for fact in newest[:limit]]


def revisions_of(environment: str, agent_id: int, *, now: datetime, limit: int = 10) -> list[RevisionMove]:
    """Which revisions it applied or refused lately, the newest first. Two queries; `fact_by_event`."""
    found = []
    for event, kind in ((_APPLIED, DesiredStateApplied), (_REJECTED, DesiredStateRejected)):
        for at_us, said in _newest(environment, event, agent_id, now).values_list("at_us", "attributes")[:limit]:
            revision = whole_or_none(said.get(names.attribute_of(kind, "revision")))
            reason = text_of(said.get(names.attribute_of(kind, "reason"))) if event == _REJECTED else ""
            found.append(
                RevisionMove(at=from_us(at_us), revision=revision, is_refused=event == _REJECTED, reason=reason)
            )
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
