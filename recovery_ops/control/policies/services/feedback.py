"""Feedback: said of a failure that was handled badly, answered by a proposal, or laid aside."""

from __future__ import annotations

from typing import Any, NotRequired, Required, Unpack

from events.runs.selectors import run_of
from recovery_ops.control.core.checks import require_known_operation
from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    is_repeated,
    require_permission,
)
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.policies.models.policies import TITLE_CHARS, PolicyProposal
from recovery_ops.control.policies.services.policies import settings_of, with_rule
from recovery_ops.control.policies.services.proposals import propose
from recovery_ops.rules.policy.feedback import WORDS, Want, suggested
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import ANY, Place, Scope


class Saying(CommandContext):
    """What `say` is given: an operation, what should have happened (a word of rules.feedback.Want), and where it was.

    `reason` says what was bad about it.
    """

    operation: Required[str]
    want: Required[str]
    service: NotRequired[str]
    run: NotRequired[str]
    fingerprint: NotRequired[str]


def say(**asked: Unpack[Saying]) -> CommandResult[Feedback]:
    """Note that something was handled badly.

    Raises CommandRejected: 403, 400, 404 for an operation that nobody reported.
    """
    environment, service = asked["environment"], asked.get("service", "") or ANY
    scope = Scope(operation=asked["operation"], service=service)
    faults = {
        name: f"must have at most {NAME_CHARS} printable characters"
        for name in ("run", "fingerprint")
        if len(str(asked.get(name, ""))) > NAME_CHARS or not str(asked.get(name, "")).isprintable()
    }
    if asked["want"] not in set(Want):
        faults["want"] = f"must be one of {', '.join(Want)}"
    command = Command.of("feedback.say", scope, asked, faults)

    def write(revision: int) -> Change[Feedback]:
        newest = Feedback.objects.filter(environment=environment).order_by("-number").first()
        made = Feedback.objects.create(
            environment=environment,
            number=1 if newest is None else newest.number + 1,
            operation=scope.operation,
            service="" if service == ANY else service,
            run=asked.get("run", ""),
            fingerprint=asked.get("fingerprint", ""),
            want=asked["want"],
            reason=command.reason,
            by_user_id=command.by.user_id,
            by=command.by.name,
            at=command.now,
        )
        return Change(object=made, revision=revision, after={"number": made.number, "want": made.want})

    with command.noted():
        command.check()
        require_known_operation(environment, scope.operation, command.now)
        if asked.get("run") and run_of(environment, asked["run"]) is None:
            detail = f"{environment} has no run {asked['run'][:80]}."
            raise CommandRejected("unknown_run", detail, status=NOT_FOUND, fields={"run": "is unknown"})
        return execute(command, write, recall=_recalled)


class Answering(CommandContext):
    """What acts on feedback are given: its number."""

    number: Required[int]


def propose_from(**asked: Unpack[Answering]) -> CommandResult[PolicyProposal]:
    """Draft a proposal that goes one step the way the feedback asks, for its operation.

    Raises CommandRejected: 403, 404, 409.
    """
    environment = asked["environment"]
    held = _found(asked)
    if held.state != Feedback.OPEN and not is_repeated(asked, "proposal.draft"):
        detail = f"Feedback {held.number} is already {held.state}, by {held.ended_by}."
        raise CommandRejected("wrong_state", detail, status=CONFLICT)
    live = live_policy(environment)
    scope = Scope(operation=held.operation, service=held.service or ANY)
    place = Place(service=held.service, instance="", operation=held.operation, breaker=held.operation)
    in_force = parse_policy(live.document, version=live.version).for_operation(place).settings
    settings = settings_of(live.document, scope) | suggested(Want(held.want), in_force)
    title = f"{held.operation}: {WORDS[Want(held.want)]} (feedback {held.number})"
    rest: Any = {name: value for name, value in asked.items() if name != "number"}
    rest["reason"] = f"Feedback {held.number} by {held.by}: {held.reason}"[:500]
    document = with_rule(live.document, scope, settings) if settings else dict(live.document)
    done = propose(**rest, document=document, title=title[:TITLE_CHARS])
    if held.state == Feedback.OPEN and not done.is_dry_run:
        waiting = Feedback.objects.filter(pk=held.pk, state=Feedback.OPEN)
        waiting.update(state=Feedback.PROPOSED, proposal=done.object, ended_by=asked["by"].name)
    return done


def lay_aside(**asked: Unpack[Answering]) -> CommandResult[Feedback]:
    """Close an entry without a proposal, and say why. Raises CommandRejected: 403, 404, 400."""
    held = _found(asked)
    command = Command.of("feedback.close", Scope(), asked, about=held.about)

    def write(revision: int) -> Change[Feedback]:
        found = Feedback.objects.get(pk=held.pk)
        if found.state != Feedback.OPEN:
            return Change(object=found, revision=revision, was_already=True)
        found.state, found.ended_by = Feedback.CLOSED, command.by.name
        found.save(update_fields=["state", "ended_by"])
        return Change(object=found, revision=revision, after={"number": found.number, "state": found.state})

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _found(asked: Any) -> Feedback:
    environment, number = asked["environment"], asked["number"]
    held = Feedback.objects.filter(environment=environment, number=number).first()
    if held is not None:
        return held
    require_permission(asked["by"], "propose_policy", environment)
    detail = f"{environment} has no feedback {number}."
    raise CommandRejected("unknown_feedback", detail, status=NOT_FOUND, fields={"number": "is unknown"})


def _recalled(entry: AuditEntry) -> Feedback:
    return Feedback.objects.get(environment=entry.environment, number=entry.after["number"])
