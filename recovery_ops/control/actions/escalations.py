"""What people do about escalations: take, hand on, put off, ask elsewhere, decide, close, open again, and say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.account_names import find_account
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actors import Actor
from recovery_ops.control.escalations import merging
from recovery_ops.control.escalations.terms import ACTIVE_FOR
from recovery_ops.control.labels import LABELS_MOST, fault_of_labels, kept_as, labelled
from recovery_ops.control.models import Escalation, EscalationNote
from recovery_ops.control.models.escalations import ANSWER_CHARS
from recovery_ops.control.notify.chains import Coming, coming_of
from recovery_ops.control.refusals import INVALID, STALE, UNKNOWN, Refused
from recovery_ops.control.roles import grants_of
from recovery_ops.rules.chains import GOES_ON
from recovery_ops.rules.scope import Scope

QUEUE_CHARS = 64
ENTRIES_BEFORE, ENTRIES_AFTER = timedelta(days=7), timedelta(days=30)
"""How long before a question, and after it was answered, what was belongs to its timeline."""
LONGEST_SNOOZE_S = 7 * 24 * 3600.0


class Responding(Asked):
    """What every act on an escalation is given. `number` is the escalation's; `version` the one the asker looked at.

    `to` is a person's name (assign) or a queue (escalate), `for_s` how long (snooze), `text` what goes back to the run
    (approve, reject), `happened_at` when what the reason tells was (entry), `into` the number of another escalation
    (merge), `step` that of a step of its chain (step), `labels` those to give, separated by commas, and behind a minus
    those to take away (label). An empty reason is filled in where the act says all there is to say.
    """

    number: Required[int]
    version: NotRequired[int | None]
    to: NotRequired[str]
    for_s: NotRequired[float]
    text: NotRequired[str]
    labels: NotRequired[str]
    into: NotRequired[int]
    step: NotRequired[int]
    happened_at: NotRequired[datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One kind of act: who may, what it is called afterwards, and what it does to an open (or closed) escalation."""

    past: str
    apply: Callable[[Escalation, Attempt, Responding], str]
    permission: str = "respond"
    is_decision: bool = False
    is_for_open: bool = True
    reason: str = ""
    """What stands as the reason where none is given; empty: a person has to say why."""


