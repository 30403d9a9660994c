"""What a run waited for that was called off: nobody waits for the answer any more, so nobody is asked for it.

It takes both: somebody's wish that the run ends, and an end that was seen. A run that was cancelled because its
process ended may be begun again, and finds the answer that it was given meanwhile. A newer fact that asks the same
brings the question back (`opening`), and whoever looks for its answer elsewhere finds at its deadline what silence
says (`due`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from events.models import Fact
from events.moments import from_us, to_us
from events.store.stored_json import text_at
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.models.bases import REASON_CHARS
from recovery_ops.control.desired_state.document import ABORTS_KEPT
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.services.merging import NAMED_MOST
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import RunFinished
from recovery_ops.wire import names

BY = "console"
_REASON_CHARS = 200
_FINISHED = names.EVENTS[RunFinished].name
_STATUS = names.attribute_of(RunFinished, "status")


class CalledOff(NamedTuple):
    """The newest end of a run that somebody had called off: when that was, and the wish."""

    at: datetime
    wish: RunAbort

    @property
    def words(self) -> str:
        reason = self.wish.reason[:_REASON_CHARS]
        why = f": “{reason}”" if reason else ""
        return f"Run aborted by {self.wish.by}, ended at {self.at:%Y-%m-%d %H:%M:%S} UTC{why}."


def withdraw_called_off(environment: str, now: datetime) -> int:
    """Close what only runs wait for that were called off since they asked; return how many that was.

    One query where no run waits for an answer, two or three where one does. A lost or doubled call changes nothing.
    """
    waiting = list(_waiting(environment))
    if not waiting:
        return 0
    called_off = _called_off(environment, waiting)
    over = {one.pk for one in waiting if _end_of(one, called_off) is not None}
    if not over:
        return 0
    with transaction.atomic():
        audit.lock(environment)
        closed = [
            _withdrawn(one, end, now)
            for one in _waiting(environment).filter(pk__in=over)
            if (end := _end_of(one, called_off)) is not None
        ]
    return len(closed)


def is_back(one: Escalation, asked_at: datetime) -> bool:
    """Whether a fact brings a withdrawn question back: one that is newer than the end of its run.

    What silence said of it by its deadline is its answer for good.
    """
    if one.resolution != Escalation.WITHDRAWN or one.default_done_at is not None or asked_at <= one.seen_at:
        return False
    ended = _called_off(one.environment, [one])
    return all(end.at < asked_at for end in ended.values())


def ask_anew(one: Escalation, resolve_by: datetime, now: datetime, **told: Any) -> None:
    """Put a withdrawn question again, as the fact tells it now (`told`). In the caller's transaction."""
    for name, value in told.items():
        setattr(one, name, value)
    one.resolved_at, one.resolved_by, one.resolution = None, "", ""
    one.acknowledged_at, one.acknowledged_by, one.snoozed_until = None, "", None
    one.resolve_by, one.resolve_in_s = resolve_by, (resolve_by - now).total_seconds()
    one.acknowledge_by = min(now + one.acknowledge_in, resolve_by)
    one.version += 1
    one.save()
    text = "The run restarted and escalated again."
    EscalationNote.objects.create(escalation=one, at=now, by=BY, verb="reopen", text=text)


def _waiting(environment: str) -> QuerySet[Escalation]:
    return Escalation.objects.filter(environment=environment, resolved_at=None).exclude(ticket="")


def _end_of(one: Escalation, called_off: Mapping[str, CalledOff]) -> CalledOff | None:
    """How the last of its runs was called off, after it asked; None where any of them may still wait."""
    ends = [called_off.get(run) for run in one.runs]
    if not ends or len(ends) >= NAMED_MOST or any(end is None or end.at < one.seen_at for end in ends):
        return None
    return max((end for end in ends if end is not None), key=lambda end: end.at)


def _called_off(environment: str, asked: Collection[Escalation]) -> dict[str, CalledOff]:
    """The newest end of each run that asked, of those that were called off since. Two queries; index `fact_by_run`."""
    runs = {run for one in asked for run in one.runs if run}
    since_us = min(to_us(one.seen_at) for one in asked)
    facts = Fact.objects.filter(environment=environment, run__in=runs, event=_FINISHED, at_us__gte=since_us)
    ended = facts.annotate(status=text_at(_STATUS)).order_by("at_us", "id")
    cancelled = {
        run: from_us(at_us)
        for run, at_us, status in ended.values_list("run", "at_us", "status")
        if status == RunStatus.CANCELLED.value
    }
    if not cancelled:
        return {}
    wishes = RunAbort.objects.filter(environment=environment, run__in=cancelled).order_by("at", "pk")
    return {wish.run: CalledOff(cancelled[wish.run], wish) for wish in wishes if _holds(wish, cancelled[wish.run])}


def _holds(wish: RunAbort, ended: datetime) -> bool:
    """Whether a wish was in force at that end. Agents go by clocks of their own: it may seem to come a moment later."""
    is_kept = wish.withdrawn_at is None or wish.withdrawn_at >= ended
    return is_kept and wish.at > ended - ABORTS_KEPT


def _withdrawn(one: Escalation, end: CalledOff, now: datetime) -> Escalation:
    one.resolved_at, one.resolved_by, one.resolution = now, BY, Escalation.WITHDRAWN
    one.snoozed_until = None
    one.version += 1
    one.save()
    text = f"{end.words} No run is waiting."[:REASON_CHARS]
    EscalationNote.objects.create(escalation=one, at=now, by=BY, verb="withdraw", text=text)
    deed = audit.AuditRecord(
        verb="escalation.withdraw",
        object=f"{one}",
        operation=one.operation,
        reason=text,
        after={"id": one.pk, "resolution": one.resolution},
    )
    audit.append(one.environment, deed, by=system_actor(BY), at=now)
    return one
