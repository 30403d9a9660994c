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
from recovery_ops.control import audit
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, require, words_of
from recovery_ops.control.actions.overrides import end_in_scope, end_override
from recovery_ops.control.actors import system
from recovery_ops.control.desired import live_policy
from recovery_ops.control.impact import ramp_s
from recovery_ops.control.models import AuditEntry, Override, Reset, ResetRamp
from recovery_ops.control.models.ramps import SAID_CHARS
from recovery_ops.control.ramping import opinion_of, plan_of, seen_of, targets_of
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.cohorts import WHOLE, Cohort, Spared, place_of
from recovery_ops.rules.policy import parse_policy
from recovery_ops.rules.ramps import Go, Opinion
from recovery_ops.rules.scope import ANY, Scope

_REASON_CHARS = 450
STEP, HALT, FINISH, CANCEL, CONTINUE = "ramp.step", "ramp.halt", "ramp.finish", "ramp.cancel", "ramp.continue"


class Deciding(Asked):
    """What acts on a ramp are given: its number. `seen` is its turn."""

    number: Required[int]


def begun(attempt: Attempt, scopes: Sequence[Scope], targets: Sequence[InstanceState], revision: int) -> Step[Any]:
    """Begin a ramp over these breakers and take its first step, in the transaction of the reset that was asked for.

    The scopes are alike but for their operations. Raises Refused (409) while another ramp resets one of them.
    """
    names = sorted({one.breaker for one in targets})
    _refuse_another(attempt.environment, names)
    where = scopes[0]
    ramp = ResetRamp(
        environment=attempt.environment,
        number=_next_number(attempt.environment),
        breakers=names,
        service=where.service,
        instance=where.instance,
        group=where.group,
        total=len(targets),
        reason=attempt.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        started_at=attempt.now,
        step_at=attempt.now,
    )
    bounds = parse_policy(live_policy(attempt.environment).document).reset_ramp
    ramp.salt = f"{ramp.environment}/{ramp.number}"
    ramp.bounds = asdict(bounds)
    ramp.plan = plan_of(ramp.salt, targets, bounds)
    in_force = Override.objects.live(attempt.environment).filter(starts_at__lte=attempt.now)
    held = [one for scope in scopes for one in in_force.in_scope(scope)]
    ramp.overrides = [one.pk for one in held if one.operation in names]
    for scope in scopes:
        if scope.operation not in names:  # a pattern, or what was closed anyway: it cannot end for one after the other
            end_in_scope(scope, attempt, revision)
    ramp.save(force_insert=True)
    _take_step(ramp, attempt, revision, is_noted=len(names) > 1 or attempt.scope.operation not in names)
    return Step(
        object=ramp, revision=revision, before={"overrides": [one.pk for one in held]}, after=_told(ramp, revision)
    )


def go_on(**asked: Unpack[Deciding]) -> Done[ResetRamp]:
    """Take the next step without waiting for more evidence; one that was halted goes on. What has opened stays so.

    Raises Refused: 403, 404, 409 when it is over, or was at another turn.
    """
    return _acted(_found(asked), CONTINUE, asked, _continue)


def cancel(**asked: Unpack[Deciding]) -> Done[ResetRamp]:
    """Take no further step: what was reset stays so, the rest stays as it is. Raises Refused as `go_on`."""
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
        by=system("reset ramp"),
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
    except Refused:
        return False  # somebody was quicker: the next look sees what is so then
    return True


def _acted(ramp: ResetRamp, verb: str, asked: Deciding, act: Any, *, is_for_agents: bool = True) -> Done[ResetRamp]:
    attempt = Attempt.of(verb, "reset", Scope(group=ramp.group), asked, about=ramp.title, is_for_agents=is_for_agents)

    def write(revision: int) -> Step[ResetRamp]:
        held = _held(ramp, attempt)
        before = _told(held, revision)
        act(held, attempt, revision)
        held.turn += 1
        held.save()
        return Step(object=held, revision=revision, before=before, after=_told(held, revision))

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=recalled)


def _step(ramp: ResetRamp, attempt: Attempt, revision: int) -> None:
    if not ramp.is_running:
        raise Refused("wait", f"{ramp.title.capitalize()} waits for a person.", status=STALE)
    _take_step(ramp, attempt, revision, is_noted=True)


def _continue(ramp: ResetRamp, attempt: Attempt, revision: int) -> None:
    if not ramp.is_running:
        _refuse_another(attempt.environment, ramp.breakers)
    ramp.state, ramp.ended_at, ramp.ended_by, ramp.end_reason, ramp.culprits = ResetRamp.RUNNING, None, "", "", []
    ramp.forgiven_at = attempt.now
    # Whoever set an override meanwhile was heard, and goes first where it holds; they went on all the same.
    held = Override.objects.in_force(attempt.environment, attempt.now).filter(operation__in=ramp.breakers)
    ramp.overrides = [*ramp.overrides, *(one.pk for one in held if _is_mine(one, ramp))]
    if ramp.has_more:
        _take_step(ramp, attempt, revision, is_noted=True)
    else:
        ramp.step_at = attempt.now


def _is_mine(override: Override, ramp: ResetRamp) -> bool:
    return override.scope == ramp.scope_of(override.operation) and override.pk not in ramp.overrides


