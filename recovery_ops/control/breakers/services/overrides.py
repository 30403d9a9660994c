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
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core import checks
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.approvals import GatedAction, has_wide_reach
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
from recovery_ops.control.core.revisions import bump_revision, current_revision
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope

SAME_END = timedelta(seconds=60)
"""Two wishes for one end that differ by less are the same wish, sent twice."""

_VERBS = {State.FORCED_OPEN: "trip", State.DISABLED: "disable", State.METRICS_ONLY: "observe"}


class Imposing(CommandContext):
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


def trip(**asked: Unpack[Imposing]) -> CommandResult[Override]:
    """Hold the breakers in a scope open: they refuse every call until the override ends. See `impose`."""
    return impose(State.FORCED_OPEN, **asked)


def disable(**asked: Unpack[Imposing]) -> CommandResult[Override]:
    """Let every call pass, whatever the rules say, until the override ends. See `impose`."""
    return impose(State.DISABLED, **asked)


def observe(**asked: Unpack[Imposing]) -> CommandResult[Override]:
    """Let every call pass and record what the rules would have refused, until the override ends. See `impose`."""
    return impose(State.METRICS_ONLY, **asked)


def impose(mode: State, **asked: Unpack[Imposing]) -> CommandResult[Override]:
    """Rule the breakers in exactly this scope by a person's word; what rests on it at the same time is replaced.

    What ends before this one begins, or begins after its end, stays. Asked for the same twice (mode, scope, reason and
    end), the first stays and nothing is written.
    Raises CommandRejected: 403, 400 by field, 404 for a breaker nobody reported, 409 when it was changed since `seen`.
    """
    by, environment, scope = asked["by"], asked["environment"], asked["scope"]
    expires_in_s = asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    verb = _VERBS[mode]
    starts_in_s = asked.get("starts_in_s", 0.0)
    faults = {
        "expires_in_s": checks.expiry_error(expires_in_s, by, environment),
        "starts_in_s": checks.start_error(starts_in_s),
        "confirm": "" if "agreed" in asked else _fault_of_confirmation(environment, scope, asked),
    }
    is_fleet_wide = checks.is_many(environment, scope.operation)
    gated_action = None
    if has_wide_reach(environment, scope):
        more = {name: asked[name] for name in ("ahead", "confirm") if name in asked}
        gated_action = GatedAction.of(
            verb, asked, scope=asdict(scope), expires_in_s=expires_in_s, starts_in_s=starts_in_s, **more
        )
    told_by = partial(_is_told_by, expires_in_s=expires_in_s)
    command = Command.of(
        f"breaker.{verb}",
        scope,
        asked,
        faults,
        needs_fresh=is_fleet_wide,
        gated_action=gated_action,
        is_same_request=told_by,
    )
    with command.noted():
        command.check()
        if not asked.get("ahead"):
            checks.require_known_breaker(environment, scope)
        impact = impact_of(environment, scope, now=command.now)
        starts_at = command.now + timedelta(seconds=starts_in_s)
        wish = _wish(command, mode, starts_at, expires_in_s, impact.ramp_s if mode is State.FORCED_OPEN else 0.0)

        def write(revision: int) -> Change[Override]:
            resting = list(Override.objects.live(environment).in_scope(scope))
            same = next((one for one in resting if _is_same(one, wish)), None)
            if same is not None:
                return Change(object=same, revision=same.revision, was_already=True)
            command.check_fresh(revision - 1)
            called_off = [
                one for one in resting if one.starts_at > command.now and is_in_the_way(one, wish, command.now)
            ]
            before = _replaced(resting, wish, command, revision)
            wish.revision = revision
            wish.save(force_insert=True)
            return Change(object=wish, revision=revision, before=before, after=told(wish), cancelled=called_off)

        return execute(command, write, recall=_recalled, impact=impact)


def _fault_of_confirmation(environment: str, scope: Scope, asked: Imposing) -> str:
    name = checks.name_to_confirm(environment, scope, asked.get("now"))
    is_part = not checks.is_everybody(environment, scope, asked.get("now"))
    return checks.confirmation_error(name, asked, is_part=is_part)


def release(*, override_id: str, **asked: Unpack[CommandContext]) -> CommandResult[Override]:
    """End an override (*Clear override*): a tripped breaker goes to half_open, the others to what the rules reached.

    One that has ended is left as it is, unless another took its place meanwhile (409). Raises CommandRejected as
    `impose`.
    """
    override = _found("release", override_id, asked)
    command = Command.of("breaker.release", override.scope, asked)

    def write(revision: int) -> Change[Override]:
        held = Override.objects.get(pk=override.pk)
        if held.ended_at is not None:
            _refuse_successor(held, command.now)
            return Change(object=held, revision=held.end_revision or held.revision, was_already=True)
        command.check_fresh(revision - 1)
        before = told(held)
        end_override(held, command, revision, command.reason)
        return Change(object=held, revision=revision, before=before, after={"id": held.pk})

    with command.noted():
        command.check()
        impact = impact_of(override.environment, override.scope, now=command.now)
        return execute(command, write, recall=_recalled, impact=impact)


