"""The quorum rule at work: trips the rest of a fleet, prolongs it while it is still so, and gives it back.

The console does it as a person would, through overrides that have a reason and an end; a person's override goes first.
Every act looks again in the transaction that holds the environment's audit chain, so of two schedulers one acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from events.queries.breakers import Reported, reported, states_of
from events.rows import InstanceState
from recovery_ops.control.breakers.impact import ramp_s
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.models.quorum import QuorumWatch
from recovery_ops.control.breakers.services.overrides import end_override, told
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.rules.enums import State
from recovery_ops.rules.fleet.breaker_quorum import Decision, Do, Seen, decide, needed_of, rule_for
from recovery_ops.rules.fleet.canary_cohort import Spared
from recovery_ops.rules.policy.fleet_settings import QuorumRule
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import Place, Scope

QUORUM = "quorum"
"""What such overrides are marked with, and who sets them."""
OPENED = (State.OPEN, State.HALF_OPEN)
_FORGOTTEN_AFTER = timedelta(seconds=60)
"""Who did not look for so long does not know that it was so without a break."""
_NOBODY = Reported()
_OPERATION_RANK = 3
"""Of scopes: what speaks of an operation or of more; what is narrower wins in the agent anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """What one look at an environment found."""

    environment: str
    now: datetime
    rules: Sequence[QuorumRule]
    seen: Mapping[str, Reported]
    held: Mapping[str, Override]
    others: Sequence[Override]
    watches: Mapping[str, QuorumWatch]
    released: Mapping[str, datetime]
    witnesses: Mapping[str, Sequence[InstanceState]] = field(default_factory=dict)


def keep_quorum(environment: str, *, now: datetime) -> int:
    """Look at every breaker of which a rule speaks, and do what follows; return how much that was.

    Asked twice, or by two at once, the second finds it done. Without a rule and without a trip of its own: two queries.
    """
    document = live_policy(environment).document
    live = list(Override.objects.live(environment))
    held = {one.operation: one for one in live if one.rule == QUORUM and one.expires_at > now}
    if not document.get("quorum") and not held:
        return 0
    scene = _Scene(
        environment=environment,
        now=now,
        rules=parse_policy(document).quorum,
        seen=reported(environment, now=now),
        held=held,
        others=[one for one in live if one.rule != QUORUM and one.starts_at <= now < one.expires_at],
        watches={one.breaker: one for one in QuorumWatch.objects.filter(environment=environment)},
        released=_released(environment, now),
        witnesses=_witnesses(environment, held, now),
    )
    acted = 0
    for breaker in sorted({*scene.seen, *scene.held}):
        rule = rule_for(scene.rules, breaker, sorted(scene.seen.get(breaker, _NOBODY).operations))
        if rule is None and breaker not in held:
            continue
        seen = _seen(scene, breaker, rule)
        decision = decide(rule, seen, now.timestamp())
        _remember(scene, breaker, seen, decision)
        acted += _done(scene, breaker, rule, decision)
    _forget(scene)
    return acted


def _seen(scene: _Scene, breaker: str, rule: QuorumRule | None) -> Seen:
    counts, held = scene.seen.get(breaker, _NOBODY), scene.held.get(breaker)
    watch = scene.watches.get(breaker)
    if watch is not None and scene.now - watch.seen_at > _FORGOTTEN_AFTER:
        watch = None
    person = next((one.by for one in scene.others if _goes_first(one, breaker)), "")
    released_at = scene.released.get(breaker)
    rests_s = 0.0 if released_at is None or rule is None else released_at.timestamp() + rule.expires_s
    return Seen(
        opened=counts.number(*OPENED),
        reporting=counts.instances,
        met_since=None if watch is None else _seconds(watch.met_since),
        fallen_since=None if watch is None else _seconds(watch.fallen_since),
        held_until=None if held is None else held.expires_at.timestamp(),
        witnesses=sum(one.agent.is_reachable for one in scene.witnesses.get(breaker, ())),
        person=person,
        rests_until=rests_s,
    )


def _goes_first(override: Override, breaker: str) -> bool:
    """Whether a person's override speaks of the breaker, and would be beaten by one on just its operation."""
    is_about = Scope(operation=override.operation).holds(
        Place(service="", instance="", operation=breaker, breaker=breaker)
    )
    return is_about and override.scope.rank[0] <= _OPERATION_RANK


def _witnesses(environment: str, held: Mapping[str, Override], now: datetime) -> dict[str, list[InstanceState]]:
    """The instances that each trip lets out. One query where something is tripped."""
    found: dict[str, list[InstanceState]] = {}
    for one in states_of(environment, now=now, names=list(held)) if held else ():
        if held[one.breaker].spared.holds(service=one.agent.service, instance=one.agent.instance):
            found.setdefault(one.breaker, []).append(one)
    return found


def _released(environment: str, now: datetime) -> dict[str, datetime]:
    """When a person last ended what the rule had set, by breaker."""
    lately = Override.objects.filter(
        environment=environment, rule=QUORUM, ended_at__gt=now - timedelta(days=1), is_ended_by_person=True
    )
    return {one.operation: one.ended_at for one in lately.order_by("ended_at") if one.ended_at is not None}


