"""What the API answers about escalations: questions with their clocks, and their story."""

from __future__ import annotations

from datetime import datetime

from recovery_ops.control.actions import Done
from recovery_ops.control.documents import Document
from recovery_ops.control.escalations.asking import Clock, EscalationRow, row_of
from recovery_ops.control.escalations.learning import is_starred
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.models import Escalation, EscalationNote, FollowUp
from recovery_ops.control.notify.chains import Plan


def of_escalation(row: EscalationRow) -> Document:
    """One question as it stands. `version` is what If-Match names; `ticket` is empty where no run waits."""
    one = row.one
    return {
        "number": one.pk,
        "version": one.version,
        "title": row.title,
        "asks": row.asks,
        "severity": one.severity,
        "queue": one.queue,
        "reason": one.reason,
        "category": one.category,
        "fingerprint": one.fingerprint,
        "capacity_event": one.capacity_event,
        "operation": one.operation,
        "service": one.service,
        "message": one.message,
        "proposal": one.proposal,
        "ticket": one.ticket,
        "instances": list(one.instances),
        "runs": list(one.runs),
        "occurrences": one.occurrences,
        "opened_at": _moment(one.opened_at),
        "seen_at": _moment(one.seen_at),
        "acknowledging": _of_clock(row.acknowledging),
        "resolving": _of_clock(row.resolving),
        "if_ignored": then_of(one),
        "default_done_at": _moment(one.default_done_at),
        "acknowledged_at": _moment(one.acknowledged_at),
        "acknowledged_by": one.acknowledged_by,
        "assigned_to": one.assigned_to,
        "snoozed_until": _moment(one.snoozed_until),
        "labels": one.label_names,
        "resolved_at": _moment(one.resolved_at),
        "resolved_by": one.resolved_by,
        "resolution": one.resolution,
        "answer": one.answer,
        "revision": one.revision,
        "merged_into": one.merged_into_id,
    }


def of_note(note: EscalationNote) -> Document:
    """One line of its story."""
    return {
        "number": note.pk,
        "at": _moment(note.moment),
        "written_at": _moment(note.at),
        "by": note.by,
        "verb": note.verb,
        "text": note.text,
        "is_starred": is_starred(note),
    }


def of_follow_up(one: FollowUp) -> Document:
    """What is still to be done, or was: `done_at` is null until then."""
    return {
        "number": one.pk,
        "text": one.text,
        "owner": one.owner,
        "due_on": None if one.due_on is None else one.due_on.isoformat(),
        "made_at": _moment(one.made_at),
        "made_by": one.made_by,
        "done_at": _moment(one.done_at),
        "done_by": one.done_by,
    }


def of_plan(plan: Plan) -> Document:
    """Who was asked, and who will be if nobody takes it; `due_at` is null where the clock stands, or it is done."""
    return {
        "chain": plan.chain.pk if plan.chain is not None and plan.chain.is_on else None,
        "changed_at": _moment(plan.changed_at),
        "steps": [
            {
                "who": step.who,
                "after_s": step.after_s,
                "asked_at": _moment(step.asked_at),
                "due_at": _moment(step.due_at),
                "delivery": step.delivery,
                "is_former": step.is_former,
            }
            for step in plan.steps
        ],
    }


def of_done(done: Done[Escalation], now: datetime) -> Document:
    """What an act did, or would do; `revision` is that under which a waiting run hears of it."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "escalation": of_escalation(row_of(done.object, now)),
    }


def _of_clock(clock: Clock) -> Document:
    return {
        "ends": _moment(clock.ends),
        "is_running": clock.is_running,
        "is_breached": clock.is_breached,
        "took_s": None if clock.took is None else clock.took.total_seconds(),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")
