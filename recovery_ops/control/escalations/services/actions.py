"""What people do about escalations: take, hand on, put off, ask elsewhere, decide, close, open again, and say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from recovery_ops.control.access.account_names import find_account
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.core import checks
from recovery_ops.control.core.actions import ACTIONS
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.labels import LABELS_MOST, apply_label_edit, format_labels, labels_error
from recovery_ops.control.core.rejections import CONFLICT, INVALID, NOT_FOUND, CommandRejected
from recovery_ops.control.escalations.models import ANSWER_CHARS, Escalation, EscalationNote
from recovery_ops.control.escalations.services import merging
from recovery_ops.control.escalations.terms import ACTIVE_FOR
from recovery_ops.control.notifications.escalation_policies import Coming, coming_of
from recovery_ops.rules.notifications.escalation_levels import GOES_ON
from recovery_ops.rules.policy.scope import Scope

QUEUE_CHARS = 64
ENTRIES_BEFORE, ENTRIES_AFTER = timedelta(days=7), timedelta(days=30)
"""How long before a question, and after it was answered, what was belongs to its timeline."""
LONGEST_SNOOZE_S = 7 * 24 * 3600.0


class Responding(CommandContext):
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
    apply: Callable[[Escalation, Command, Responding], str]
    permission: str = "respond"
    is_decision: bool = False
    is_for_open: bool = True


def _acknowledge(one: Escalation, command: Command, asked: Responding) -> str:
    if one.acknowledged_at is not None and one.acknowledged_by == command.by.name:
        return ""
    one.acknowledged_at, one.acknowledged_by = command.now, command.by.name
    one.first_acknowledged_at = one.first_acknowledged_at or command.now
    one.snoozed_until = None
    if not one.assigned_to:
        one.assignee_id, one.assigned_to = command.by.user_id, command.by.name
    return "acknowledged it"


def _assign(one: Escalation, command: Command, asked: Responding) -> str:
    name = asked.get("to", "").strip()
    person = find_account(name)
    if person is None or not person.is_active:
        raise CommandRejected(
            "unknown_person",
            f"User {name!r} does not exist or is inactive.",
            fields={"to": "is not the name of a user"},
        )
    if not grants_of(person).may("respond", command.environment):
        detail = f"{name} lacks the permission to respond in {command.environment}; choose a responder."
        raise CommandRejected("may_not_respond", detail, fields={"to": "is a user without the permission to respond"})
    if one.assignee_id == person.pk:
        return ""
    one.assignee_id, one.assigned_to = person.pk, person.get_username()
    return f"assigned it to {one.assigned_to}"


def _snooze(one: Escalation, command: Command, asked: Responding) -> str:
    until = command.now + timedelta(seconds=asked.get("for_s", 0.0))
    if one.ends_by_default and one.default_done_at is None and until >= one.resolve_by:
        who = "The run waits" if one.ticket else "The escalation is open"
        detail = f"{who} until {one.resolve_by:%H:%M:%S} UTC; use a shorter snooze."
        raise CommandRejected("too_late", detail, fields={"for_s": "ends after the resolve deadline"})
    one.snoozed_until = until
    return f"snoozed it until {until:%H:%M:%S} UTC"


def _escalate(one: Escalation, command: Command, asked: Responding) -> str:
    queue = asked.get("to", "").strip()
    if queue == one.queue:
        return ""
    before, one.queue = one.queue, queue
    one.acknowledged_at, one.acknowledged_by, one.assignee_id, one.assigned_to = None, "", None, ""
    one.acknowledge_by, one.snoozed_until = command.now + one.acknowledge_in, None
    return f"changed the queue from {before} to {queue}"


def _ask_step(one: Escalation, command: Command, asked: Responding) -> str:
    coming = _step_of(one, command, asked)
    one.acknowledged_at, one.acknowledged_by = None, ""
    one.acknowledge_by, one.snoozed_until = command.now + one.acknowledge_in, None
    return f"escalated it to level {coming.number}: {coming.who}"


def _step_of(one: Escalation, command: Command, asked: Responding) -> Coming:
    """The step to come that is meant. Raises CommandRejected where there is none."""
    coming = coming_of([one], command.now).get(one.pk)
    if coming is None:
        detail = f"{one.queue} has no enabled escalation policy; change the queue."
        raise CommandRejected("no_chain", detail, fields={"step": "needs an escalation policy"})
    for step in coming:
        if step.number == asked.get("step"):
            return step
    left = " and ".join(str(step.number) for step in coming)
    detail = f"Level {asked.get('step')} is not ahead; use {left}." if left else "No further escalation level."
    raise CommandRejected("no_such_step", detail, fields={"step": "is not a further level"})


def _note(one: Escalation, command: Command, asked: Responding) -> str:
    return "said"


def _entry(one: Escalation, command: Command, asked: Responding) -> str:
    at, ends = asked.get("happened_at") or command.now, one.resolved_at or command.now
    first, last = min(one.opened_at, one.seen_at) - ENTRIES_BEFORE, min(command.now, ends + ENTRIES_AFTER)
    if not first <= at <= last:
        span = f"from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
        detail = f"The time is outside the timeline; use a time {span}."
        raise CommandRejected("out_of_bounds", detail, status=INVALID, fields={"happened_at": f"is {span}"})
    return "said"


def _label(one: Escalation, command: Command, asked: Responding) -> str:
    """Labels that are named come, those behind a minus go."""
    kept = apply_label_edit(one.label_names, asked.get("labels", ""))
    if len(kept) > LABELS_MOST:
        detail = f"{len(kept)} labels exceed the limit of {LABELS_MOST}."
        raise CommandRejected(
            "too_many", detail, status=INVALID, fields={"labels": f"exceed the limit of {LABELS_MOST}"}
        )
    if kept == one.label_names:
        return ""
    one.labels = format_labels(kept)
    return f"labelled it {', '.join(kept)}" if kept else "removed its labels"


def _merge(one: Escalation, command: Command, asked: Responding) -> str:
    into = _open_one(command.environment, asked.get("into", 0), field="into")
    if into.pk == one.pk:
        raise CommandRejected(
            "invalid", "An escalation cannot be merged into itself.", fields={"into": "is the escalation itself"}
        )
    if one.ticket:
        detail = "A run waits for this escalation; decide it, or merge the other one into it."
        raise CommandRejected("waited_for", detail, fields={"into": "leaves a waiting run without an answer"})
    _close(one, command, Escalation.MERGED)
    one.merged_into = into
    merging.carry(one, into)
    EscalationNote.objects.create(
        escalation=into, at=command.now, by=command.by.name, verb="merge", text=f"{one} was merged into this."
    )
    return f"merged it into {into}"


def _resolve(one: Escalation, command: Command, asked: Responding) -> str:
    if one.ticket:
        detail = "A run waits for an answer: approve or reject it."
        raise CommandRejected("waited_for", detail, status=INVALID, fields={"number": "is waited for"})
    if command.now - one.seen_at < ACTIVE_FOR and not asked["reason"].strip():
        detail = f"The problem is still active, last event {one.seen_at:%H:%M:%S} UTC; a reason is required."
        raise CommandRejected("still_active", detail, fields={"reason": "is required while the problem is active"})
    _close(one, command, Escalation.DONE)
    return "resolved it"


def _reopen(one: Escalation, command: Command, asked: Responding) -> str:
    if one.resolution == Escalation.WITHDRAWN:
        raise CommandRejected(
            "called_off", "The run was aborted; a new event of the run reopens the escalation.", status=CONFLICT
        )
    if one.ticket:
        raise CommandRejected(
            "answered", "The run has received its answer; the escalation cannot be reopened.", status=CONFLICT
        )
    if Escalation.objects.filter(environment=one.environment, key=one.key, resolved_at=None).exists():
        raise CommandRejected("asked_again", "The same escalation is open under another number.", status=CONFLICT)
    for into in merging.give_back(one):
        text = f"{one} was unmerged and reopened."
        EscalationNote.objects.create(escalation=into, at=command.now, by=command.by.name, verb="parted", text=text)
    one.resolved_at, one.resolved_by, one.resolution, one.merged_into, one.answer = None, "", "", None, ""
    one.acknowledged_at, one.acknowledged_by, one.default_done_at, one.snoozed_until = None, "", None, None
    one.acknowledge_by, one.resolve_by = command.now + one.acknowledge_in, command.now + one.resolve_in
    return "reopened it"


def _approve(one: Escalation, command: Command, asked: Responding) -> str:
    said = asked.get("text", "").strip()
    is_as_proposed = said.split() == one.proposal.split()  # browsers end lines their own way
    one.answer = "" if is_as_proposed else said
    _close(one, command, Escalation.EDITED if one.answer else Escalation.APPROVED)
    return "approved it with changes" if one.answer else "approved it"


def _reject(one: Escalation, command: Command, asked: Responding) -> str:
    one.answer = asked.get("text", "").strip()
    _close(one, command, Escalation.REJECTED)
    return "rejected it"


RESPONSES: dict[str, Response] = {
    "acknowledge": Response(past="acknowledged", apply=_acknowledge),
    "assign": Response(past="assigned", apply=_assign),
    "snooze": Response(past="snoozed", apply=_snooze),
    "escalate": Response(past="escalated", apply=_escalate),
    GOES_ON: Response(past="escalated to a later level", apply=_ask_step),
    "note": Response(past="commented", apply=_note),
    "entry": Response(past="entry added", apply=_entry),
    "label": Response(past="labelled", apply=_label),
    "merge": Response(past="merged", apply=_merge),
    "resolve": Response(past="resolved", apply=_resolve),
    "reopen": Response(past="reopened", apply=_reopen, is_for_open=False),
    "approve": Response(past="approved", apply=_approve, permission="decide", is_decision=True),
    "reject": Response(past="rejected", apply=_reject, permission="decide", is_decision=True),
}
"""Every act on an escalation, by its verb."""


def respond(verb: str, **asked: Unpack[Responding]) -> CommandResult[Escalation]:
    """Do one act on one escalation. What is so already is left as it is.

    Raises CommandRejected: 403, 404, 400 by field, 409 when somebody else acted since `version` or it is closed.
    """
    kind = RESPONSES[verb]
    one = _find(asked["environment"], asked["number"])
    is_for_agents = kind.is_decision and bool(one.ticket)
    command = Command.of(
        f"escalation.{verb}",
        Scope(operation=one.operation or "*"),
        _asked(asked),
        faults_of(verb, asked),
        about=str(one),
        is_for_agents=is_for_agents,
    )

    def write(revision: int) -> Change[Escalation]:
        held = Escalation.objects.get(pk=one.pk)
        _check(held, kind, asked, command)
        before = _told(held)
        chain_s = _step_of(held, command, asked).after_s if verb == GOES_ON else None
        done = kind.apply(held, command, asked)
        if not done:
            return Change(object=held, revision=revision, was_already=True)
        if is_for_agents:
            held.revision = revision
        held.version += 1
        held.save()
        EscalationNote.objects.create(
            escalation=held,
            at=command.now,
            by=command.by.name,
            verb=verb,
            text=asked["reason"].strip()[:500] or f"{command.by.name} {done}.",
            happened_at=asked.get("happened_at") if verb == "entry" else None,
            chain_s=chain_s,
        )
        return Change(object=held, revision=revision, before=before, after=_told(held))

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: Escalation.objects.get(pk=entry.after["id"]))


def faults_of(verb: str, asked: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the words of an act whatever it is done to, by field; empty texts are none."""
    to, text = str(asked.get("to", "")).strip(), str(asked.get("text", "")).strip()
    reason = checks.normalize_reason(str(asked.get("reason", "")))
    faults = {"reason": checks.reason_error(reason, is_needed=ACTIONS[f"escalation.{verb}"].needs_reason)}
    if verb == "assign" and (not to or not to.isprintable()):
        faults["to"] = "is not the name of a user"
    if verb == "escalate" and (not to or len(to) > QUEUE_CHARS or not to.isprintable()):
        faults["to"] = f"is a queue's name of at most {QUEUE_CHARS} characters"
    if verb == "snooze" and not 60 <= asked.get("for_s", 0.0) <= LONGEST_SNOOZE_S:
        faults["for_s"] = f"is from 60 to {LONGEST_SNOOZE_S:.0f} s (7 days)"
    if verb == "label":
        faults["labels"] = labels_error(str(asked.get("labels", "")))
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
            text = "no change" if done.was_already else RESPONSES[verb].past
            results.append(Result(number=number, is_done=True, text=text))
        except CommandRejected as rejection:
            results.append(Result(number=number, is_done=False, text=rejection.detail, code=rejection.code))
    return results