def _remember(scene: _Scene, breaker: str, seen: Seen, decision: Decision) -> None:
    if not seen.opened and breaker not in scene.held:
        return
    QuorumWatch.objects.update_or_create(
        environment=scene.environment,
        breaker=breaker,
        defaults={
            "opened": seen.opened,
            "reporting": seen.reporting,
            "met_since": _moment(decision.met_since),
            "fallen_since": _moment(decision.fallen_since),
            "seen_at": scene.now,
        },
    )


def _forget(scene: _Scene) -> None:
    calm = [
        one.pk
        for breaker, one in scene.watches.items()
        if breaker not in scene.held and not scene.seen.get(breaker, _NOBODY).number(*OPENED)
    ]
    if calm:
        QuorumWatch.objects.filter(pk__in=calm).delete()


def _done(scene: _Scene, breaker: str, rule: QuorumRule | None, decision: Decision) -> int:
    held = scene.held.get(breaker)
    if decision.do is Do.TRIP and rule is not None:
        return _trip(scene, breaker, rule)
    if decision.do is Do.EXTEND and rule is not None and held is not None:
        return _extend(scene, held, rule, decision.why)
    if decision.do is Do.RELEASE and held is not None:
        return _release(scene, held, decision.why)
    return 0


def _trip(scene: _Scene, breaker: str, rule: QuorumRule) -> int:
    now, scope = scene.now, Scope(operation=breaker)
    states = [one for one in states_of(scene.environment, now=now, names=[breaker]) if one.agent.is_reachable]
    opened = [one for one in states if one.reported_state in OPENED]
    first = min((one.since for one in opened if one.since is not None), default=now)
    needed = needed_of(rule, len(states))
    reason = (
        f"{len(opened)} of {len(states)} instances opened the breaker since {first.astimezone(UTC):%H:%M:%S} UTC; "
        f"the quorum is {needed} ({rule.share * 100:g} %, at least {rule.minimum_count})"
    )

    def write(revision: int) -> Change[Override]:
        in_force = Override.objects.in_force(scene.environment, now)
        standing = next((one for one in in_force if _goes_first(one, breaker)), None)
        if standing is not None or len(opened) < needed:
            raise CommandRejected("overtaken", "The quorum is no longer reached.", status=CONFLICT)
        made = Override(
            environment=scene.environment,
            mode=State.FORCED_OPEN.value,
            operation=breaker,
            reason=reason,
            by=QUORUM,
            rule=QUORUM,
            spares=Spared(instances=frozenset((one.agent.service, one.agent.instance) for one in opened)).document,
            starts_at=now,
            expires_at=now + timedelta(seconds=rule.expires_s),
            revision=revision,
            ramp_s=ramp_s(len(states)),
        )
        made.save(force_insert=True)
        return Change(object=made, revision=revision, after={**(told(made) or {}), "opened": _names(opened)})

    return _carried_out(scene, "breaker.trip", "trip", scope, reason, write)


def _extend(scene: _Scene, known: Override, rule: QuorumRule, why: str) -> int:
    def write(revision: int) -> Change[Override]:
        held = _as_known(known)
        before = told(held)
        held.expires_at, held.revision = scene.now + timedelta(seconds=rule.expires_s), revision
        held.save(update_fields=["expires_at", "revision"])
        return Change(object=held, revision=revision, before=before, after=told(held))

    return _carried_out(scene, "breaker.extend", "extend", known.scope, why, write)


def _release(scene: _Scene, known: Override, why: str) -> int:
    def write(revision: int) -> Change[Override]:
        held = _as_known(known)
        before = told(held)
        command = _attempt(scene, "breaker.release", "release", known.scope, why)
        end_override(held, command, revision, why)
        return Change(object=held, revision=revision, before=before, after={"id": held.pk})

    return _carried_out(scene, "breaker.release", "release", known.scope, why, write)


def _as_known(known: Override) -> Override:
    """The override as it is now. Raises CommandRejected when somebody ended or prolonged it meanwhile."""
    held = Override.objects.get(pk=known.pk)
    if held.ended_at is not None or held.expires_at != known.expires_at:
        raise CommandRejected("overtaken", "The override changed in the meantime.", status=CONFLICT)
    return held


def _attempt(scene: _Scene, verb: str, permission: str, scope: Scope, reason: str) -> Command:
    asked = CommandContext(by=system_actor(QUORUM), environment=scene.environment, reason=reason, now=scene.now)
    return Command.of(verb, scope, asked)


def _carried_out(
    scene: _Scene, verb: str, permission: str, scope: Scope, reason: str, write: Callable[[int], Change[Override]]
) -> int:
    """1 when it was done, 0 when somebody was quicker; that is no refusal to be noted."""
    command = _attempt(scene, verb, permission, scope, reason)
    try:
        command.check()
        execute(command, write, recall=_recalled)
    except CommandRejected:
        return 0
    return 1


def _recalled(entry: AuditEntry) -> Override:
    return Override.objects.get(pk=entry.after["id"])


def _names(opened: Sequence[InstanceState]) -> list[str]:
    """The evidence, as far as a row of the log holds it."""
    return [f"{one.agent.service}/{one.agent.instance}" for one in opened[:200]]


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
