"""The rows of the queue: their columns on the page and in a file, how far the chain of each has come, and its links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.http import HttpRequest

from events.capacity.asking import events_going_on
from events.capacity.rows import CapacityEventRow
from events.queries.breakers import reported
from recovery_ops.control.core.columns import Column, Columns
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.escalations.selectors.queue import EscalationRow
from recovery_ops.control.notifications.escalation_policies import Reached, reached_by
from recovery_ops.rules.policy.escalation_terms import SEVERITIES

_HEADS: tuple[Column[EscalationRow], ...] = (
    Column(name="what", word="Escalation", key=lambda row: row.title.lower(), is_fixed=True),
    Column(name="severity", word="Severity", key=lambda row: SEVERITIES.index(row.one.severity), is_most_first=True),
    Column(name="question", word="Question"),
    Column(name="owner", word="Owner", key=lambda row: row.one.assigned_to.lower() or None),
    Column(name="step", word="Level"),
    Column(name="take", word="Ack due", key=lambda row: row.acknowledging.ends),
    Column(name="resolve", word="Resolve due", key=lambda row: row.resolving.ends),
    Column(name="asked", word="Last event", key=lambda row: row.one.seen_at, is_most_first=True),
    Column(name="notes", word="Comments", key=lambda row: row.notes, is_number=True, is_most_first=True),
    Column(name="opened", word="Opened", key=lambda row: row.one.opened_at, is_extra=True),
    Column(name="service", word="Service", key=lambda row: row.one.service, is_extra=True),
)


def columns_of(request: HttpRequest, environment: str, *, is_whole: bool) -> Columns[EscalationRow]:
    """The columns; of a queue that is longer than a page nothing is sorted, for the rest would be out of the order."""
    heads = _HEADS if is_whole else tuple(replace(one, key=None) for one in _HEADS)
    return Columns(request, heads, before=int(visit_of(request).grants.may("respond", environment)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row as the queue shows it: how far its chain has come (None without one), its breaker and its outage."""

    row: EscalationRow
    reached: Reached | None
    breaker: str
    outage: CapacityEventRow | None


def lines_of(
    rows: Sequence[EscalationRow], environment: str, now: datetime, known: Mapping[int, Reached]
) -> list[Line]:
    """Each row with what it is linked with: outages that go on alone. `known`: what was looked at before."""
    reached = known or reached_by([row.one for row in rows], now)
    breaker_of: dict[str, str] = {}
    for name, one in reported(environment, now=now).items() if rows else ():
        breaker_of |= {operation: breaker_of.get(operation, name) for operation in one.operations} | {name: name}
    outages = events_going_on(environment, now=now) if rows else []
    return [
        Line(
            row=row,
            reached=reached.get(row.number),
            breaker=breaker_of.get(row.one.operation, ""),
            outage=next((one for one in outages if row.one.operation in one.operations and row.one.is_open), None),
        )
        for row in rows
    ]