def extend(*, override_id: str, expires_in_s: float, **asked: Unpack[CommandContext]) -> CommandResult[Override]:
    """Let an override end later: `expires_in_s` from now. One that has not begun lasts as long as one that begins now.

    Raises CommandRejected as `impose`, 400 when it would end sooner, and 409 for one that has ended, or that would run
    into the next one that is to begin in exactly its scope.
    """
    override = _found("extend", override_id, asked)
    begins_in_s = max(0.0, (override.starts_at - (asked.get("now") or timezone.now())).total_seconds())
    fault = checks.expiry_error(expires_in_s, asked["by"], override.environment, begins_in_s=begins_in_s)
    gated_action = None
    if has_wide_reach(override.environment, override.scope):
        gated_action = GatedAction.of("extend", asked, override_id=override_id, expires_in_s=expires_in_s)
    command = Command.of(
        "breaker.extend",
        override.scope,
        asked,
        {"expires_in_s": fault},
        needs_fresh=checks.is_many(override.environment, override.operation),
        gated_action=gated_action,
        is_same_request=lambda entry: checks.has_duration(entry.after, expires_in_s, since=entry.at),
    )

    def write(revision: int) -> Change[Override]:
        held = Override.objects.get(pk=override.pk)
        if held.ended_at is not None or held.expires_at <= command.now:
            _refuse_ended(held)
        expires_at = command.now + timedelta(seconds=expires_in_s)
        if abs(expires_at - held.expires_at) <= SAME_END:
            return Change(object=held, revision=held.revision, was_already=True)
        command.check_fresh(revision - 1)
        if expires_at < held.expires_at:
            until = checks.short_time(held.expires_at, command.now)
            checks.raise_for_errors({"expires_in_s": f"is before the current end, {until}"})
        _refuse_to_run_into(held, expires_at, command.now)
        before = told(held)
        held.expires_at, held.revision = expires_at, revision
        held.save(update_fields=["expires_at", "revision"])
        return Change(object=held, revision=revision, before=before, after=told(held))

    with command.noted():
        command.check()
        impact = impact_of(override.environment, override.scope, now=command.now)
        return execute(command, write, recall=_recalled, impact=impact)


def resting_id(environment: str, scope: Scope) -> str:
    """The id of the override that rests on exactly this scope: the one that holds, else the next that is to begin, else
    the last that ended. Raises CommandRejected (404).
    """
    found = Override.objects.filter(environment=environment).in_scope(scope)
    meant = found.filter(ended_at=None).order_by("starts_at").first() or found.order_by("-revision").first()
    if meant is None:
        detail = f"No override has exactly the scope {scope_words(scope)}. Send another scope or the override id."
        raise CommandRejected("nothing_held", detail, status=NOT_FOUND)
    return meant.pk


def end_expired(environment: str, *, now: datetime) -> list[Override]:
    """Note which overrides have ended by their time, under one new revision. Asked twice, the second finds nothing.

    Agents end them by their own clocks; this takes them out of the document and into the history.
    """
    ended: list[Override] = []
    by = system_actor("expiry")
    with transaction.atomic():
        audit.lock(environment)
        revision = current_revision(environment) + 1
        for override in Override.objects.live(environment).filter(expires_at__lte=now):
            # Claimed by the update itself: whoever changes no row came second.
            mine = Override.objects.filter(pk=override.pk, ended_at=None, expires_at__lte=now)
            if mine.update(ended_at=override.expires_at, ended_by=by.name, end_reason="expired", end_revision=revision):
                deed = audit.AuditRecord(
                    verb="breaker.expire",
                    object=scope_words(override.scope),
                    operation=override.operation,
                    reason="expired",
                    before=told(override),
                    after={"id": override.pk},
                    revision=revision,
                )
                audit.append(environment, deed, by=by, at=now)
                ended.append(override)
        if ended:
            bump_revision(environment, now)
    return ended


def end_in_scope(scope: Scope, command: Command, revision: int) -> list[Override]:
    """End what holds on exactly this scope, in the transaction of another change; what is to begin later stays."""
    ended = list(Override.objects.live(command.environment).in_scope(scope).filter(starts_at__lte=command.now))
    for override in ended:
        end_override(override, command, revision, command.reason)
    return ended


def _refuse_to_cut(held: Override, wish: Override, now: datetime) -> None:
    """Raise Refused (409) when one that holds now would be ended for one that begins later."""
    if held.starts_at <= now < wish.starts_at < held.expires_at:
        detail = (
            f"An override by {held.by} ({held.mode}) is active until {checks.short_time(held.expires_at, now)}: "
            f"“{held.reason}”. Clear it first, or use a later start."
        )
        raise CommandRejected(
            "held", detail, status=CONFLICT, fields={"starts_in_s": "is before the end of the active override"}
        )