def _acknowledge(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    if one.acknowledged_at is not None and one.acknowledged_by == attempt.by.name:
        return ""
    one.acknowledged_at, one.acknowledged_by = attempt.now, attempt.by.name
    one.first_acknowledged_at = one.first_acknowledged_at or attempt.now
    one.snoozed_until = None
    if not one.assigned_to:
        one.assignee_id, one.assigned_to = attempt.by.user_id, attempt.by.name
    return "took it"


def _assign(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    name = asked.get("to", "").strip()
    person = find_account(name)
    if person is None or not person.is_active:
        raise Refused("unknown_person", f"Nobody here is called {name or 'that'}.", fields={"to": "is nobody's name"})
    if not grants_of(person).may("respond", attempt.environment):
        detail = f"{name} may not answer escalations in {attempt.environment}: give it to a responder."
        raise Refused("may_not_respond", detail, fields={"to": "is somebody who may not respond here"})
    if one.assignee_id == person.pk:
        return ""
    one.assignee_id, one.assigned_to = person.pk, person.get_username()
    return f"gave it to {one.assigned_to}"


def _snooze(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    until = attempt.now + timedelta(seconds=asked.get("for_s", 0.0))
    if one.ends_by_default and one.default_done_at is None and until >= one.resolve_by:
        who = "A run waits for the answer" if one.ticket else "It is open"
        detail = f"{who} until {one.resolve_by:%H:%M:%S} UTC; snooze it for less, or decide."
        raise Refused("too_late", detail, fields={"for_s": "goes past the deadline, which decides it"})
    one.snoozed_until = until
    return f"put it off until {until:%H:%M:%S} UTC"


def _escalate(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    queue = asked.get("to", "").strip()
    if queue == one.queue:
        return ""
    before, one.queue = one.queue, queue
    one.acknowledged_at, one.acknowledged_by, one.assignee_id, one.assigned_to = None, "", None, ""
    one.acknowledge_by, one.snoozed_until = attempt.now + one.acknowledge_in, None
    return f"asked {queue} instead of {before}"


def _ask_step(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    coming = _step_of(one, attempt, asked)
    one.acknowledged_at, one.acknowledged_by = None, ""
    one.acknowledge_by, one.snoozed_until = attempt.now + one.acknowledge_in, None
    return f"asked step {coming.number} of its chain at once: {coming.who}"


def _step_of(one: Escalation, attempt: Attempt, asked: Responding) -> Coming:
    """The step to come that is meant. Raises Refused where there is none."""
    coming = coming_of([one], attempt.now).get(one.pk)
    if coming is None:
        detail = f"{one.queue} has no chain that is on: ask another queue."
        raise Refused("no_chain", detail, fields={"step": "is of no chain"})
    for step in coming:
        if step.number == asked.get("step"):
            return step
    left = " and ".join(str(step.number) for step in coming)
    detail = f"Of its chain {left} can be asked at once." if left else "Every step of its chain was due already."
    raise Refused("no_such_step", detail, fields={"step": "is none that is still to come"})


def _note(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    return "said"


def _entry(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    at, ends = asked.get("happened_at") or attempt.now, one.resolved_at or attempt.now
    first, last = min(one.opened_at, one.seen_at) - ENTRIES_BEFORE, min(attempt.now, ends + ENTRIES_AFTER)
    if not first <= at <= last:
        span = f"from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
        detail = f"Its timeline goes {span}: what was then is a part of it."
        raise Refused("out_of_bounds", detail, status=INVALID, fields={"happened_at": f"is {span}"})
    return "said"


def _label(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    """Labels that are named come, those behind a minus go."""
    kept = labelled(one.label_names, asked.get("labels", ""))
    if len(kept) > LABELS_MOST:
        detail = f"It would have {len(kept)} labels; {LABELS_MOST} is the most."
        raise Refused("too_many", detail, status=INVALID, fields={"labels": f"leave more than {LABELS_MOST}"})
    if kept == one.label_names:
        return ""
    one.labels = kept_as(kept)
    return f"labelled it {', '.join(kept)}" if kept else "took its labels away"


def _merge(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    into = _open_one(attempt.environment, asked.get("into", 0), field="into")
    if into.pk == one.pk:
        raise Refused("invalid", "An escalation cannot be merged into itself.", fields={"into": "is another one"})
    if one.ticket:
        detail = "A run waits for the answer to this one; decide it, or merge the other into it."
        raise Refused("waited_for", detail, fields={"into": "would leave a run without an answer"})
    _close(one, attempt, Escalation.MERGED)
    one.merged_into = into
    merging.carry(one, into)
    EscalationNote.objects.create(
        escalation=into, at=attempt.now, by=attempt.by.name, verb="merge", text=f"{one} was merged into this."
    )
    return f"merged it into {into}"


def _resolve(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    if one.ticket:
        detail = "A run waits for an answer: approve or reject it."
        raise Refused("waited_for", detail, status=INVALID, fields={"number": "is waited for"})
    if attempt.now - one.seen_at < ACTIVE_FOR and not asked["reason"].strip():
        detail = f"It was asked again at {one.seen_at:%H:%M:%S} UTC: the cause is still there. Say why it is resolved."
        raise Refused("still_active", detail, fields={"reason": "has to say why, while the cause is active"})
    _close(one, attempt, Escalation.DONE)
    return "resolved it"


def _reopen(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    if one.resolution == Escalation.WITHDRAWN:
        raise Refused("called_off", "Its run was called off: it comes back when the run asks again.", status=STALE)
    if one.ticket:
        raise Refused("answered", "The run that waited has its answer; it cannot be taken back.", status=STALE)
    if Escalation.objects.filter(environment=one.environment, key=one.key, resolved_at=None).exists():
        raise Refused("asked_again", "The same question is open already under another number.", status=STALE)
    for into in merging.give_back(one):
        text = f"{one} was opened again, apart from this."
        EscalationNote.objects.create(escalation=into, at=attempt.now, by=attempt.by.name, verb="parted", text=text)
    one.resolved_at, one.resolved_by, one.resolution, one.merged_into, one.answer = None, "", "", None, ""
    one.acknowledged_at, one.acknowledged_by, one.default_done_at, one.snoozed_until = None, "", None, None
    one.acknowledge_by, one.resolve_by = attempt.now + one.acknowledge_in, attempt.now + one.resolve_in
    return "opened it again"


def _approve(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    said = asked.get("text", "").strip()
    is_as_proposed = said.split() == one.proposal.split()  # browsers end lines their own way
    one.answer = "" if is_as_proposed else said
    _close(one, attempt, Escalation.EDITED if one.answer else Escalation.APPROVED)
    return "approved it with changes" if one.answer else "approved it"


def _reject(one: Escalation, attempt: Attempt, asked: Responding) -> str:
    one.answer = asked.get("text", "").strip()
    _close(one, attempt, Escalation.REJECTED)
    return "rejected it"


RESPONSES: dict[str, Response] = {
    "acknowledge": Response(past="took", apply=_acknowledge, reason="Taken from the queue."),
    "assign": Response(past="assigned", apply=_assign, reason="Assigned from the queue."),
    "snooze": Response(past="snoozed", apply=_snooze, reason="Snoozed from the queue."),
    "escalate": Response(past="escalated", apply=_escalate),
    GOES_ON: Response(past="asked a step of the chain about", apply=_ask_step, reason="Asked from the queue."),
    "note": Response(past="commented on", apply=_note),
    "entry": Response(past="entered", apply=_entry),
    "label": Response(past="labelled", apply=_label, reason="Labelled in the queue."),
    "merge": Response(past="merged", apply=_merge, reason="Merged from the queue."),
    "resolve": Response(past="resolved", apply=_resolve, reason="Resolved in the queue."),
    "reopen": Response(past="reopened", apply=_reopen, is_for_open=False),
    "approve": Response(past="approved", apply=_approve, permission="decide", is_decision=True),
    "reject": Response(
        past="rejected", apply=_reject, permission="decide", is_decision=True, reason="Rejected in the queue."
    ),
}
"""Every act on an escalation, by its verb."""


def respond(verb: str, **asked: Unpack[Responding]) -> Done[Escalation]:
    """Do one act on one escalation. What is so already is left as it is.

    Raises Refused: 403, 404, 400 by field, 409 when somebody else acted since `version` or it is closed.
    """
    kind = RESPONSES[verb]
    one = _find(asked["environment"], asked["number"])
    said = asked["reason"].strip() or kind.reason
    is_for_agents = kind.is_decision and bool(one.ticket)
    attempt = Attempt.of(
        f"escalation.{verb}",
        kind.permission,
        Scope(operation=one.operation or "*"),
        _asked(asked, said),
        faults_of(verb, asked),
        about=str(one),
        is_for_agents=is_for_agents,
    )

    def write(revision: int) -> Step[Escalation]:
        held = Escalation.objects.get(pk=one.pk)
        _check(held, kind, asked, attempt)
        before = _told(held)
        chain_s = _step_of(held, attempt, asked).after_s if verb == GOES_ON else None
        done = kind.apply(held, attempt, asked)
        if not done:
            return Step(object=held, revision=revision, was_already=True)
        if is_for_agents:
            held.revision = revision
        held.version += 1
        held.save()
        EscalationNote.objects.create(
            escalation=held,
            at=attempt.now,
            by=attempt.by.name,
            verb=verb,
            text=asked["reason"].strip()[:500] or f"{attempt.by.name} {done}.",
            happened_at=asked.get("happened_at") if verb == "entry" else None,
            chain_s=chain_s,
        )
        return Step(object=held, revision=revision, before=before, after=_told(held))

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: Escalation.objects.get(pk=entry.after["id"]))


def faults_of(verb: str, asked: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the words of an act whatever it is done to, by field; empty texts are none."""
    to, text = str(asked.get("to", "")).strip(), str(asked.get("text", "")).strip()
    reason, standing = checks.said(str(asked.get("reason", ""))), RESPONSES[verb].reason
    faults = {"reason": checks.fault_of_reason(reason or standing)}
    if verb == "assign" and (not to or not to.isprintable()):
        faults["to"] = "is nobody's name"
    if verb == "escalate" and (not to or len(to) > QUEUE_CHARS or not to.isprintable()):
        faults["to"] = f"is a queue's name of at most {QUEUE_CHARS} characters"
    if verb == "snooze" and not 60 <= asked.get("for_s", 0.0) <= LONGEST_SNOOZE_S:
        faults["for_s"] = f"is from 60 to {LONGEST_SNOOZE_S:.0f} s (7 days)"
    if verb == "label":
        faults["labels"] = fault_of_labels(str(asked.get("labels", "")))
    if len(text) > ANSWER_CHARS:
        faults["text"] = f"has at most {ANSWER_CHARS} characters"
    elif not all(one.isprintable() or one in "\n\r\t" for one in text):
        faults["text"] = "has characters that cannot be shown"
    return faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one row of many."""

    number: int
    is_done: bool
    text: str
    code: str = ""
    """Why it was refused, as a code."""

    @property
    def is_stale(self) -> bool:
        """Whether it was refused only because somebody else acted since the asker looked."""
        return self.code == "stale"


def respond_to_each(verb: str, numbers: Iterable[int], *, by: Actor, environment: str, **asked: Any) -> list[Result]:
    """Do one act on many, each by itself: one that is refused holds no other back."""
    results: list[Result] = []
    for number in dict.fromkeys(numbers):
        try:
            done = respond(verb, number=number, by=by, environment=environment, **asked)
            text = "it was so already" if done.was_already else RESPONSES[verb].past
            results.append(Result(number=number, is_done=True, text=text))
        except Refused as refusal:
            results.append(Result(number=number, is_done=False, text=refusal.detail, code=refusal.code))
    return results


def _check(held: Escalation, kind: Response, asked: Responding, attempt: Attempt) -> None:
    version = asked.get("version")
    if version is not None and version != held.version:
        last = held.notes.order_by("-at", "-pk").first()
        what = f"{last.by}, {last.at:%H:%M:%S} UTC: {last.text}" if last else "It was changed meanwhile."
        raise Refused("stale", f"{what} Look again, then decide.", status=STALE)
    if kind.is_for_open and not held.is_open and not _is_note(kind):
        who, when = held.resolved_by, held.resolved_at
        detail = f"{held} was {held.resolution} by {who} at {when:%H:%M:%S} UTC." if when else f"{held} is closed."
        raise Refused("closed", detail, status=STALE)
    if not kind.is_for_open and held.is_open:
        raise Refused("open", f"{held} is open.", status=STALE)


def _asked(asked: Responding, reason: str) -> Asked:
    """What every action is given, with the reason that is kept."""
    return Asked(
        by=asked["by"],
        environment=asked["environment"],
        reason=reason,
        seen=None,  # an escalation has a version of its own
        key=asked.get("key"),
        dry_run=asked.get("dry_run", False),
        now=asked.get("now"),
    )


def _is_note(kind: Response) -> bool:
    """Whether it decides nothing, and so may be done to a closed one, too."""
    return kind.apply in (_note, _label, _entry)


def _close(one: Escalation, attempt: Attempt, resolution: str) -> None:
    one.resolved_at, one.resolved_by, one.resolution = attempt.now, attempt.by.name, resolution
    one.first_acknowledged_at = one.first_acknowledged_at or attempt.now
    one.snoozed_until = None


def _find(environment: str, number: int, *, field: str = "number") -> Escalation:
    one = Escalation.objects.filter(environment=environment, pk=number).first()
    if one is None:
        detail = f"There is no escalation ESC-{number} in {environment}."
        raise Refused("unknown_escalation", detail, status=UNKNOWN, fields={field: "is not known"})
    return one


def _open_one(environment: str, number: int, *, field: str) -> Escalation:
    one = _find(environment, number, field=field)
    if not one.is_open:
        raise Refused("closed", f"{one} is closed.", status=STALE, fields={field: "is closed"})
    return one


def _told(one: Escalation) -> Mapping[str, Any]:
    """What the audit log keeps of it."""
    return {
        "id": one.pk,
        "queue": one.queue,
        "acknowledged_by": one.acknowledged_by,
        "assigned_to": one.assigned_to,
        "snoozed_until": _iso(one.snoozed_until),
        "labels": one.label_names,
        "resolution": one.resolution,
        "answer": one.answer,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