def _check(held: Escalation, kind: Response, asked: Responding, command: Command) -> None:
    version = asked.get("version")
    if version is not None and version != held.version:
        last = held.notes.order_by("-at", "-pk").first()
        what = f"{last.by}, {last.at:%H:%M:%S} UTC: {last.text}" if last else "Changed by another user."
        raise CommandRejected("stale", f"{what} Reload, then decide.", status=CONFLICT)
    if kind.is_for_open and not held.is_open and not _is_note(kind):
        who, when = held.resolved_by, held.resolved_at
        detail = f"{held} was {held.resolution} by {who} at {when:%H:%M:%S} UTC." if when else f"{held} is closed."
        raise CommandRejected("closed", detail, status=CONFLICT)
    if not kind.is_for_open and held.is_open:
        raise CommandRejected("open", f"{held} is open.", status=CONFLICT)


def _asked(asked: Responding) -> CommandContext:
    """What every action is given."""
    return CommandContext(
        by=asked["by"],
        environment=asked["environment"],
        reason=asked["reason"],
        seen=None,  # an escalation has a version of its own
        key=asked.get("key"),
        dry_run=asked.get("dry_run", False),
        now=asked.get("now"),
    )


def _is_note(kind: Response) -> bool:
    """Whether it decides nothing, and so may be done to a closed one, too."""
    return kind.apply in (_note, _label, _entry)


def _close(one: Escalation, command: Command, resolution: str) -> None:
    one.resolved_at, one.resolved_by, one.resolution = command.now, command.by.name, resolution
    one.first_acknowledged_at = one.first_acknowledged_at or command.now
    one.snoozed_until = None


def _find(environment: str, number: int, *, field: str = "number") -> Escalation:
    one = Escalation.objects.filter(environment=environment, pk=number).first()
    if one is None:
        detail = f"Escalation ESC-{number} does not exist in {environment}."
        raise CommandRejected("unknown_escalation", detail, status=NOT_FOUND, fields={field: "is unknown"})
    return one


def _open_one(environment: str, number: int, *, field: str) -> Escalation:
    one = _find(environment, number, field=field)
    if not one.is_open:
        raise CommandRejected("closed", f"{one} is closed.", status=CONFLICT, fields={field: "is closed"})
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
