"""Pauses new work of instances or services, and takes that back: a command that becomes state, as a run's abort.

What an agent does with it: it begins no new runs, those under way go on. Whether it does is told by itself.
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
from recovery_ops.control import audit
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, bump, carry_out
from recovery_ops.control.actions.overrides import SAME_END
from recovery_ops.control.actors import system
from recovery_ops.control.desired import current_revision
from recovery_ops.control.models import NAME_CHARS, AuditEntry, WorkPause
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

PERMISSION = "pause"
PAUSED, RESUMED, EXPIRED = "work.pause", "work.resume", "work.expire"
TARGETS_MOST = 500

Target = tuple[str, str]
"""A service and one of its instances; all of them where that is empty."""


class Resuming(Asked):
    """What `resume_work` is given."""

    targets: Required[Sequence[Target]]


class Pausing(Resuming):
    """What `pause_work` is given: for how long, an hour where it is not said; None: until somebody takes it back."""

    expires_in_s: NotRequired[float | None]


def pause_work(**asked: Unpack[Pausing]) -> Done[Sequence[WorkPause]]:
    """Have instances begin no new runs, in one revision. What is paused already gets this reason and this end.

    Raises Refused: 403, 400 by field, 404 for who never reported.
    """
    targets, lasts_s = _each(asked["targets"]), asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    faults = {"targets": _fault_of(targets)}
    if lasts_s is not None:
        faults["expires_in_s"] = checks.fault_of_expiry(lasts_s, asked["by"], asked["environment"])
    wanted = {"asked": _digest(targets), "lasts_s": lasts_s}
    attempt = _attempt(PAUSED, asked, targets, faults, wanted)

    def write(revision: int) -> Step[Sequence[WorkPause]]:
        held = _held(attempt.environment, targets)
        ends = None if lasts_s is None else attempt.now + timedelta(seconds=lasts_s)
        kept = [one for one in held if _is_same(one, attempt.reason, ends, attempt.now)]
        if len(kept) == len(targets):
            return Step(object=kept, revision=max(one.revision for one in kept), was_already=True)
        before = [_told(one) for one in held]
        for one in held:
            _end(one, attempt.now, attempt.by.name, "replaced", revision)
        made = [_wish(attempt, target, ends, revision) for target in targets]
        after = {"ids": [one.pk for one in made], **wanted, "names": [one.name for one in made], "pause_at": revision}
        after |= {} if ends is None else {"expires_at": ends.isoformat(timespec="seconds")}
        return Step(object=made, revision=revision, before={"pauses": before} if before else None, after=after)

    with attempt.noted():
        attempt.check()
        _require_known(attempt.environment, targets)
        return carry_out(attempt, write, recall=_recalled)


def resume_work(**asked: Unpack[Resuming]) -> Done[Sequence[WorkPause]]:
    """Let instances begin runs again that are paused; those that nobody has paused are left as they are.

    A service that is paused as a whole is resumed as a whole. Raises Refused: 403, 400 by field, 409 where nothing is
    to be resumed.
    """
    targets = _each(asked["targets"])
    wanted = {"asked": _digest(targets)}
    attempt = _attempt(RESUMED, asked, targets, {"targets": _fault_of(targets)}, wanted)

    def write(revision: int) -> Step[Sequence[WorkPause]]:
        held = [one for one in _held(attempt.environment, targets) if not _has_expired(one, attempt.now)]
        if not held:
            raise Refused("not_paused", _why_not(attempt, targets), status=STALE, fields={"targets": "are not paused"})
        before = {"pauses": [_told(one) for one in held]}
        for one in held:
            _end(one, attempt.now, attempt.by.name, attempt.reason, revision)
        after = {"ids": [one.pk for one in held], **wanted, "names": [one.name for one in held]}
        return Step(object=held, revision=revision, before=before, after=after)

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def end_expired_pauses(environment: str, *, now: datetime) -> list[WorkPause]:
    """Note which pauses have ended by their time. Asked twice, the second finds nothing."""
    by = system("expiry")
    with transaction.atomic():
        audit.lock(environment)
        due = list(WorkPause.objects.live(environment).filter(expires_at__lte=now))
        if not due:
            return []
        revision = current_revision(environment) + 1
        for one in due:
            _end(one, now, by.name, "expired", revision)
        deed = audit.Deed(
            verb=EXPIRED,
            object=_about([(one.service, one.instance) for one in due]),
            reason="its time was over",
            before={"pauses": [_told(one) for one in due]},
            after={"ids": [one.pk for one in due]},
            revision=revision,
        )
        audit.append(environment, deed, by=by, at=now)
        bump(environment, now)
    return due


def _attempt(
    verb: str, asked: Asked, targets: Sequence[Target], faults: Mapping[str, str], wanted: Mapping[str, object]
) -> Attempt:
    def is_told_by(entry: AuditEntry) -> bool:
        told = entry.after or {}
        return all(told.get(name) == value for name, value in wanted.items())

    return Attempt.of(verb, PERMISSION, Scope(), asked, faults, about=_about(targets), is_told_by=is_told_by)


def _about(targets: Sequence[Target]) -> str:
    names = [f"{service}/{instance}" if instance else service for service, instance in targets]
    told = f"new work of {listing(names, most=3)}"
    return told if len(told) <= NAME_CHARS else f"new work of {count_text(len(names), 'instance')}"


def _each(targets: Iterable[Target]) -> list[Target]:
    return sorted(set(targets))


def _fault_of(targets: Sequence[Target]) -> str:
    if not 1 <= len(targets) <= TARGETS_MOST:
        return f"are 1 to {TARGETS_MOST}"
    names = [name for target in targets for name in target if name]
    is_named = all(service for service, _ in targets)
    if not is_named or not all(name.isprintable() and len(name) <= NAME_CHARS for name in names):
        return "each say a service, and an instance where one is meant"
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
            detail = f"No {what} has ever reported in {environment}."
            raise Refused("unknown_instance", detail, status=UNKNOWN, fields={"targets": "are not known"})


def _held(environment: str, targets: Sequence[Target]) -> list[WorkPause]:
    named = Q(service__in={service for service, _ in targets})
    wanted = set(targets)
    return [one for one in WorkPause.objects.live(environment).filter(named) if (one.service, one.instance) in wanted]


def _has_expired(one: WorkPause, now: datetime) -> bool:
    return one.expires_at is not None and one.expires_at <= now


def _is_same(one: WorkPause, reason: str, ends: datetime | None, now: datetime) -> bool:
    if one.reason != reason or _has_expired(one, now) or (one.expires_at is None) != (ends is None):
        return False
    return one.expires_at is None or ends is None or abs(one.expires_at - ends) <= SAME_END


def _wish(attempt: Attempt, target: Target, ends: datetime | None, revision: int) -> WorkPause:
    return WorkPause.objects.create(
        environment=attempt.environment,
        service=target[0],
        instance=target[1],
        reason=attempt.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        at=attempt.now,
        expires_at=ends,
        revision=revision,
    )


def _end(one: WorkPause, now: datetime, by: str, reason: str, revision: int) -> None:
    has_expired = _has_expired(one, now)
    one.ended_at = one.expires_at if has_expired else now
    one.ended_by, one.end_revision = by, revision
    one.end_reason = "expired" if has_expired else reason
    one.save(update_fields=["ended_at", "ended_by", "end_reason", "end_revision"])


def _why_not(attempt: Attempt, targets: Sequence[Target]) -> str:
    services = {service for service, _ in targets}
    whole = WorkPause.objects.in_force(attempt.environment, attempt.now).filter(service__in=services, instance="")
    if (held := whole.first()) is not None:
        return f"{held.by} has paused all of {held.service}: “{held.reason}”. Resume the service."
    return "Nobody has paused them: there is nothing to resume."


def _told(one: WorkPause) -> dict[str, object]:
    ends = None if one.expires_at is None else one.expires_at.isoformat(timespec="seconds")
    return {"id": one.pk, "name": one.name, "by": one.by, "reason": one.reason, "expires_at": ends}


def _recalled(entry: AuditEntry) -> Sequence[WorkPause]:
    return list(WorkPause.objects.filter(pk__in=(entry.after or {})["ids"]).order_by("service", "instance"))
