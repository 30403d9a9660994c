"""What a question is about, told alike on its page and in its post-mortem: its failures, its outages, its paragraph."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from events import queries
from events.capacity.asking import capacity_event, capacity_events
from events.capacity.rows import CapacityEventRow
from events.rows import FailureRow
from events.wording import clock_text, count_text, zone_word
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import EscalationRow
from recovery_ops.control.escalations.services.merging import NAMED_MOST
from recovery_ops.control.escalations.terms import matter_of, then_of

_BEFORE = timedelta(minutes=5)
"""What was before it was asked may be why."""
_EVIDENCE_FOR = timedelta(hours=24)
_FAILURES_MOST = 10
_OUTAGES_MOST = 3


def failures_of(one: Escalation, *, until: datetime) -> Sequence[FailureRow]:
    """The newest failures of it before a moment, at most ten of the last day. One query."""
    # What stopped a run as a whole lies in the run: any operation of it.
    about: dict[str, Any] = {"operation": one.operation} if one.operation else {"runs": set(one.runs) - {""}}
    if one.fingerprint or one.capacity_event is not None:
        about["category"] = one.category
    start = max(began(one), until - _EVIDENCE_FOR)
    return queries.recent_failures(one.environment, start=start, end=until, limit=_FAILURES_MOST, **about)


def began(one: Escalation) -> datetime:
    """From when on something may have to do with it."""
    return min(one.opened_at, one.seen_at) - _BEFORE


def outages_of(one: Escalation, now: datetime) -> list[CapacityEventRow]:
    """The event that a person asked about, and those of its operation at that time."""
    until, beside = one.resolved_at or now, list[CapacityEventRow]()
    if one.operation:
        beside = capacity_events(one.environment, start=began(one), end=until, now=now, also=one.capacity_event)
    about = one.capacity_event
    alike = [event for event in beside if one.operation in event.operations]
    if about is None:
        return alike[:_OUTAGES_MOST]
    here = (event for event in beside if about in (event.id, *(part.id for part in event.parts)))
    named = next(here, None) or capacity_event(one.environment, about, now=now)
    others = (event for event in alike if named is None or event.id != named.id)
    return [*([named] if named else []), *others][:_OUTAGES_MOST]


def paragraph_of(row: EscalationRow, now: datetime) -> str:
    """What failed, how often, who asks, and what happens if nobody answers."""
    one = row.one
    who = f"{one.operation} of {one.service}" if one.operation else f"A run of {one.service}"
    matter = matter_of(one.reason, one.category)
    what = f"{who}: question to {one.queue}" if row.is_question else f"{who}: {matter}"
    if one.fingerprint:
        seen = f", last seen in {who}" if one.operation else ""
        what = f"Issue escalated to {one.queue}{seen}"
    if one.capacity_event is not None:
        what = f"Incident CE-{one.capacity_event} escalated to {one.queue}"
    if one.category and not row.is_question:
        what = f"{who} failed, {matter}"
    said = "" if row.is_question or not one.message else f": “{one.message.rstrip('. ')}”"
    times = "once" if one.occurrences == 1 else f"{one.occurrences:,} times"
    least = "≥ " if len(one.runs) >= NAMED_MOST else ""
    runs = f" in {least}{count_text(len(one.runs), 'run')}" if one.runs else ""
    asked = f"Escalated {times}{runs}, last at {clock_text(one.seen_at, today=now)} {zone_word(now)}."
    if one.resolution == Escalation.WITHDRAWN:
        return f"{what}{said}. {asked} Withdrawn: the run was aborted."
    if not one.is_open:
        return f"{what}{said}. {asked}"
    waits = "A run is waiting. " if one.ticket else ""
    then = then_of(one)
    end = f"Default action at {clock_text(one.resolve_by, today=now)} {zone_word(now)}: {then}."
    if one.default_done_at is not None:
        end = f"Deadline missed; default action applied: {then}. The escalation stays open."
    return f"{what}{said}. {asked} {waits}{end}"
