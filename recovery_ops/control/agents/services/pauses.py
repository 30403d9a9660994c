"""Pauses new work of instances or services, stops them, and resumes both: commands that become state.

A paused agent begins no new runs, those in flight go on. A stopped agent aborts those, too. Each agent reports itself
whether it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NotRequired, Required, Unpack

from django.db import transaction
from django.db.models import Q

from events.models import Agent
from events.wording import count_text, listing
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.breakers.services.overrides import SAME_END
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core import checks
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.core.revisions import bump_revision, current_revision
from recovery_ops.control.core.wording import with_reason
from recovery_ops.rules.desired_state import PAUSE, STOP
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "pause"
PAUSED, STOPPED, RESUMED, EXPIRED = "work.pause", "work.stop", "work.resume", "work.expire"
_VERBS = {PAUSE: PAUSED, STOP: STOPPED}
TARGETS_MOST = 500

Target = tuple[str, str]
"""A service and one of its instances; all of them where that is empty."""


class Resuming(CommandContext):
    """What `resume_work` is given."""

    targets: Required[Sequence[Target]]


class Stopping(Resuming):
    """What `stop_agents` is given: for how long, an hour where it is not said."""

    expires_in_s: NotRequired[float]


class Pausing(Resuming):
    """What `pause_work` is given: for how long, an hour where it is not said; None: until somebody takes it back."""

    expires_in_s: NotRequired[float | None]


def pause_work(**asked: Unpack[Pausing]) -> CommandResult[Sequence[WorkPause]]:
    """Have instances begin no new runs, in one revision. What is paused already gets this reason and this end.

    Raises CommandRejected: 403, 400 by field, 404 for who never reported, 409 for what is stopped.
    """
    return _impose(PAUSE, asked)


def stop_agents(**asked: Unpack[Stopping]) -> CommandResult[Sequence[WorkPause]]:
    """Have instances abort their runs in flight and begin nothing, in one revision, until the end or `resume_work`.

    A stop replaces a pause of the same target. Raises CommandRejected: 403, 400 by field, 404 for who never reported.
    """
    return _impose(STOP, asked)


def _impose(kind: str, asked: Pausing | Stopping) -> CommandResult[Sequence[WorkPause]]:
    targets, lasts_s = _each(asked["targets"]), asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    faults = {"targets": _fault_of(targets)}
    if lasts_s is not None or kind == STOP:
        faults["expires_in_s"] = checks.expiry_error(lasts_s, asked["by"], asked["environment"])
    wanted = {"asked": _digest(targets), "lasts_s": lasts_s}
    command = _attempt(_VERBS[kind], asked, targets, faults, wanted)

    def write(revision: int) -> Change[Sequence[WorkPause]]:
        held = _held(command.environment, targets)
        _check_lifts_no_stop(kind, held, command.now)
        ends = None if lasts_s is None else command.now + timedelta(seconds=lasts_s)
        kept = [one for one in held if one.kind == kind and _is_same(one, command.reason, ends, command.now)]
        if len(kept) == len(targets):
            return Change(object=kept, revision=max(one.revision for one in kept), was_already=True)
        before = [_told(one) for one in held]
        for one in held:
            _end(one, command.now, command.by.name, "replaced", revision)
        made = [_wish(command, kind, target, ends, revision) for target in targets]
        after = {"ids": [one.pk for one in made], **wanted, "names": [one.name for one in made], "pause_at": revision}
        after |= {} if ends is None else {"expires_at": ends.isoformat(timespec="seconds")}
        return Change(object=made, revision=revision, before={"pauses": before} if before else None, after=after)

    with command.noted():
        command.check()
        _require_known(command.environment, targets)
        return execute(command, write, recall=_recalled)


def resume_work(**asked: Unpack[Resuming]) -> CommandResult[Sequence[WorkPause]]:
    """Let instances begin runs again that are paused; those that nobody has paused are left as they are.

    A service that is paused as a whole is resumed as a whole. Raises CommandRejected: 403, 400 by field, 409 where
    nothing is to be resumed.
    """
    targets = _each(asked["targets"])
    wanted = {"asked": _digest(targets)}
    command = _attempt(RESUMED, asked, targets, {"targets": _fault_of(targets)}, wanted)

    def write(revision: int) -> Change[Sequence[WorkPause]]:
        held = [one for one in _held(command.environment, targets) if not _has_expired(one, command.now)]
        if not held:
            raise CommandRejected(
                "not_paused", _why_not(command, targets), status=CONFLICT, fields={"targets": "are not paused"}
            )
        before = {"pauses": [_told(one) for one in held]}
        for one in held:
            _end(one, command.now, command.by.name, command.reason, revision)
        after = {"ids": [one.pk for one in held], **wanted, "names": [one.name for one in held]}
        return Change(object=held, revision=revision, before=before, after=after)

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def end_expired_pauses(environment: str, *, now: datetime) -> list[WorkPause]:
    """Note which pauses have ended by their time. Asked twice, the second finds nothing."""
    by = system_actor("expiry")
    with transaction.atomic():
        audit.lock(environment)
        due = list(WorkPause.objects.live(environment).filter(expires_at__lte=now))
        if not due:
            return []
        revision = current_revision(environment) + 1
        for one in due:
            _end(one, now, by.name, "expired", revision)
        deed = audit.AuditRecord(
            verb=EXPIRED,
            object=_about([(one.service, one.instance) for one in due]),
            reason="expired",
            before={"pauses": [_told(one) for one in due]},
            after={"ids": [one.pk for one in due]},
            revision=revision,
        )
        audit.append(environment, deed, by=by, at=now)
        bump_revision(environment, now)
    return due


def _attempt(
    verb: str, asked: CommandContext, targets: Sequence[Target], faults: Mapping[str, str], wanted: Mapping[str, object]
) -> Command:
    def is_same_request(entry: AuditEntry) -> bool:
        told = entry.after or {}
        return all(told.get(name) == value for name, value in wanted.items())

    objects = count_reached(asked["environment"], targets)
    about = _about(targets)
    return Command.of(verb, Scope(), asked, faults, about=about, objects=objects, is_same_request=is_same_request)


def count_reached(environment: str, targets: Sequence[Target]) -> int:
    """Number of instances that a change of these targets reaches; a service counts with all of its instances."""
    named = {target for target in targets if target[1]}
    services = [service for service, instance in targets if not instance]
    if not services:
        return len(named)
    agents = Agent.objects.filter(environment=environment, service__in=services, retired_us=0)
    return len(named | {*agents.values_list("service", "instance")})


def _about(targets: Sequence[Target]) -> str:
    names = [f"{service}/{instance}" if instance else service for service, instance in targets]
    told = f"new work of {listing(names, most=3)}"
    return told if len(told) <= NAME_CHARS else f"new work of {count_text(len(names), 'instance')}"


def _each(targets: Iterable[Target]) -> list[Target]:
    return sorted(set(targets))


def _fault_of(targets: Sequence[Target]) -> str:
    if not 1 <= len(targets) <= TARGETS_MOST:
        return f"has {len(targets)} entries; use 1 to {TARGETS_MOST}"
    names = [name for target in targets for name in target if name]
    is_named = all(service for service, _ in targets)
    if not is_named or not all(name.isprintable() and len(name) <= NAME_CHARS for name in names):
        return "must name a service each, and optionally an instance"
    return ""


def _digest(targets: Sequence[Target]) -> str:
    """Which targets a wish was about: in any order, each counted once."""
    return sha256("\n".join("\t".join(one) for one in targets).encode()).hexdigest()


def _require_known(environment: str, targets: Sequence[Target]) -> None:
    """Raise Refused (404) for who never reported."""
    agents = Agent.objects.filter(environment=environment, service__in={service for service, _ in targets})
    known = {*agents.values_list("service", "instance")}
    services = {service for service, _ in known}
    for service, instance in targets:
        if service not in services or (instance and (service, instance) not in known):
            what = f"instance {service}/{instance}" if instance else f"instance of {service}"
            detail = f"No {what} has reported in {environment}."
            raise CommandRejected("unknown_instance", detail, status=NOT_FOUND, fields={"targets": "are unknown"})


def _held(environment: str, targets: Sequence[Target]) -> list[WorkPause]:
    named = Q(service__in={service for service, _ in targets})
    wanted = set(targets)
    return [one for one in WorkPause.objects.live(environment).filter(named) if (one.service, one.instance) in wanted]


def _check_lifts_no_stop(kind: str, held: Iterable[WorkPause], now: datetime) -> None:
    """Raise CommandRejected (409) where a pause would replace a stop, and so let runs in flight and calls go on."""
    stopped = next((one for one in held if one.is_stop and not _has_expired(one, now)), None)
    if kind == PAUSE and stopped is not None:
        detail = (
            f"{stopped.name} is stopped by {with_reason(stopped.by, stopped.reason)}. Resume it before you pause it."
        )
        raise CommandRejected("stopped", detail, status=CONFLICT, fields={"targets": "are stopped"})


def _has_expired(one: WorkPause, now: datetime) -> bool:
    return one.expires_at is not None and one.expires_at <= now


def _is_same(one: WorkPause, reason: str, ends: datetime | None, now: datetime) -> bool:
    if one.reason != reason or _has_expired(one, now) or (one.expires_at is None) != (ends is None):
        return False
    return one.expires_at is None or ends is None or abs(one.expires_at - ends) <= SAME_END


def _wish(command: Command, kind: str, target: Target, ends: datetime | None, revision: int) -> WorkPause:
    return WorkPause.objects.create(
        environment=command.environment,
        service=target[0],
        instance=target[1],
        kind=kind,
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        at=command.now,
        expires_at=ends,
        revision=revision,
    )


def _end(one: WorkPause, now: datetime, by: str, reason: str, revision: int) -> None:
    has_expired = _has_expired(one, now)
    one.ended_at = one.expires_at if has_expired else now
    one.ended_by, one.end_revision = by, revision
    one.end_reason = "expired" if has_expired else reason
    one.save(update_fields=["ended_at", "ended_by", "end_reason", "end_revision"])


def _why_not(command: Command, targets: Sequence[Target]) -> str:
    services = {service for service, _ in targets}
    whole = WorkPause.objects.in_force(command.environment, command.now).filter(service__in=services, instance="")
    if (held := whole.first()) is not None:
        done = "stopped" if held.is_stop else "paused"
        return f"The whole service {held.service} is {done} by {with_reason(held.by, held.reason)}. Resume the service."
    return "The instances are not paused."


def _told(one: WorkPause) -> dict[str, object]:
    ends = None if one.expires_at is None else one.expires_at.isoformat(timespec="seconds")
    told: dict[str, object] = {"id": one.pk, "name": one.name, "by": one.by, "reason": one.reason, "expires_at": ends}
    return told | ({"kind": one.kind} if one.is_stop else {})


def _recalled(entry: AuditEntry) -> Sequence[WorkPause]:
    return list(WorkPause.objects.filter(pk__in=(entry.after or {})["ids"]).order_by("service", "instance"))
