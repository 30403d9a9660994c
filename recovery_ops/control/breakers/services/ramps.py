"""A reset of many in steps: begun by a reset, taken further by evidence or by a person, halted, cancelled, finished.

Every act names the `turn` that it looked at, in the transaction that holds the environment's audit chain: of two
schedulers, or of a scheduler and a person, the second finds another turn and does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Required, Unpack

from events.rows import InstanceState
from recovery_ops import wire
from recovery_ops.control.breakers.impact import ramp_s
from recovery_ops.control.breakers.models.overrides import Override, Reset
from recovery_ops.control.breakers.models.ramps import SAID_CHARS, ResetRamp
from recovery_ops.control.breakers.ramp_progress import opinion_of, plan_of, seen_of, targets_of
from recovery_ops.control.breakers.services.overrides import end_in_scope, end_override
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    require_permission,
    scope_words,
)
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.core.wording import with_reason
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.rules.fleet.canary_cohort import WHOLE, Cohort, Spared, place_of
from recovery_ops.rules.fleet.reset_ramp import Go, Opinion
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import ANY, Scope

_REASON_CHARS = 450
STEP, HALT, FINISH, CANCEL, CONTINUE = "ramp.step", "ramp.halt", "ramp.finish", "ramp.cancel", "ramp.continue"


class Deciding(CommandContext):
    """What acts on a ramp are given: its number. `seen` is its turn."""

    number: Required[int]


def begun(command: Command, scopes: Sequence[Scope], targets: Sequence[InstanceState], revision: int) -> Change[Any]:
    """Begin a ramp over these breakers and take its first step, in the transaction of the reset that was asked for.

    The scopes are alike but for their operations. Raises CommandRejected (409) while another ramp resets one of them.
    """
    names = sorted({one.breaker for one in targets})
    _refuse_another(command.environment, names)
    where = scopes[0]
    ramp = ResetRamp(
        environment=command.environment,
        number=_next_number(command.environment),
        breakers=names,
        service=where.service,
        instance=where.instance,
        group=where.group,
        total=len(targets),
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        started_at=command.now,
        step_at=command.now,
    )
    bounds = parse_policy(live_policy(command.environment).document).reset_ramp
    ramp.salt = f"{ramp.environment}/{ramp.number}"
    ramp.bounds = asdict(bounds)
    ramp.plan = plan_of(ramp.salt, targets, bounds)
    in_force = Override.objects.live(command.environment).filter(starts_at__lte=command.now)
    held = [one for scope in scopes for one in in_force.in_scope(scope)]
    ramp.overrides = [one.pk for one in held if one.operation in names]
    for scope in scopes:
        if scope.operation not in names:  # a pattern, or what was closed anyway: it cannot end for one after the other
            end_in_scope(scope, command, revision)
    ramp.save(force_insert=True)
    _take_step(ramp, command, revision, is_noted=len(names) > 1 or command.scope.operation not in names)
    return Change(
        object=ramp, revision=revision, before={"overrides": [one.pk for one in held]}, after=_told(ramp, revision)
    )


def go_on(**asked: Unpack[Deciding]) -> CommandResult[ResetRamp]:
    """Take the next step without waiting for more evidence; one that was halted goes on. What has opened stays so.

    Raises CommandRejected: 403, 404, 409 when it is over, or was at another turn.
    """
    return _acted(_found(asked), CONTINUE, asked, _continue)


def cancel(**asked: Unpack[Deciding]) -> CommandResult[ResetRamp]:
    """Take no further step: what was reset stays so, the rest stays as it is. Raises CommandRejected as `go_on`."""
    return _acted(_found(asked), CANCEL, asked, _end_as(ResetRamp.CANCELLED), is_for_agents=False)


def keep_ramps(*, now: datetime) -> list[ResetRamp]:
    """Note what the rule says of every ramp that goes on, and do it; return those to which something was done.

    Asked twice, or by two at once, the second finds nothing left to do.
    """
    acted = []
    for ramp in ResetRamp.objects.running().order_by("pk"):
        opinion = opinion_of(ramp, seen_of(ramp, now=now), now=now)
        ResetRamp.objects.running().filter(pk=ramp.pk, turn=ramp.turn).update(
            health=opinion.go.value, said=opinion.sentence[:SAID_CHARS], judged_at=now
        )
        if opinion.go is not Go.WAIT and _done_by_rule(ramp, opinion, now):
            acted.append(ramp)
    return acted


def _done_by_rule(ramp: ResetRamp, opinion: Opinion, now: datetime) -> bool:
    asked = Deciding(
        by=system_actor("reset ramp"),
        environment=ramp.environment,
        number=ramp.number,
        reason=_printable(opinion.sentence),
        seen=ramp.turn,
        now=now,
    )
    try:
        if opinion.go is Go.STEP:
            _acted(ramp, STEP, asked, _step)
        elif opinion.go is Go.HALT:
            _acted(ramp, HALT, asked, _end_as(ResetRamp.HALTED, opinion.culprits), is_for_agents=False)
        else:
            _acted(ramp, FINISH, asked, _end_as(ResetRamp.DONE), is_for_agents=False)
    except CommandRejected:
        return False  # somebody was quicker: the next look sees what is so then
    return True


def _acted(
    ramp: ResetRamp, verb: str, asked: Deciding, act: Any, *, is_for_agents: bool = True
) -> CommandResult[ResetRamp]:
    command = Command.of(verb, Scope(group=ramp.group), asked, about=ramp.title, is_for_agents=is_for_agents)

    def write(revision: int) -> Change[ResetRamp]:
        held = _held(ramp, command)
        before = _told(held, revision)
        act(held, command, revision)
        held.turn += 1
        held.save()
        return Change(object=held, revision=revision, before=before, after=_told(held, revision))

    with command.noted():
        command.check()
        return execute(command, write, recall=recalled)


def _step(ramp: ResetRamp, command: Command, revision: int) -> None:
    if not ramp.is_running:
        raise CommandRejected("wait", f"{ramp.title.capitalize()} waits for a manual decision.", status=CONFLICT)
    _take_step(ramp, command, revision, is_noted=True)


def _continue(ramp: ResetRamp, command: Command, revision: int) -> None:
    if not ramp.is_running:
        _refuse_another(command.environment, ramp.breakers)
    ramp.state, ramp.ended_at, ramp.ended_by, ramp.end_reason, ramp.culprits = ResetRamp.RUNNING, None, "", "", []
    ramp.forgiven_at = command.now
    # Whoever set an override meanwhile was heard, and goes first where it holds; they went on all the same.
    held = Override.objects.in_force(command.environment, command.now).filter(operation__in=ramp.breakers)
    ramp.overrides = [*ramp.overrides, *(one.pk for one in held if _is_mine(one, ramp))]
    if ramp.has_more:
        _take_step(ramp, command, revision, is_noted=True)
    else:
        ramp.step_at = command.now


def _is_mine(override: Override, ramp: ResetRamp) -> bool:
    return override.scope == ramp.scope_of(override.operation) and override.pk not in ramp.overrides


def _end_as(state: str, culprits: Sequence[str] = ()) -> Any:
    def act(ramp: ResetRamp, command: Command, revision: int) -> None:
        if state != ResetRamp.CANCELLED and not ramp.is_running:
            raise CommandRejected("wait", f"{ramp.title.capitalize()} waits for a manual decision.", status=CONFLICT)
        ramp.state, ramp.culprits = state, [*culprits]
        ramp.ended_at, ramp.ended_by, ramp.end_reason = command.now, command.by.name, command.reason

    return act


def _take_step(ramp: ResetRamp, command: Command, revision: int, *, is_noted: bool) -> None:
    """Reset the breakers of the next step, and let their instances out of the overrides that end with the ramp."""
    number = len(ramp.steps)
    count, limit = ramp.plan[number]
    is_last = limit == WHOLE
    names = ramp.breakers if is_last else _names_below(ramp, limit, command.now)
    spread_s = ramp_s(count - (ramp.plan[number - 1][0] if number else 0))
    for name in names:
        _reset(ramp, name, limit, command, revision, spread_s)
        if is_noted:
            _note(ramp, name, command, revision)
    for override in Override.objects.live(ramp.environment).filter(pk__in=ramp.overrides, operation__in=names):
        if is_last:
            end_override(override, command, revision, ramp.reason)
        else:
            cohort = Cohort(salt=ramp.salt_of(override.operation), limit=limit)
            kept = [one for one in override.spared.cohorts if one.salt != cohort.salt]
            override.spares = Spared(instances=override.spared.instances, cohorts=(*kept, cohort)).document
            override.save(update_fields=["spares"])
    at = command.now.isoformat()
    by = command.by.name
    ramp.steps = [*ramp.steps, {"at": at, "revision": revision, "by": by, "breakers": names, "ramp_s": spread_s}]
    ramp.step_at, ramp.health, ramp.said = command.now, "", ""
    ramp.save(update_fields=["steps", "step_at", "health", "said"])


def _names_below(ramp: ResetRamp, limit: int, now: datetime) -> list[str]:
    """The breakers with something to close below this limit; of others the next step takes more at once."""
    targets = targets_of(ramp.environment, [ramp.scope_of(name) for name in ramp.breakers], now=now)
    return sorted(
        {
            one.breaker
            for one in targets
            if place_of(ramp.salt_of(one.breaker), one.agent.service, one.agent.instance) < limit
        }
    )


def _reset(ramp: ResetRamp, name: str, limit: int, command: Command, revision: int, spread_s: float) -> None:
    salt, scope = ramp.salt_of(name), ramp.scope_of(name)
    before = Reset.objects.filter(environment=ramp.environment, operation=name, salt=salt).order_by("-limit").first()
    Reset.objects.create(
        environment=ramp.environment,
        service=scope.service,
        operation=scope.operation,
        instance=scope.instance,
        group=scope.group,
        reason=ramp.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        at=command.now,
        revision=revision,
        ramp_s=spread_s,
        salt=salt,
        floor=0 if before is None else before.limit,
        limit=limit,
    )


def _note(ramp: ResetRamp, name: str, command: Command, revision: int) -> None:
    """A row in the story of each breaker, beside the one of the ramp."""
    scope = ramp.scope_of(name)
    deed = audit.AuditRecord(
        verb="breaker.reset",
        object=scope_words(scope),
        operation=name,
        reason=command.reason,
        after={"ramp": ramp.number, "scope": wire.scope_document(scope), "reset_at": revision},
        revision=revision,
    )
    audit.append(ramp.environment, deed, by=command.by, at=command.now)


def recalled(entry: AuditEntry) -> ResetRamp:
    """The ramp that an audit entry tells of."""
    return ResetRamp.objects.get(environment=entry.environment, number=entry.after["ramp"])


def _refuse_another(environment: str, names: Iterable[str]) -> None:
    wanted = set(names)
    for one in ResetRamp.objects.running(environment):
        common = sorted(wanted.intersection(one.breakers))
        if common:
            detail = (
                f"{one.title.capitalize()} of {', '.join(common[:3])} is running, by "
                f"{with_reason(one.by, one.reason)}. "
                "Continue or cancel it first."
            )
            raise CommandRejected("ramp_goes_on", detail, status=CONFLICT)


def _next_number(environment: str) -> int:
    newest = ResetRamp.objects.filter(environment=environment).order_by("-number").first()
    return 1 if newest is None else newest.number + 1


def _found(asked: Any) -> ResetRamp:
    environment, number = asked["environment"], asked["number"]
    ramp = ResetRamp.objects.filter(environment=environment, number=number).first()
    if ramp is not None:
        return ramp
    require_permission(asked["by"], "reset", environment)
    detail = f"Reset {number} does not exist in {environment}."
    raise CommandRejected("unknown_reset", detail, status=NOT_FOUND, fields={"number": "does not exist"})


def _held(ramp: ResetRamp, command: Command) -> ResetRamp:
    """The ramp as it is now.

    Raises CommandRejected (409) when it is over, or somebody did something to it since `seen`.
    """
    held = ResetRamp.objects.get(pk=ramp.pk)
    if held.is_over:
        detail = f"{held.title.capitalize()} is {held.state}, by {with_reason(held.ended_by, held.end_reason)}."
        raise CommandRejected("wrong_state", detail, status=CONFLICT)
    if command.seen is not None and command.seen != held.turn:
        detail = (
            f"{held.title.capitalize()} changed: its turn is {held.turn}, not {command.seen}. Reload and try again."
        )
        raise CommandRejected("stale", detail, status=CONFLICT)
    return held


def _printable(sentence: str) -> str:
    """It names breakers and instances as agents do, and a reason is for people."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in sentence)[:_REASON_CHARS]


def _told(ramp: ResetRamp, revision: int) -> Mapping[str, Any]:
    """A ramp as the audit log keeps it."""
    return {
        "ramp": ramp.number,
        "state": ramp.state,
        "breakers": ramp.breakers,
        "scope": wire.scope_document(ramp.scope_of(ANY)),
        "step": len(ramp.steps),
        "steps": [count for count, _ in ramp.plan],
        "culprits": ramp.culprits,
        "reset_at": revision,
    }
