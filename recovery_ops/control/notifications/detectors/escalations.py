"""What became of escalations, by their stories; and how much of their time is gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Q
from django.urls import reverse

from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.selectors.queue import proposed_by, row_of, title_of
from recovery_ops.control.escalations.services.due import BY as DEADLINE
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.notifications.triggers import Look, Occurrence
from recovery_ops.rules.notifications.grouping import Phase, Severity
from recovery_ops.rules.policy.escalation_terms import HIGH, LOW, NORMAL

OPENS = ("opened", "reopen", "expired", "returned", "escalate")
ENDS = ("resolve", "approve", "reject", "default", "withdraw")
TAKES = ("acknowledge",)
SHARES = (50, 80, 100)
_SEVERITIES = {LOW: Severity.INFO, NORMAL: Severity.WARNING, HIGH: Severity.CRITICAL}
_LOOKED_BACK = timedelta(days=1)
"""Stories are short, and are written by the console itself: a long absence of the worker loses none of them."""


def found(look: Look) -> Iterator[Occurrence]:
    """Openings, acknowledgements and ends; then deadlines. Two queries at most."""
    if look.wants("escalation", "sla") or any(one.startswith("ESC-") for one in look.open):
        yield from _told(look)
    if look.wants("sla"):
        yield from _deadlines(look)


def _told(look: Look) -> Iterator[Occurrence]:
    recent = Q(escalation__resolved_at=None) | Q(escalation__resolved_at__gte=look.now - _LOOKED_BACK)
    notes = EscalationNote.objects.filter(
        recent,
        escalation__environment=look.environment,
        at__gte=look.now - _LOOKED_BACK,
        verb__in=(*OPENS, *TAKES, *ENDS, "merge"),
    )
    for note in notes.select_related("escalation").order_by("at", "pk"):
        one = note.escalation
        if note.verb in OPENS:
            yield _occurrence(one, note, "escalation_opened", Phase.BEGAN, f"{_name(one)}{_again(note)}")
        elif note.verb in TAKES:
            title = f"{_name(one)}: acknowledged by {note.by}"
            yield _occurrence(one, note, "escalation_taken", Phase.ACKNOWLEDGED, title)
        elif is_end_of(one, note):
            title = f"{_name(one)}: {one.resolution} by {one.resolved_by}"
            yield _occurrence(one, note, "escalation_closed", Phase.ENDED, title)


def _occurrence(one: Escalation, note: EscalationNote, kind: str, phase: Phase, title: str) -> Occurrence:
    return Occurrence(
        kind=kind,
        event=f"{one}:{note.pk}",
        subject=str(one),
        phase=phase,
        severity=severity_of(one),
        at=note.at,
        title=title,
        text=asks_of(one) if phase is Phase.BEGAN else note.text,
        path=reverse("escalation", args=[one.pk]),
        triggers=frozenset({"escalation"}),
        operation=one.operation,
        queue=one.queue,
        causes=frozenset({one.fingerprint} - {""}),
    )


_DEADLINES = {"taken": "acknowledged", "resolved": "resolved"}


def _deadlines(look: Look) -> Iterator[Occurrence]:
    here = Escalation.objects.filter(environment=look.environment)
    for one in here.filter(resolved_at=None).exclude(snoozed_until__gt=look.now):
        row = row_of(one, look.now)
        for verb, clock in (("taken", row.acknowledging), ("resolved", row.resolving)):
            gone = 100 if clock.is_breached else 100 * (1 - clock.share_left)
            reached = [share for share in SHARES if share <= gone]
            if clock.is_running and reached:
                yield _deadline(row.one, verb, clock.ends, reached[-1], look.now)
    # What silence has ended was not resolved in time, whichever look came first: that which decides, or this one. It is
    # no more of the question itself, whose end is told to whoever heard of it.
    for one in here.filter(resolved_by=DEADLINE, resolved_at__gte=look.now - _LOOKED_BACK):
        missed = _deadline(one, "resolved", one.resolve_by, 100, one.resolve_by)
        yield replace(missed, phase=Phase.TOLD, subject=f"{one} deadline")


def _deadline(one: Escalation, verb: str, ends: datetime, share: int, now: datetime) -> Occurrence:
    if share == 100:
        title = f"{_name(one)}: not {_DEADLINES[verb]} by the deadline"
    else:
        title = f"{_name(one)}: not {_DEADLINES[verb]}, {share} % of the time used, due {ends:%H:%M:%S} UTC"
    return Occurrence(
        kind=f"sla_{verb}_{share}",
        event=f"{one}:{verb}:{ends:%Y-%m-%dT%H:%M:%S}:{share}",
        subject=str(one),
        phase=Phase.BEGAN,
        severity=Severity.CRITICAL if share == 100 else severity_of(one),
        at=now,
        title=title,
        text=asks_of(one),
        path=reverse("escalation", args=[one.pk]),
        triggers=frozenset({"sla"}),
        operation=one.operation,
        queue=one.queue,
        causes=frozenset({one.fingerprint} - {""}),
    )


def is_end_of(one: Escalation, note: EscalationNote) -> bool:
    """Whether an escalation was closed by what this line of its story tells."""
    is_closing = note.verb in ENDS or (note.verb == "merge" and one.merged_into_id is not None)
    return is_closing and one.resolved_at is not None and note.at >= one.resolved_at


def severity_of(one: Escalation) -> Severity:
    """How much a question matters."""
    return _SEVERITIES.get(one.severity, Severity.WARNING)


def asks_of(one: Escalation) -> str:
    """What is asked, and what silence means."""
    then = then_of(one)
    said = f"“{one.message}” " if one.message else ""
    if proposed := proposed_by(one):
        said += f"{proposed.rstrip('.')}. "
    return f"{said}Default action at {one.resolve_by:%H:%M:%S} UTC: {then}."


def _name(one: Escalation) -> str:
    return f"{one} in {one.queue} ({title_of(one)})"


def _again(note: EscalationNote) -> str:
    return {
        "reopen": f", reopened by {note.by}",
        "expired": ", acknowledgement expired",
        "returned": ", snooze ended",
        "escalate": f", moved by {note.by}",
    }.get(note.verb, "")
