"""Feedback: said of a failure that was handled badly, answered by a proposal, or laid aside."""

from __future__ import annotations

from typing import Any, NotRequired, Required, Unpack

from events.runs.asking import run_of
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, require
from recovery_ops.control.actions.checks import require_known_operation
from recovery_ops.control.actions.policies import knobs_of, with_rule
from recovery_ops.control.actions.proposals import propose
from recovery_ops.control.desired import live_policy
from recovery_ops.control.models import NAME_CHARS, TITLE_CHARS, AuditEntry, Feedback, PolicyProposal
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.feedback import WORDS, Want, suggested
from recovery_ops.rules.policy import parse_policy
from recovery_ops.rules.scope import ANY, Place, Scope


class Saying(Asked):
    """What `say` is given: an operation, what should have happened (a word of rules.feedback.Want), and where it was.

    `reason` says what was bad about it.
    """

    operation: Required[str]
    want: Required[str]
    service: NotRequired[str]
    run: NotRequired[str]
    fingerprint: NotRequired[str]


def say(**asked: Unpack[Saying]) -> Done[Feedback]:
    """Note that something was handled badly. Raises Refused: 403, 400, 404 for an operation that nobody reported."""
    environment, service = asked["environment"], asked.get("service", "") or ANY
    scope = Scope(operation=asked["operation"], service=service)
    faults = {
        name: "is a name"
        for name in ("run", "fingerprint")
        if len(str(asked.get(name, ""))) > NAME_CHARS or not str(asked.get(name, "")).isprintable()
    }
    if asked["want"] not in set(Want):
        faults["want"] = f"is one of {', '.join(Want)}"
    attempt = Attempt.of("feedback.say", "propose_policy", scope, asked, faults, is_for_agents=False)

    def write(revision: int) -> Step[Feedback]:
        newest = Feedback.objects.filter(environment=environment).order_by("-number").first()
        made = Feedback.objects.create(
            environment=environment,
            number=1 if newest is None else newest.number + 1,
            operation=scope.operation,
            service="" if service == ANY else service,
            run=asked.get("run", ""),
            fingerprint=asked.get("fingerprint", ""),
            want=asked["want"],
            reason=attempt.reason,
            by_user_id=attempt.by.user_id,
            by=attempt.by.name,
            at=attempt.now,
        )
        return Step(object=made, revision=revision, after={"number": made.number, "want": made.want})

    with attempt.noted():
        attempt.check()
        require_known_operation(environment, scope.operation, attempt.now)
        if asked.get("run") and run_of(environment, asked["run"]) is None:
            detail = f"No fact in {environment} carries the run {asked['run'][:80]}."
            raise Refused("unknown_run", detail, status=UNKNOWN, fields={"run": "is not known"})
        return carry_out(attempt, write, recall=_recalled)


class Answering(Asked):
    """What acts on feedback are given: its number."""

    number: Required[int]


def propose_from(**asked: Unpack[Answering]) -> Done[PolicyProposal]:
    """Draft a proposal that goes one step the way the feedback asks, for its operation.

    Raises Refused: 403, 404, 409.
    """
    environment = asked["environment"]
    held = _found(asked)
    if held.state != Feedback.OPEN:
        detail = f"Feedback {held.number} is {held.state} already, by {held.ended_by}."
        raise Refused("wrong_state", detail, status=STALE)
    live = live_policy(environment)
    scope = Scope(operation=held.operation, service=held.service or ANY)
    place = Place(service=held.service, instance="", operation=held.operation, breaker=held.operation)
    in_force = parse_policy(live.document, version=live.version).for_operation(place).knobs
    knobs = knobs_of(live.document, scope) | suggested(Want(held.want), in_force)
    title = f"{held.operation}: {WORDS[Want(held.want)]} (feedback {held.number})"
    rest: Any = {name: value for name, value in asked.items() if name != "number"}
    rest["reason"] = f"Feedback {held.number} by {held.by}: {held.reason}"[:500]
    document = with_rule(live.document, scope, knobs) if knobs else dict(live.document)
    done = propose(**rest, document=document, title=title[:TITLE_CHARS])
    if not done.is_dry_run:
        waiting = Feedback.objects.filter(pk=held.pk, state=Feedback.OPEN)
        waiting.update(state=Feedback.PROPOSED, proposal=done.object, ended_by=asked["by"].name)
    return done


def lay_aside(**asked: Unpack[Answering]) -> Done[Feedback]:
    """Close an entry without a proposal, and say why. Raises Refused: 403, 404, 400."""
    held = _found(asked)
    attempt = Attempt.of("feedback.close", "propose_policy", Scope(), asked, about=held.about, is_for_agents=False)

    def write(revision: int) -> Step[Feedback]:
        found = Feedback.objects.get(pk=held.pk)
        if found.state != Feedback.OPEN:
            return Step(object=found, revision=revision, was_already=True)
        found.state, found.ended_by = Feedback.CLOSED, attempt.by.name
        found.save(update_fields=["state", "ended_by"])
        return Step(object=found, revision=revision, after={"number": found.number, "state": found.state})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _found(asked: Any) -> Feedback:
    environment, number = asked["environment"], asked["number"]
    held = Feedback.objects.filter(environment=environment, number=number).first()
    if held is not None:
        return held
    require(asked["by"], "propose_policy", environment)
    detail = f"There is no feedback {number} in {environment}."
    raise Refused("unknown_feedback", detail, status=UNKNOWN, fields={"number": "is not known"})


def _recalled(entry: AuditEntry) -> Feedback:
    return Feedback.objects.get(environment=entry.environment, number=entry.after["number"])
