"""The rows of the queue: their columns on the page and in a file, and how far the chain of each has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.http import HttpRequest

from recovery_ops.control.context import visit_of
from recovery_ops.control.escalations.asking import EscalationRow
from recovery_ops.control.notify.chains import Reached, reached_by
from recovery_ops.control.views.columns import Column, Columns
from recovery_ops.rules.escalation_terms import SEVERITIES

_HEADS: tuple[Column[EscalationRow], ...] = (
    Column(name="what", word="What", key=lambda row: row.title.lower(), is_fixed=True),
    Column(name="severity", word="Severity", key=lambda row: SEVERITIES.index(row.one.severity), is_most_first=True),
    Column(name="question", word="Question"),
    Column(name="owner", word="Owner", key=lambda row: row.one.assigned_to.lower() or None),
    Column(name="step", word="Step"),
    Column(name="take", word="To be taken", key=lambda row: row.acknowledging.ends),
    Column(name="resolve", word="To be resolved", key=lambda row: row.resolving.ends),
    Column(name="asked", word="Last asked", key=lambda row: row.one.seen_at, is_most_first=True),
    Column(name="notes", word="Notes", key=lambda row: row.notes, is_number=True, is_most_first=True),
    Column(name="opened", word="Opened", key=lambda row: row.one.opened_at, is_extra=True),
    Column(name="service", word="Service", key=lambda row: row.one.service, is_extra=True),
)


def columns_of(request: HttpRequest, environment: str, *, is_whole: bool) -> Columns[EscalationRow]:
    """The columns; of a queue that is longer than a page nothing is sorted, for the rest would be out of the order."""
    heads = _HEADS if is_whole else tuple(replace(one, key=None) for one in _HEADS)
    return Columns(request, heads, before=int(visit_of(request).grants.may("respond", environment)))


def with_steps(rows: Sequence[EscalationRow], now: datetime) -> list[tuple[EscalationRow, Reached | None]]:
    """Each row with how far its chain has come; None where its queue has none."""
    reached = reached_by([row.one for row in rows], now)
    return [(row, reached.get(row.number)) for row in rows]