def _refuse_to_run_into(held: Override, expires_at: datetime, now: datetime) -> None:
    """Raise Refused (409) when one that is prolonged would hold together with one that is to begin."""
    others = Override.objects.live(held.environment).in_scope(held.scope).exclude(pk=held.pk)
    later = others.filter(starts_at__gte=held.expires_at, starts_at__lt=expires_at, expires_at__gt=now)
    first = later.order_by("starts_at").first()
    if first is not None:
        begins = checks.short_time(first.starts_at, now)
        detail = (
            f"An override by {first.by} ({first.mode}) starts at {begins}: “{first.reason}”. Use an earlier end, or "
            "cancel that schedule first."
        )
        raise CommandRejected(
            "held", detail, status=CONFLICT, fields={"expires_in_s": "is after the start of the scheduled override"}
        )


def _wish(command: Command, mode: State, starts_at: datetime, expires_in_s: float, ramp_s: float) -> Override:
    scope = command.scope
    return Override(
        environment=command.environment,
        mode=mode.value,
        service=scope.service,
        operation=scope.operation,
        instance=scope.instance,
        group=scope.group,
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        starts_at=starts_at,
        expires_at=starts_at + timedelta(seconds=expires_in_s),
        ramp_s=ramp_s,
    )


def _is_told_by(entry: AuditEntry, *, expires_in_s: float) -> bool:
    return checks.has_duration(entry.after, expires_in_s)


def _is_same(held: Override, wish: Override) -> bool:
    # Two that hold at once begin alike, whenever they were asked for.
    begin_alike = abs(held.starts_at - wish.starts_at) <= SAME_END or held.starts_at <= wish.starts_at
    is_alike = (held.mode, held.reason) == (wish.mode, wish.reason) and begin_alike
    return is_alike and abs(held.expires_at - wish.expires_at) <= SAME_END


def is_in_the_way(held: Override | LoadShed, wish: Override | LoadShed, now: datetime) -> bool:
    """Whether both would hold at one moment; what is over, and was not noted yet, is noted on the way."""
    return held.expires_at <= now or (held.starts_at < wish.expires_at and wish.starts_at < held.expires_at)


def end_override(override: Override, command: Command, revision: int, reason: str) -> None:
    """End one, in the transaction of another change."""
    has_expired = override.expires_at <= command.now
    override.ended_at = override.expires_at if has_expired else command.now
    override.ended_by = command.by.name
    override.end_reason = "expired" if has_expired else reason
    override.end_revision = revision
    override.is_ended_by_person = not has_expired and command.by.kind != "system"
    fields = ["ended_at", "ended_by", "end_reason", "end_revision", "is_ended_by_person"]
    override.save(update_fields=fields)


def _found(permission: str, override_id: str, asked: CommandContext) -> Override:
    environment = asked["environment"]
    override = Override.objects.filter(environment=environment, pk=override_id).first()
    if override is not None:
        return override
    require_permission(asked["by"], permission, environment)  # which overrides there are is not for everyone
    detail = f"Override {override_id} does not exist in {environment}."
    raise CommandRejected("unknown_override", detail, status=NOT_FOUND, fields={"override_id": "does not exist"})


def _refuse_successor(ended: Override, now: datetime) -> None:
    held = Override.objects.in_force(ended.environment, now).in_scope(ended.scope).first()
    if held is not None:
        changes = AuditEntry.objects.filter(environment=held.environment, revision=held.revision)
        detail = f"The override ended. {held.by} set {held.mode} instead: “{held.reason}”. Reload and try again."
        raise CommandRejected("stale", detail, status=CONFLICT, changes=list(changes))


def _refuse_ended(override: Override) -> None:
    at = override.ended_at or override.expires_at
    how = f" by {override.ended_by}" if override.ended_by and override.end_reason != "expired" else ""
    detail = f"The override ended{how} at {at:%H:%M:%S} UTC. Create a new one if it is still needed."
    raise CommandRejected("ended", detail, status=CONFLICT)


def _recalled(entry: AuditEntry) -> Override:
    return Override.objects.get(pk=entry.after["id"])


def _replaced(resting: Sequence[Override], wish: Override, command: Command, revision: int) -> Mapping[str, Any] | None:
    """End what would hold together with a wish; return it as the audit log keeps it. Raises CommandRejected (409)."""
    replaced = [one for one in resting if is_in_the_way(one, wish, command.now)]
    before = _told_together(replaced)
    for one in replaced:
        _refuse_to_cut(one, wish, command.now)
        end_override(one, command, revision, f"replaced: {command.verb.partition('.')[2]}")
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
