"""What a reset of many is about, and what its steps came to: read from the states that instances last reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.queries.breakers import states_of
from events.queries.counted import calls_through
from events.rows import InstanceState
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.rules.enums import State, Trigger
from recovery_ops.rules.fleet.canary_cohort import WHOLE, place_of
from recovery_ops.rules.fleet.reset_ramp import Go, Member, Opinion, judge, steps_of
from recovery_ops.rules.policy.fleet_settings import RampBounds
from recovery_ops.rules.policy.scope import ANY, Place, Scope

NOT_CLOSED = (State.OPEN, State.HALF_OPEN, State.FORCED_OPEN)
_PROBED = (Trigger.PROBE_FAILED, Trigger.PROBE_ABANDONED)
_ON_ITS_WAY_S = 5.0
"""A probe from before may still fail while a reset is on its way: within this it is not a breaker that opened again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One breaker of one instance that a ramp has reset: what was reported, and what the rule is told of it."""

    one: InstanceState
    step: int
    member: Member


def targets_of(environment: str, scopes: Iterable[Scope], *, now: datetime) -> list[InstanceState]:
    """What is not closed in these scopes and would obey a reset. Two queries.

    What somebody holds open by another override stays so whatever is reset, and is not among them.
    """
    asked = list(scopes)
    found = states_of(environment, now=now, states=NOT_CLOSED)
    held = [one.scope for one in Override.objects.in_force(environment, now) if one.scope in asked]
    return [
        one
        for one in found
        if one.agent.is_follower
        and any(_is_in(scope, one) for scope in (held if one.reported_state is State.FORCED_OPEN else asked))
    ]


def plan_of(salt: str, targets: Sequence[InstanceState], bounds: RampBounds) -> list[list[int]]:
    """How many are reset after each step, and the limit below which their places lie; the last one is for everybody."""
    places = sorted(place_of(f"{salt}/{one.breaker}", one.agent.service, one.agent.instance) for one in targets)
    counts = steps_of(len(places), bounds)
    return [[count, WHOLE if count == len(places) else places[count - 1] + 1] for count in counts]


def seen_of(ramp: ResetRamp, *, now: datetime) -> list[Seen]:
    """Everything that it has reset so far, as it stands. Two queries."""
    found = []
    for one in states_of(ramp.environment, now=now, names=ramp.breakers):
        if not one.agent.is_follower or not _is_in(ramp.scope_of(one.breaker), one):
            continue
        place = place_of(ramp.salt_of(one.breaker), one.agent.service, one.agent.instance)
        number = ramp.step_of(one.breaker, place)
        if number is not None and not _is_set_aside(one, ramp, ramp.steps[number]):
            found.append((one, number))
    calls = _calls(ramp, [one for one, _ in found], now)
    return [
        Seen(one=one, step=number + 1, member=_member(one, ramp, ramp.steps[number], calls, now))
        for one, number in found
    ]


def opinion_of(ramp: ResetRamp, seen: Sequence[Seen], *, now: datetime) -> Opinion:
    """What it has to do now. One query."""
    held = _held_by_another(ramp, now)
    if held is not None:
        sentence = f"{held.by} set {held.mode} on {held.operation}: “{held.reason}”."
        return Opinion(go=Go.HALT, sentence=sentence, culprits=(held.pk,))
    return judge(
        [one.member for one in seen],
        step=len(ramp.steps),
        steps=len(ramp.plan),
        in_step_s=(now - ramp.step_at).total_seconds(),
        bounds=ramp.limits,
    )


def _is_in(scope: Scope, one: InstanceState) -> bool:
    agent = one.agent
    return scope.holds(
        Place(
            service=agent.service,
            instance=agent.instance,
            group=agent.group,
            operation=one.operation,
            breaker=one.breaker,
        )
    )


def _held_by_another(ramp: ResetRamp, now: datetime) -> Override | None:
    """An override that was set since and holds what is being reset."""
    for held in Override.objects.in_force(ramp.environment, now).filter(starts_at__gt=ramp.started_at):
        scope = held.scope
        parts = [(scope.service, ramp.service), (scope.instance, ramp.instance), (scope.group, ramp.group)]
        is_wide = all(mine in (ANY, theirs) for mine, theirs in parts)
        is_about = any(Scope(operation=scope.operation).holds(_place(name)) for name in ramp.breakers)
        if is_wide and is_about and held.pk not in ramp.overrides:
            return held
    return None


def _place(name: str) -> Place:
    return Place(service="", instance="", operation=name, breaker=name)


def _is_set_aside(one: InstanceState, ramp: ResetRamp, step: dict[str, Any]) -> bool:
    """Whether it says nothing: a narrower override rules it, or a person went on although it had opened."""
    if one.agent.revision >= step["revision"] and one.reported_state in (
        *(State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY),
    ):
        return True
    is_forgiven = ramp.forgiven_at is not None and one.since is not None and one.since <= ramp.forgiven_at
    return is_forgiven and one.reported_state in NOT_CLOSED and one.agent.revision >= step["revision"]


def _calls(ramp: ResetRamp, found: Sequence[InstanceState], now: datetime) -> dict[tuple[int, str], int]:
    """Calls since the newest step, where time alone has not shown yet that a breaker stays closed."""
    if (now - ramp.step_at).total_seconds() >= ramp.limits.least_time_s + ramp.steps[-1]["ramp_s"] + _ON_ITS_WAY_S:
        return {}
    ids = {one.agent.id for one in found if one.state is State.CLOSED}
    return dict(calls_through(ramp.environment, ids, start=ramp.step_at, end=now))


def _member(
    one: InstanceState, ramp: ResetRamp, step: dict[str, Any], calls: dict[tuple[int, str], int], now: datetime
) -> Member:
    agent, at = one.agent, datetime.fromisoformat(step["at"])
    has_applied = agent.revision >= step["revision"]
    if has_applied and agent.revision == step["revision"] and agent.applied_at is not None:
        at = max(at, agent.applied_at)
    is_closed = one.reported_state is State.CLOSED
    since = at if one.since is None else max(at, one.since)
    has_moved = one.since is not None and one.since > at
    opened_after_s = None
    if has_applied and not is_closed and has_moved and not _is_on_its_way(one, step, at):
        opened_after_s = (since - at).total_seconds()
    return Member(
        name=one.name,
        since_reset_s=(now - at).total_seconds(),
        is_reachable=agent.is_reachable,
        has_applied=has_applied,
        is_closed=is_closed,
        closed_for_s=(now - since).total_seconds() if is_closed and has_applied else 0.0,
        opened_after_s=opened_after_s,
        calls=calls.get((agent.id, one.breaker), 0) if has_applied else 0,
    )


def _is_on_its_way(one: InstanceState, step: dict[str, Any], at: datetime) -> bool:
    """Whether it moved before the reset can have reached it: a probe that was out, or a trip that ended."""
    is_of_before = one.reported_state is State.HALF_OPEN or one.trigger in _PROBED
    moved_after_s = (one.since - at).total_seconds() if one.since is not None else 0.0
    return is_of_before and moved_after_s <= float(step["ramp_s"]) + _ON_ITS_WAY_S
