"""What people keep of a question to learn from it: stars at lines of its story, and follow-ups with owners."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, require
from recovery_ops.control.actions.checks import LEAST_REASON_CHARS, said
from recovery_ops.control.escalations.learning import FOLLOW_UPS_MOST
from recovery_ops.control.models import (
    NAME_CHARS,
    REASON_CHARS,
    AuditEntry,
    Escalation,
    EscalationNote,
    EscalationStar,
    FollowUp,
)
from recovery_ops.control.refusals import INVALID, STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

_MAY = "respond"
_STARRED = "chosen for the post-mortem"
_AGREED = "agreed after the question"
_DONE = "done, as was agreed"


class Starring(Asked):
    """What `star_note` is given: the question's number, that of a line of its story, and whether it has a star."""

    number: Required[int]
    note: Required[int]
    is_starred: Required[bool]


class Agreeing(Asked):
    """What `add_follow_up` is given: the question's number, what is to be done, whose it is, and by which day."""

    number: Required[int]
    text: Required[str]
    owner: Required[str]
    due_on: NotRequired[date | None]


class Finishing(Asked):
    """What `finish_follow_up` is given: the question's number, the follow-up's, and whether it is done."""

    number: Required[int]
    follow_up: Required[int]
    is_done: Required[bool]


def star_note(**asked: Unpack[Starring]) -> Done[Escalation]:
    """Star a line of a story for whoever learns from it, or take the star away. Raises Refused: 403, 404, 409."""
    is_starred = asked["is_starred"]

    def write(one: Escalation, attempt: Attempt) -> dict[str, Any] | None:
        note = EscalationNote.objects.filter(escalation=one, pk=asked["note"]).first()
        if note is None:
            raise _gone(f"{one} has no line {asked['note']}.", "note")
        held = EscalationStar.objects.filter(note=note)
        if held.exists() == is_starred:
            return None
        if is_starred:
            EscalationStar.objects.create(note=note, by=attempt.by.name, at=attempt.now)
        else:
            held.delete()
        return {"note": note.pk, "text": note.text}

    return _carried_out(asked, "star" if is_starred else "unstar", _STARRED, write)


def add_follow_up(**asked: Unpack[Agreeing]) -> Done[Escalation]:
    """Write down what is still to be done, also when the question is answered. Raises Refused: 403, 404, 400."""
    text, owner = said(asked["text"]), asked["owner"].strip()
    faults = {"text": _fault_of_text(text), "owner": _fault_of_owner(owner)}
    due_on = asked.get("due_on")
    if due_on is not None and not date(2000, 1, 1) <= due_on <= date(9000, 1, 1):
        faults["due_on"] = "is a day"

    def write(one: Escalation, attempt: Attempt) -> dict[str, Any] | None:
        if one.follow_ups.count() >= FOLLOW_UPS_MOST:
            detail = f"{one} has {FOLLOW_UPS_MOST} follow-ups already, which is the most."
            raise Refused("too_many", detail, status=INVALID, fields={"text": "is one too many"})
        if one.follow_ups.filter(text=text, owner=owner, due_on=due_on, done_at=None).exists():
            return None
        made = FollowUp.objects.create(
            escalation=one, text=text, owner=owner, due_on=due_on, made_at=attempt.now, made_by=attempt.by.name
        )
        return {"follow_up": made.pk, "text": text, "owner": owner, "due_on": due_on and due_on.isoformat()}

    return _carried_out(asked, "follow_up", _AGREED, write, faults)


def finish_follow_up(**asked: Unpack[Finishing]) -> Done[Escalation]:
    """Say that a follow-up was done, or that it is to be done again. Raises Refused: 403, 404, 409."""
    is_done = asked["is_done"]

    def write(one: Escalation, attempt: Attempt) -> dict[str, Any] | None:
        held = one.follow_ups.filter(pk=asked["follow_up"]).first()
        if held is None:
            raise _gone(f"{one} has no follow-up {asked['follow_up']}.", "follow_up")
        if (held.done_at is not None) == is_done:
            return None
        held.done_at, held.done_by = (attempt.now, attempt.by.name) if is_done else (None, "")
        held.save()
        return {"follow_up": held.pk, "text": held.text, "owner": held.owner}

    return _carried_out(asked, "follow_up_done" if is_done else "follow_up_undone", _DONE, write)


def _carried_out(
    asked: Any,
    verb: str,
    reason: str,
    write: Callable[[Escalation, Attempt], dict[str, Any] | None],
    faults: dict[str, str] | None = None,
) -> Done[Escalation]:
    """Do it to the question; `write` answers with what the audit log keeps, or None where it is so already."""
    require(asked["by"], _MAY, asked["environment"])
    given: Any = {**asked, "reason": asked["reason"] or reason, "seen": None}
    about = f"ESC-{asked['number']}"
    attempt = Attempt.of(f"escalation.{verb}", _MAY, Scope(), given, faults, about=about, is_for_agents=False)

    def written(revision: int) -> Step[Escalation]:
        one = Escalation.objects.filter(environment=attempt.environment, pk=asked["number"]).first()
        if one is None:
            detail = f"There is no escalation {asked['number']} in {attempt.environment}."
            raise Refused("unknown_escalation", detail, status=UNKNOWN, fields={"number": "is not known"})
        after = write(one, attempt)
        if after is None:
            return Step(object=one, revision=revision, was_already=True)
        return Step(object=one, revision=revision, after={"id": one.pk, **after})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, written, recall=_recalled)


def _recalled(entry: AuditEntry) -> Escalation:
    return Escalation.objects.get(environment=entry.environment, pk=(entry.after or {})["id"])


def _gone(detail: str, field: str) -> Refused:
    return Refused(f"unknown_{field}", f"{detail} Look again.", status=STALE, fields={field: "is not known"})


def _fault_of_text(text: str) -> str:
    if not LEAST_REASON_CHARS <= len(text) <= REASON_CHARS:
        return f"says what is to be done, in {LEAST_REASON_CHARS} to {REASON_CHARS} characters"
    return "" if all(one.isprintable() or one in "\n\t" for one in text) else "has characters that cannot be shown"


def _fault_of_owner(owner: str) -> str:
    is_name = bool(owner) and len(owner) <= NAME_CHARS and owner.isprintable()
    return "" if is_name else f"is whose it is, in at most {NAME_CHARS} characters"
