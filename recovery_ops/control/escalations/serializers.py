"""What the API answers about escalations: questions with their clocks, and their story."""

from __future__ import annotations

from datetime import datetime

from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.serializers import Document
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.selectors.queue import Clock, EscalationRow, row_of
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.notifications.escalation_policies import Plan


def escalation_document(row: EscalationRow) -> Document:
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


def note_document(note: EscalationNote) -> Document:
    """One line of its story."""
    return {
        "number": note.pk,
        "at": _moment(note.moment),
        "written_at": _moment(note.at),
        "by": note.by,
        "verb": note.verb,
        "text": note.text,
    }


def levels_document(plan: Plan) -> Document:
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


def response_document(done: CommandResult[Escalation], now: datetime) -> Document:
    """What an act did, or would do; `revision` is that under which a waiting run hears of it."""
    return {
        "revision": done.revision,
        "was_already": done.was_already,
        "dry_run": done.is_dry_run,
        "escalation": escalation_document(row_of(done.object, now)),
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
