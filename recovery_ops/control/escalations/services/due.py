"""What happens to escalations by itself: deadlines that pass, acknowledgements that run out, snoozes that end."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from events.wording import span_text
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.revisions import bump_revision, current_revision
from recovery_ops.control.desired_state.document import ANSWERS_KEPT
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.terms import saved_runs_of, then_of

BY = "deadline"


def keep_deadlines(environment: str, now: datetime) -> int:
    """Carry out what is due; return how much it was. A lost or doubled call changes nothing."""
    with transaction.atomic():
        audit.lock(environment)
        waiting = Escalation.objects.filter(environment=environment, resolved_at=None)
        due = [
            *(_default(one, now) for one in waiting.filter(resolve_by__lte=now, default_done_at=None)),
            *(_taken_back(one, now) for one in waiting.exclude(acknowledged_at=None) if _is_let_lie(one, now)),
            *(_back(one, now) for one in waiting.filter(snoozed_until__lte=now)),
            *(_said_by_silence(one, now) for one in _withdrawn_due(environment, now)),
        ]
    return len(due)


def _default(one: Escalation, now: datetime) -> Escalation:
    """Nobody answered: it ends as silence says, and a run that waits is told. What is still to be done stays open."""
    one.saved_runs = saved_runs_of(one.environment, one.default_action, one.runs)
    then = then_of(one)
    one.default_done_at = now
    if one.ends_by_default:
        one.resolved_at, one.resolved_by, one.resolution = now, BY, one.ends_by_default
        one.snoozed_until = None
    if one.ticket:
        one.revision = current_revision(one.environment) + 1
    one.version += 1
    one.save()
    EscalationNote.objects.create(
        escalation=one, at=now, by=BY, verb="default", text=f"No decision by the deadline. Default action: {then}."
    )
    deed = audit.AuditRecord(
        verb="escalation.default",
        object=f"{one}",
        operation=one.operation,
        reason=f"No decision by the deadline. Default action: {then}.",
        after={"id": one.pk, "default_action": one.default_action, "resolution": one.resolution},
        revision=one.revision,
    )
    audit.append(one.environment, deed, by=system_actor(BY), at=now)
    if one.ticket:
        bump_revision(one.environment, now)
    return one


def _withdrawn_due(environment: str, now: datetime) -> QuerySet[Escalation]:
    """What was withdrawn and has now passed its deadline, as long as answers are kept. Index `escalation_by_end`."""
    lately = now - ANSWERS_KEPT
    found = Escalation.objects.filter(environment=environment, resolved_at__gt=lately, resolve_by__lte=now)
    return found.filter(resolution=Escalation.WITHDRAWN, default_done_at=None)


def _said_by_silence(one: Escalation, now: datetime) -> Escalation:
    """Its run waits no more, but another process may look for its answer: it finds what it would have found."""
    one.default_done_at, one.revision = now, current_revision(one.environment) + 1
    one.save(update_fields=["default_done_at", "revision"])
    bump_revision(one.environment, now)
    return one


def _is_let_lie(one: Escalation, now: datetime) -> bool:
    return one.acknowledged_at is not None and one.acknowledged_at <= now - one.held_for


def _taken_back(one: Escalation, now: datetime) -> Escalation:
    who, one.acknowledged_at, one.acknowledged_by = one.acknowledged_by, None, ""
    if not one.is_defaulted:  # it was taken in time: whoever is asked now has all of it again
        one.acknowledge_by = max(now, min(now + one.acknowledge_in, one.resolve_by))
    one.save(update_fields=["acknowledged_at", "acknowledged_by", "acknowledge_by"])
    text = f"The acknowledgement of {who} expired after {span_text(one.held_for)}."
    EscalationNote.objects.create(escalation=one, at=now, by=BY, verb="expired", text=text)
    return one


def _back(one: Escalation, now: datetime) -> Escalation:
    one.snoozed_until = None
    one.save(update_fields=["snoozed_until"])
    EscalationNote.objects.create(escalation=one, at=now, by=BY, verb="returned", text="Snooze ended.")
    return one
