"""Sheds load: work of less importance than is said fails fast in a whole environment, for a time.

By the rules of overrides: a reason, an end that agents keep by their own clocks, and it can be prolonged or taken back
before. It is laid over the policy and is no part of it, so it waits for nobody's approval and disturbs no rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.db import transaction

from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.services.overrides import SAME_END, is_in_the_way
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core import checks
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.approvals import GatedAction
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.core.revisions import bump_revision, current_revision
from recovery_ops.rules.enums import Importance
from recovery_ops.rules.policy.scope import Scope

_LEASTS = [value for value, _ in LoadShed.LEASTS]
_ABOUT = "load shedding"


class Shedding(CommandContext):
    """What `shed` is given: the least importance that still passes, `critical` where it is not said; for how long, an
    hour where it is not said; and in `confirm` the environment's name, because everybody in it feels it.

    `starts_in_s` puts it off, to begin at a time that is known ahead; it lasts `expires_in_s` from then on.
    """

    least: NotRequired[str]
    expires_in_s: NotRequired[float]
    starts_in_s: NotRequired[float]
    confirm: NotRequired[str]


class Prolonging(CommandContext):
    """What `extend_shed` is given."""

    expires_in_s: Required[float]


def shed(**asked: Unpack[Shedding]) -> CommandResult[LoadShed]:
    """Let whatever is less important than `least` fail at once (`critical`: all that nobody waits for).

    What is shed at the same time, or would be, is replaced; what ends before it begins, or begins after its end, stays.
    Asked for the same twice, the first stays and nothing is written. Raises CommandRejected: 403, 400 by field, and 409
    when it was changed since `seen`, or when what is put off would end what holds now.
    """
    least = asked.get("least", Importance.CRITICAL.value)
    expires_in_s = asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    starts_in_s = asked.get("starts_in_s", 0.0)
    faults = {
        "starts_in_s": checks.start_error(starts_in_s),
        "least": "" if least in _LEASTS else f"is one of {', '.join(_LEASTS)}",
        "expires_in_s": checks.expiry_error(expires_in_s, asked["by"], asked["environment"]),
        "confirm": checks.confirmation_error(asked["environment"], asked),
    }
    more = {"confirm": asked["confirm"]} if "confirm" in asked else {}
    gated_action = GatedAction.of(
        "shed", asked, least=least, expires_in_s=expires_in_s, starts_in_s=starts_in_s, **more
    )

    def is_same_request(entry: AuditEntry) -> bool:
        told = entry.after or {}
        return told.get("least") == least and checks.has_duration(told, expires_in_s)

    command = _attempt("shed", asked, faults, gated_action, is_same_request)

    def write(revision: int) -> Change[LoadShed]:
        resting = list(LoadShed.objects.live(command.environment))
        wish = _wish(command, least, starts_in_s, expires_in_s)
        same = next((one for one in resting if _is_same(one, wish)), None)
        if same is not None:
            return Change(object=same, revision=same.revision, was_already=True)
        command.check_fresh(revision - 1)
        called_off = [one for one in resting if one.starts_at > command.now and is_in_the_way(one, wish, command.now)]
        before = _replaced(resting, wish, command, revision)
        wish.revision = revision
        wish.save(force_insert=True)
        return Change(object=wish, revision=revision, before=before, after=_told(wish), cancelled=called_off)

    return _carried_out(command, write)


def let_pass(*, shed_id: str = "", **asked: Unpack[CommandContext]) -> CommandResult[LoadShed]:
    """Shed no more: end what holds, where nothing does the next that is to begin, or the one of this id.

    What has ended is left as it is. Raises CommandRejected as `shed`, 404 where nothing was ever shed, or not by that
    id.
    """
    command = _attempt("pass", asked)

    def write(revision: int) -> Change[LoadShed]:
        live = LoadShed.objects.live(command.environment)
        held = (live.filter(pk=_known(shed_id, command).pk) if shed_id else live).first()
        if held is None and shed_id:
            last = _known(shed_id, command)
            return Change(object=last, revision=last.end_revision or last.revision, was_already=True)
        if held is None:
            last = _last(command.environment)
            return Change(object=last, revision=last.end_revision or last.revision, was_already=True)
        command.check_fresh(revision - 1)
        before = _told(held)
        _end(held, command, revision, command.reason)
        return Change(object=held, revision=revision, before=before, after={"id": held.pk})

    return _carried_out(command, write)


def extend_shed(**asked: Unpack[Prolonging]) -> CommandResult[LoadShed]:
    """Let it end later: `expires_in_s` from now.

    Raises CommandRejected as `shed`, 400 when it would end sooner, and 409 where nothing is shed.
    """
    expires_in_s = asked["expires_in_s"]
    fault = checks.expiry_error(expires_in_s, asked["by"], asked["environment"])
    gated_action = GatedAction.of("extend_shed", asked, expires_in_s=expires_in_s)
    command = _attempt(
        "extend",
        asked,
        {"expires_in_s": fault},
        gated_action,
        lambda entry: checks.has_duration(entry.after, expires_in_s, since=entry.at),
    )

    def write(revision: int) -> Change[LoadShed]:
        held = LoadShed.objects.in_force(command.environment, command.now).first()
        if held is None:
            raise CommandRejected("ended", "No load shedding is active. Start it first.", status=CONFLICT)
        expires_at = command.now + timedelta(seconds=expires_in_s)
        if abs(expires_at - held.expires_at) <= SAME_END:
            return Change(object=held, revision=held.revision, was_already=True)
        command.check_fresh(revision - 1)
        if expires_at < held.expires_at:
            until = checks.short_time(held.expires_at, command.now)
            checks.raise_for_errors({"expires_in_s": f"is before the current end, {until}"})
        _refuse_to_run_into(held, expires_at, command.now)
        before = _told(held)
        held.expires_at, held.revision = expires_at, revision
        held.save(update_fields=["expires_at", "revision"])
        return Change(object=held, revision=revision, before=before, after=_told(held))

    return _carried_out(command, write)


def end_expired_shed(environment: str, *, now: datetime) -> LoadShed | None:
    """Note that load is shed no more because its time is over. Asked twice, the second finds nothing."""
    by = system_actor("expiry")
    with transaction.atomic():
        audit.lock(environment)
        held = LoadShed.objects.live(environment).filter(expires_at__lte=now).first()
        if held is None:
            return None
        revision = current_revision(environment) + 1
        before = _told(held)
        held.ended_at, held.ended_by, held.end_reason = held.expires_at, by.name, "expired"
        held.end_revision = revision
        held.save(update_fields=["ended_at", "ended_by", "end_reason", "end_revision"])
        deed = audit.AuditRecord(
            verb="load.expire",
            object=_ABOUT,
            reason="expired",
            before=before,
            after={"id": held.pk},
            revision=revision,
        )
        audit.append(environment, deed, by=by, at=now)
        bump_revision(environment, now)
    return held


def _attempt(
    verb: str,
    asked: CommandContext,
    faults: Mapping[str, str] | None = None,
    gated_action: GatedAction | None = None,
    is_same_request: Callable[[AuditEntry], bool] | None = None,
) -> Command:
    return Command.of(
        f"load.{verb}",
        Scope(),
        asked,
        faults,
        about=_ABOUT,
        needs_fresh=gated_action is not None,  # it reaches everybody, as every breaker does; to end it asks for nothing
        gated_action=gated_action,
        is_same_request=is_same_request,
    )


def _carried_out(command: Command, write: Any) -> CommandResult[LoadShed]:
    with command.noted():
        command.check()
        impact = impact_of(command.environment, Scope(), now=command.now)
        return execute(command, write, recall=_recalled, impact=impact)


def _replaced(resting: Sequence[LoadShed], wish: LoadShed, command: Command, revision: int) -> Mapping[str, Any] | None:
    """End what would hold together with a wish; return it as the audit log keeps it. Raises CommandRejected (409)."""
    replaced = [one for one in resting if is_in_the_way(one, wish, command.now)]
    told = [_told(one) for one in replaced]
    for one in replaced:
        _refuse_to_cut(one, wish, command.now)
        _end(one, command, revision, "replaced")
    also = [one.pk for one in replaced[1:]]
    return {**(told[0] or {}), **({"also": also} if also else {})} if told else None


def _refuse_to_cut(held: LoadShed, wish: LoadShed, now: datetime) -> None:
    """Raise Refused (409) when what holds now would be ended for what begins before its end."""
    if held.starts_at <= now < wish.starts_at < held.expires_at:
        detail = (
            f"Load shedding by {held.by} is active until {checks.short_time(held.expires_at, now)}: “{held.reason}”. "
            "Stop it first, or use a later start."
        )
        raise CommandRejected(
            "held", detail, status=CONFLICT, fields={"starts_in_s": "is before the end of the active load shedding"}
        )


def _refuse_to_run_into(held: LoadShed, expires_at: datetime, now: datetime) -> None:
    """Raise Refused (409) when what is prolonged would hold together with what is to begin."""
    first = LoadShed.objects.live(held.environment).filter(starts_at__gt=now, starts_at__lt=expires_at).first()
    if first is not None:
        detail = (
            f"Load shedding by {first.by} starts at {checks.short_time(first.starts_at, now)}: “{first.reason}”. "
            "Use an earlier end, or cancel that schedule first."
        )
        raise CommandRejected(
            "held",
            detail,
            status=CONFLICT,
            fields={"expires_in_s": "is after the start of the scheduled load shedding"},
        )


def _wish(command: Command, least: str, starts_in_s: float, expires_in_s: float) -> LoadShed:
    starts_at = command.now + timedelta(seconds=starts_in_s)
    return LoadShed(
        environment=command.environment,
        least=least,
        reason=command.reason,
        by_user_id=command.by.user_id,
        by=command.by.name,
        starts_at=starts_at,
        expires_at=starts_at + timedelta(seconds=expires_in_s),
    )


def _is_same(held: LoadShed, wish: LoadShed) -> bool:
    # Two that hold at once begin alike, whenever they were asked for.
    begin_alike = abs(held.starts_at - wish.starts_at) <= SAME_END or held.starts_at <= wish.starts_at
    is_alike = (held.least, held.reason) == (wish.least, wish.reason) and begin_alike
    return is_alike and abs(held.expires_at - wish.expires_at) <= SAME_END


def _end(held: LoadShed, command: Command, revision: int, reason: str) -> None:
    has_expired = held.expires_at <= command.now
    held.ended_at = held.expires_at if has_expired else command.now
    held.ended_by, held.end_revision = command.by.name, revision
    held.end_reason = "expired" if has_expired else reason
    held.save(update_fields=["ended_at", "ended_by", "end_reason", "end_revision"])


def _known(shed_id: str, command: Command) -> LoadShed:
    found = LoadShed.objects.filter(environment=command.environment, pk=shed_id).first()
    if found is None:
        detail = f"Load shedding {shed_id} does not exist in {command.environment}."
        raise CommandRejected("nothing_shed", detail, status=NOT_FOUND, fields={"shed_id": "does not exist"})
    return found


def _last(environment: str) -> LoadShed:
    last = LoadShed.objects.filter(environment=environment).order_by("-revision").first()
    if last is None:
        raise CommandRejected("nothing_shed", f"No load shedding exists in {environment}.", status=NOT_FOUND)
    return last


def _recalled(entry: AuditEntry) -> LoadShed:
    return LoadShed.objects.get(pk=entry.after["id"])


def _told(held: LoadShed | None) -> Mapping[str, Any] | None:
    """As the audit log keeps it."""
    if held is None:
        return None
    return {
        "id": held.pk,
        "least": held.least,
        "by": held.by,
        "reason": held.reason,
        "starts_at": held.starts_at.isoformat(timespec="seconds"),
        "expires_at": held.expires_at.isoformat(timespec="seconds"),
    }