def _end_as(state: str, culprits: Sequence[str] = ()) -> Any:
    def act(ramp: ResetRamp, attempt: Attempt, revision: int) -> None:
        if state != ResetRamp.CANCELLED and not ramp.is_running:
            raise Refused("wait", f"{ramp.title.capitalize()} waits for a person.", status=STALE)
        ramp.state, ramp.culprits = state, [*culprits]
        ramp.ended_at, ramp.ended_by, ramp.end_reason = attempt.now, attempt.by.name, attempt.reason

    return act


def _take_step(ramp: ResetRamp, attempt: Attempt, revision: int, *, is_noted: bool) -> None:
    """Reset the breakers of the next step, and let their instances out of the overrides that end with the ramp."""
    number = len(ramp.steps)
    count, limit = ramp.plan[number]
    is_last = limit == WHOLE
    names = ramp.breakers if is_last else _names_below(ramp, limit, attempt.now)
    spread_s = ramp_s(count - (ramp.plan[number - 1][0] if number else 0))
    for name in names:
        _reset(ramp, name, limit, attempt, revision, spread_s)
        if is_noted:
            _note(ramp, name, attempt, revision)
    for override in Override.objects.live(ramp.environment).filter(pk__in=ramp.overrides, operation__in=names):
        if is_last:
            end_override(override, attempt, revision, ramp.reason)
        else:
            cohort = Cohort(salt=ramp.salt_of(override.operation), limit=limit)
            kept = [one for one in override.spared.cohorts if one.salt != cohort.salt]
            override.spares = Spared(instances=override.spared.instances, cohorts=(*kept, cohort)).document
            override.save(update_fields=["spares"])
    at = attempt.now.isoformat()
    by = attempt.by.name
    ramp.steps = [*ramp.steps, {"at": at, "revision": revision, "by": by, "breakers": names, "ramp_s": spread_s}]
    ramp.step_at, ramp.health, ramp.said = attempt.now, "", ""
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


def _reset(ramp: ResetRamp, name: str, limit: int, attempt: Attempt, revision: int, spread_s: float) -> None:
    salt, scope = ramp.salt_of(name), ramp.scope_of(name)
    before = Reset.objects.filter(environment=ramp.environment, operation=name, salt=salt).order_by("-limit").first()
    Reset.objects.create(
        environment=ramp.environment,
        service=scope.service,
        operation=scope.operation,
        instance=scope.instance,
        group=scope.group,
        reason=ramp.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        at=attempt.now,
        revision=revision,
        ramp_s=spread_s,
        salt=salt,
        floor=0 if before is None else before.limit,
        limit=limit,
    )


def _note(ramp: ResetRamp, name: str, attempt: Attempt, revision: int) -> None:
    """A row in the story of each breaker, beside the one of the ramp."""
    scope = ramp.scope_of(name)
    deed = audit.Deed(
        verb="breaker.reset",
        object=words_of(scope),
        operation=name,
        reason=attempt.reason,
        after={"ramp": ramp.number, "scope": wire.scope_document(scope), "reset_at": revision},
        revision=revision,
    )
    audit.append(ramp.environment, deed, by=attempt.by, at=attempt.now)


def recalled(entry: AuditEntry) -> ResetRamp:
    """The ramp that an audit entry tells of."""
    return ResetRamp.objects.get(environment=entry.environment, number=entry.after["ramp"])


def _refuse_another(environment: str, names: Iterable[str]) -> None:
    wanted = set(names)
    for one in ResetRamp.objects.running(environment):
        common = sorted(wanted.intersection(one.breakers))
        if common:
            detail = (
                f"{one.by} is resetting {', '.join(common[:3])} in steps already ({one.title}): “{one.reason}”. Go on "
                "with that one, or cancel it first."
            )
            raise Refused("ramp_goes_on", detail, status=STALE)


def _next_number(environment: str) -> int:
    newest = ResetRamp.objects.filter(environment=environment).order_by("-number").first()
    return 1 if newest is None else newest.number + 1


def _found(asked: Any) -> ResetRamp:
    environment, number = asked["environment"], asked["number"]
    ramp = ResetRamp.objects.filter(environment=environment, number=number).first()
    if ramp is not None:
        return ramp
    require(asked["by"], "reset", environment)
    detail = f"There is no reset {number} in {environment}. The page of resets names those that there were."
    raise Refused("unknown_reset", detail, status=UNKNOWN, fields={"number": "is not known"})


def _held(ramp: ResetRamp, attempt: Attempt) -> ResetRamp:
    """The ramp as it is now. Raises Refused (409) when it is over, or somebody did something to it since `seen`."""
    held = ResetRamp.objects.get(pk=ramp.pk)
    if held.is_over:
        detail = f"{held.title.capitalize()} is {held.state}, by {held.ended_by}: “{held.end_reason}”."
        raise Refused("wrong_state", detail, status=STALE)
    if attempt.seen is not None and attempt.seen != held.turn:
        detail = f"{held.title.capitalize()} is at turn {held.turn}, not {attempt.seen}. Look again, then decide."
        raise Refused("stale", detail, status=STALE)
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
