"""What a person imposes on breakers, ends and prolongs; and what ends by its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NotRequired, Required, Unpack

from django.db import transaction
from django.utils import timezone

from recovery_ops import wire
from recovery_ops.control import audit
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, bump, carry_out, require, words_of
from recovery_ops.control.actions.holding import Grave, is_grave
from recovery_ops.control.actors import system
from recovery_ops.control.desired import current_revision
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import AuditEntry, LoadShed, Override
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.words import State

SAME_END = timedelta(seconds=60)
"""Two wishes for one end that differ by less are the same wish, sent twice."""

_VERBS = {State.FORCED_OPEN: "trip", State.DISABLED: "disable", State.METRICS_ONLY: "observe"}


class Imposing(Asked):
    """What `trip`, `disable` and `observe` are given. `expires_in_s` is an hour where it is not said.

    `starts_in_s` puts it off: a maintenance window, which lasts `expires_in_s` from then on. `ahead` allows a breaker,
    or a part of the environment, that nobody has reported yet. `confirm` repeats the name that
    `checks.name_to_confirm` asks for.
    """

    scope: Required[Scope]
    expires_in_s: NotRequired[float]
    starts_in_s: NotRequired[float]
    ahead: NotRequired[bool]
    confirm: NotRequired[str]


def trip(**asked: Unpack[Imposing]) -> Done[Override]:
    """Hold the breakers in a scope open: they refuse every call until the override ends. See `impose`."""
    return impose(State.FORCED_OPEN, **asked)


def disable(**asked: Unpack[Imposing]) -> Done[Override]:
    """Let every call pass, whatever the rules say, until the override ends. See `impose`."""
    return impose(State.DISABLED, **asked)


def observe(**asked: Unpack[Imposing]) -> Done[Override]:
    """Let every call pass and record what the rules would have refused, until the override ends. See `impose`."""
    return impose(State.METRICS_ONLY, **asked)


def impose(mode: State, **asked: Unpack[Imposing]) -> Done[Override]:
    """Rule the breakers in exactly this scope by a person's word; what rests on it at the same time is replaced.

    What ends before this one begins, or begins after its end, stays. Asked for the same twice (mode, scope, reason and
    end), the first stays and nothing is written.
    Raises Refused: 403, 400 by field, 404 for a breaker nobody reported, 409 when it was changed since `seen`.
    """
    by, environment, scope = asked["by"], asked["environment"], asked["scope"]
    expires_in_s = asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    verb = _VERBS[mode]
    starts_in_s = asked.get("starts_in_s", 0.0)
    faults = {
        "expires_in_s": checks.fault_of_expiry(expires_in_s, by, environment),
        "starts_in_s": checks.fault_of_start(starts_in_s),
        "confirm": "" if "agreed" in asked else _fault_of_confirmation(environment, scope, asked),
    }
    is_fleet_wide = checks.is_many(environment, scope.operation)
    grave = None
    if is_grave(environment, scope):
        more = {name: asked[name] for name in ("ahead", "confirm") if name in asked}
        grave = Grave.of(verb, asked, scope=asdict(scope), expires_in_s=expires_in_s, starts_in_s=starts_in_s, **more)
    told_by = partial(_is_told_by, expires_in_s=expires_in_s)
    attempt = Attempt.of(
        f"breaker.{verb}", verb, scope, asked, faults, needs_fresh=is_fleet_wide, grave=grave, is_told_by=told_by
    )
    with attempt.noted():
        attempt.check()
        if not asked.get("ahead"):
            checks.require_known_breaker(environment, scope)
        impact = impact_of(environment, scope, now=attempt.now)
        starts_at = attempt.now + timedelta(seconds=starts_in_s)
        wish = _wish(attempt, mode, starts_at, expires_in_s, impact.ramp_s if mode is State.FORCED_OPEN else 0.0)

        def write(revision: int) -> Step[Override]:
            resting = list(Override.objects.live(environment).in_scope(scope))
            same = next((one for one in resting if _is_same(one, wish)), None)
            if same is not None:
                return Step(object=same, revision=same.revision, was_already=True)
            attempt.check_fresh(revision - 1)
            called_off = [
                one for one in resting if one.starts_at > attempt.now and is_in_the_way(one, wish, attempt.now)
            ]
            before = _replaced(resting, wish, attempt, revision)
            wish.revision = revision
            wish.save(force_insert=True)
            return Step(object=wish, revision=revision, before=before, after=told(wish), called_off=called_off)

        return carry_out(attempt, write, recall=_recalled, impact=impact)


def _fault_of_confirmation(environment: str, scope: Scope, asked: Imposing) -> str:
    name = checks.name_to_confirm(environment, scope, asked.get("now"))
    is_part = not checks.is_everybody(environment, scope, asked.get("now"))
    return checks.fault_of_confirmation(name, asked, is_part=is_part)


def release(*, override_id: str, **asked: Unpack[Asked]) -> Done[Override]:
    """End an override ("Return to auto"): a tripped breaker goes to half_open, the others to what the rules reached.

    One that has ended is left as it is, unless another took its place meanwhile (409). Raises Refused as `impose`.
    """
    override = _found("release", override_id, asked)
    attempt = Attempt.of("breaker.release", "release", override.scope, asked)

    def write(revision: int) -> Step[Override]:
        held = Override.objects.get(pk=override.pk)
        if held.ended_at is not None:
            _refuse_successor(held, attempt.now)
            return Step(object=held, revision=held.end_revision or held.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        before = told(held)
        end_override(held, attempt, revision, attempt.reason)
        return Step(object=held, revision=revision, before=before, after={"id": held.pk})

    with attempt.noted():
        attempt.check()
        impact = impact_of(override.environment, override.scope, now=attempt.now)
        return carry_out(attempt, write, recall=_recalled, impact=impact)


def extend(*, override_id: str, expires_in_s: float, **asked: Unpack[Asked]) -> Done[Override]:
    """Let an override end later: `expires_in_s` from now. One that has not begun lasts as long as one that begins now.

    Raises Refused as `impose`, 400 when it would end sooner, and 409 for one that has ended, or that would run into the
    next one that is to begin in exactly its scope.
    """
    override = _found("extend", override_id, asked)
    begins_in_s = max(0.0, (override.starts_at - (asked.get("now") or timezone.now())).total_seconds())
    fault = checks.fault_of_expiry(expires_in_s, asked["by"], override.environment, begins_in_s=begins_in_s)
    grave = None
    if is_grave(override.environment, override.scope):
        grave = Grave.of("extend", asked, override_id=override_id, expires_in_s=expires_in_s)
    attempt = Attempt.of(
        "breaker.extend",
        "extend",
        override.scope,
        asked,
        {"expires_in_s": fault},
        needs_fresh=checks.is_many(override.environment, override.operation),
        grave=grave,
        is_told_by=lambda entry: checks.is_length_of(entry.after, expires_in_s, since=entry.at),
    )

    def write(revision: int) -> Step[Override]:
        held = Override.objects.get(pk=override.pk)
        if held.ended_at is not None or held.expires_at <= attempt.now:
            _refuse_ended(held)
        expires_at = attempt.now + timedelta(seconds=expires_in_s)
        if abs(expires_at - held.expires_at) <= SAME_END:
            return Step(object=held, revision=held.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        if expires_at < held.expires_at:
            until = checks.moment_of(held.expires_at, attempt.now)
            checks.refuse({"expires_in_s": f"would end it sooner: it lasts until {until}"})
        _refuse_to_run_into(held, expires_at, attempt.now)
        before = told(held)
        held.expires_at, held.revision = expires_at, revision
        held.save(update_fields=["expires_at", "revision"])
        return Step(object=held, revision=revision, before=before, after=told(held))

    with attempt.noted():
        attempt.check()
        impact = impact_of(override.environment, override.scope, now=attempt.now)
        return carry_out(attempt, write, recall=_recalled, impact=impact)


def resting_id(environment: str, scope: Scope) -> str:
    """The id of the override that rests on exactly this scope: the one that holds, else the next that is to begin, else
    the last that ended. Raises Refused (404).
    """
    found = Override.objects.filter(environment=environment).in_scope(scope)
    meant = found.filter(ended_at=None).order_by("starts_at").first() or found.order_by("-revision").first()
    if meant is None:
        detail = f"No override rests on exactly {words_of(scope)}. Name a part of it, or the override's id."
        raise Refused("nothing_held", detail, status=UNKNOWN)
    return meant.pk


def end_expired(environment: str, *, now: datetime) -> list[Override]:
    """Note which overrides have ended by their time, under one new revision. Asked twice, the second finds nothing.

    Agents end them by their own clocks; this takes them out of the document and into the history.
    """
    ended: list[Override] = []
    by = system("expiry")
    with transaction.atomic():
        audit.lock(environment)
        revision = current_revision(environment) + 1
        for override in Override.objects.live(environment).filter(expires_at__lte=now):
            # Claimed by the update itself: whoever changes no row came second.
            mine = Override.objects.filter(pk=override.pk, ended_at=None, expires_at__lte=now)
            if mine.update(ended_at=override.expires_at, ended_by=by.name, end_reason="expired", end_revision=revision):
                deed = audit.Deed(
                    verb="breaker.expire",
                    object=words_of(override.scope),
                    operation=override.operation,
                    reason="its time was over",
                    before=told(override),
                    after={"id": override.pk},
                    revision=revision,
                )
                audit.append(environment, deed, by=by, at=now)
                ended.append(override)
        if ended:
            bump(environment, now)
    return ended


def end_in_scope(scope: Scope, attempt: Attempt, revision: int) -> list[Override]:
    """End what holds on exactly this scope, in the transaction of another change; what is to begin later stays."""
    ended = list(Override.objects.live(attempt.environment).in_scope(scope).filter(starts_at__lte=attempt.now))
    for override in ended:
        end_override(override, attempt, revision, attempt.reason)
    return ended


def _refuse_to_cut(held: Override, wish: Override, now: datetime) -> None:
    """Raise Refused (409) when one that holds now would be ended for one that begins later."""
    if held.starts_at <= now < wish.starts_at < held.expires_at:
        detail = (
            f"{held.by} set {held.mode} there until {checks.moment_of(held.expires_at, now)}: “{held.reason}”. One "
            "that begins before that would end it now. Release it first, or let yours begin later."
        )
        raise Refused("held", detail, status=STALE, fields={"starts_in_s": "is before the end of the one that holds"})


def _refuse_to_run_into(held: Override, expires_at: datetime, now: datetime) -> None:
    """Raise Refused (409) when one that is prolonged would hold together with one that is to begin."""
    others = Override.objects.live(held.environment).in_scope(held.scope).exclude(pk=held.pk)
    later = others.filter(starts_at__gte=held.expires_at, starts_at__lt=expires_at, expires_at__gt=now)
    first = later.order_by("starts_at").first()
    if first is not None:
        begins = checks.moment_of(first.starts_at, now)
        detail = (
            f"{first.by} has set {first.mode} there from {begins} on: “{first.reason}”. Extend this one until then at "
            "most, or call that one off first."
        )
        raise Refused("held", detail, status=STALE, fields={"expires_in_s": "is after the beginning of the next one"})


def _wish(attempt: Attempt, mode: State, starts_at: datetime, expires_in_s: float, ramp_s: float) -> Override:
    scope = attempt.scope
    return Override(
        environment=attempt.environment,
        mode=mode.value,
        service=scope.service,
        operation=scope.operation,
        instance=scope.instance,
        group=scope.group,
        reason=attempt.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        starts_at=starts_at,
        expires_at=starts_at + timedelta(seconds=expires_in_s),
        ramp_s=ramp_s,
    )


def _is_told_by(entry: AuditEntry, *, expires_in_s: float) -> bool:
    return checks.is_length_of(entry.after, expires_in_s)


def _is_same(held: Override, wish: Override) -> bool:
    # Two that hold at once begin alike, whenever they were asked for.
    begin_alike = abs(held.starts_at - wish.starts_at) <= SAME_END or held.starts_at <= wish.starts_at
    is_alike = (held.mode, held.reason) == (wish.mode, wish.reason) and begin_alike
    return is_alike and abs(held.expires_at - wish.expires_at) <= SAME_END


def is_in_the_way(held: Override | LoadShed, wish: Override | LoadShed, now: datetime) -> bool:
    """Whether both would hold at one moment; what is over, and was not noted yet, is noted on the way."""
    return held.expires_at <= now or (held.starts_at < wish.expires_at and wish.starts_at < held.expires_at)


def end_override(override: Override, attempt: Attempt, revision: int, reason: str) -> None:
    """End one, in the transaction of another change."""
    has_expired = override.expires_at <= attempt.now
    override.ended_at = override.expires_at if has_expired else attempt.now
    override.ended_by = attempt.by.name
    override.end_reason = "expired" if has_expired else reason
    override.end_revision = revision
    override.is_ended_by_person = not has_expired and attempt.by.kind != "system"
    fields = ["ended_at", "ended_by", "end_reason", "end_revision", "is_ended_by_person"]
    override.save(update_fields=fields)


def _found(permission: str, override_id: str, asked: Asked) -> Override:
    environment = asked["environment"]
    override = Override.objects.filter(environment=environment, pk=override_id).first()
    if override is not None:
        return override
    require(asked["by"], permission, environment)  # which overrides there are is not for everyone
    detail = f"There is no override {override_id} in {environment}. The breaker's page lists those that hold."
    raise Refused("unknown_override", detail, status=UNKNOWN, fields={"override_id": "is not known"})


def _refuse_successor(ended: Override, now: datetime) -> None:
    held = Override.objects.in_force(ended.environment, now).in_scope(ended.scope).first()
    if held is not None:
        changes = AuditEntry.objects.filter(environment=held.environment, revision=held.revision)
        detail = f"It has ended, and {held.by} set {held.mode} in its place: “{held.reason}”. Look again, then decide."
        raise Refused("stale", detail, status=STALE, changes=list(changes))


def _refuse_ended(override: Override) -> None:
    at = override.ended_at or override.expires_at
    how = f" by {override.ended_by}" if override.ended_by and override.end_reason != "expired" else ""
    detail = f"It ended{how} at {at:%H:%M:%S} UTC, so there is nothing to extend. Set it again if it is still needed."
    raise Refused("ended", detail, status=STALE)


def _recalled(entry: AuditEntry) -> Override:
    return Override.objects.get(pk=entry.after["id"])


def _replaced(resting: Sequence[Override], wish: Override, attempt: Attempt, revision: int) -> Mapping[str, Any] | None:
    """End what would hold together with a wish; return it as the audit log keeps it. Raises Refused (409)."""
    replaced = [one for one in resting if is_in_the_way(one, wish, attempt.now)]
    before = _told_together(replaced)
    for one in replaced:
        _refuse_to_cut(one, wish, attempt.now)
        end_override(one, attempt, revision, f"replaced: {attempt.verb.partition('.')[2]}")
    return before


def _told_together(overrides: Sequence[Override]) -> Mapping[str, Any] | None:
    """Those that one change ends, as the audit log keeps them: the first whole, the others by their ids."""
    if not overrides:
        return None
    first, *others = overrides
    return {**(told(first) or {}), **({"also": [one.pk for one in others]} if others else {})}


def told(override: Override | None) -> Mapping[str, Any] | None:
    """An override as the audit log keeps it."""
    if override is None:
        return None
    return {
        "id": override.pk,
        "mode": override.mode,
        "scope": wire.scope_document(override.scope),
        "by": override.by,
        "reason": override.reason,
        "starts_at": override.starts_at.isoformat(timespec="seconds"),
        "expires_at": override.expires_at.isoformat(timespec="seconds"),
        "ramp_s": override.ramp_s,
        **({"rule": override.rule} if override.rule else {}),
    }
