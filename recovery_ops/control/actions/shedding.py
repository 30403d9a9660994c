"""Sheds load: work of less importance than is said fails fast in a whole environment, for a time.

By the rules of overrides: a reason, an end that agents keep by their own clocks, and it can be prolonged or taken back
before. It is laid over the policy and is no part of it, so it waits for nobody's approval and disturbs no rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from django.db import transaction

from recovery_ops.control import audit
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, bump, carry_out
from recovery_ops.control.actions.holding import Grave
from recovery_ops.control.actions.overrides import SAME_END, is_in_the_way
from recovery_ops.control.actors import system
from recovery_ops.control.desired import current_revision
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import AuditEntry, LoadShed
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.words import Importance

_LEASTS = [value for value, _ in LoadShed.LEASTS]
_ABOUT = "less important work"


class Shedding(Asked):
    """What `shed` is given: the least importance that still passes, `critical` where it is not said; for how long, an
    hour where it is not said; and in `confirm` the environment's name, because everybody in it feels it.

    `starts_in_s` puts it off, to begin at a time that is known ahead; it lasts `expires_in_s` from then on.
    """

    least: NotRequired[str]
    expires_in_s: NotRequired[float]
    starts_in_s: NotRequired[float]
    confirm: NotRequired[str]


class Prolonging(Asked):
    """What `extend_shed` is given."""

    expires_in_s: Required[float]


def shed(**asked: Unpack[Shedding]) -> Done[LoadShed]:
    """Let whatever is less important than `least` fail at once (`critical`: all that nobody waits for).

    What is shed at the same time, or would be, is replaced; what ends before it begins, or begins after its end, stays.
    Asked for the same twice, the first stays and nothing is written. Raises Refused: 403, 400 by field, and 409 when it
    was changed since `seen`, or when what is put off would end what holds now.
    """
    least = asked.get("least", Importance.CRITICAL.value)
    expires_in_s = asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    starts_in_s = asked.get("starts_in_s", 0.0)
    faults = {
        "starts_in_s": checks.fault_of_start(starts_in_s),
        "least": "" if least in _LEASTS else f"is one of {', '.join(_LEASTS)}",
        "expires_in_s": checks.fault_of_expiry(expires_in_s, asked["by"], asked["environment"]),
        "confirm": checks.fault_of_confirmation(asked["environment"], asked),
    }
    more = {"confirm": asked["confirm"]} if "confirm" in asked else {}
    grave = Grave.of("shed", asked, least=least, expires_in_s=expires_in_s, starts_in_s=starts_in_s, **more)

    def is_told_by(entry: AuditEntry) -> bool:
        told = entry.after or {}
        return told.get("least") == least and checks.is_length_of(told, expires_in_s)

    attempt = _attempt("shed", asked, faults, grave, is_told_by)

    def write(revision: int) -> Step[LoadShed]:
        resting = list(LoadShed.objects.live(attempt.environment))
        wish = _wish(attempt, least, starts_in_s, expires_in_s)
        same = next((one for one in resting if _is_same(one, wish)), None)
        if same is not None:
            return Step(object=same, revision=same.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        called_off = [one for one in resting if one.starts_at > attempt.now and is_in_the_way(one, wish, attempt.now)]
        before = _replaced(resting, wish, attempt, revision)
        wish.revision = revision
        wish.save(force_insert=True)
        return Step(object=wish, revision=revision, before=before, after=_told(wish), called_off=called_off)

    return _carried_out(attempt, write)


def let_pass(*, shed_id: str = "", **asked: Unpack[Asked]) -> Done[LoadShed]:
    """Shed no more: end what holds, where nothing does the next that is to begin, or the one of this id.

    What has ended is left as it is. Raises Refused as `shed`, 404 where nothing was ever shed, or not by that id.
    """
    attempt = _attempt("pass", asked)

    def write(revision: int) -> Step[LoadShed]:
        live = LoadShed.objects.live(attempt.environment)
        held = (live.filter(pk=_known(shed_id, attempt).pk) if shed_id else live).first()
        if held is None and shed_id:
            last = _known(shed_id, attempt)
            return Step(object=last, revision=last.end_revision or last.revision, was_already=True)
        if held is None:
            last = _last(attempt.environment)
            return Step(object=last, revision=last.end_revision or last.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        before = _told(held)
        _end(held, attempt, revision, attempt.reason)
        return Step(object=held, revision=revision, before=before, after={"id": held.pk})

    return _carried_out(attempt, write)


def extend_shed(**asked: Unpack[Prolonging]) -> Done[LoadShed]:
    """Let it end later: `expires_in_s` from now.

    Raises Refused as `shed`, 400 when it would end sooner, and 409 where nothing is shed.
    """
    expires_in_s = asked["expires_in_s"]
    fault = checks.fault_of_expiry(expires_in_s, asked["by"], asked["environment"])
    grave = Grave.of("extend_shed", asked, expires_in_s=expires_in_s)
    attempt = _attempt(
        "extend",
        asked,
        {"expires_in_s": fault},
        grave,
        lambda entry: checks.is_length_of(entry.after, expires_in_s, since=entry.at),
    )

    def write(revision: int) -> Step[LoadShed]:
        held = LoadShed.objects.in_force(attempt.environment, attempt.now).first()
        if held is None:
            raise Refused("ended", "No load is shed, so there is nothing to extend. Shed it again.", status=STALE)
        expires_at = attempt.now + timedelta(seconds=expires_in_s)
        if abs(expires_at - held.expires_at) <= SAME_END:
            return Step(object=held, revision=held.revision, was_already=True)
        attempt.check_fresh(revision - 1)
        if expires_at < held.expires_at:
            until = checks.moment_of(held.expires_at, attempt.now)
            checks.refuse({"expires_in_s": f"would end it sooner: it lasts until {until}"})
        _refuse_to_run_into(held, expires_at, attempt.now)
        before = _told(held)
        held.expires_at, held.revision = expires_at, revision
        held.save(update_fields=["expires_at", "revision"])
        return Step(object=held, revision=revision, before=before, after=_told(held))

    return _carried_out(attempt, write)


def end_expired_shed(environment: str, *, now: datetime) -> LoadShed | None:
    """Note that load is shed no more because its time is over. Asked twice, the second finds nothing."""
    by = system("expiry")
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
        deed = audit.Deed(
            verb="load.expire",
            object=_ABOUT,
            reason="its time was over",
            before=before,
            after={"id": held.pk},
            revision=revision,
        )
        audit.append(environment, deed, by=by, at=now)
        bump(environment, now)
    return held


def _attempt(
    verb: str,
    asked: Asked,
    faults: Mapping[str, str] | None = None,
    grave: Grave | None = None,
    is_told_by: Callable[[AuditEntry], bool] | None = None,
) -> Attempt:
    return Attempt.of(
        f"load.{verb}",
        "shed",
        Scope(),
        asked,
        faults,
        about=_ABOUT,
        needs_fresh=grave is not None,  # it reaches everybody, as every breaker does; to end it asks for nothing
        grave=grave,
        is_told_by=is_told_by,
    )


def _carried_out(attempt: Attempt, write: Any) -> Done[LoadShed]:
    with attempt.noted():
        attempt.check()
        impact = impact_of(attempt.environment, Scope(), now=attempt.now)
        return carry_out(attempt, write, recall=_recalled, impact=impact)


def _replaced(resting: Sequence[LoadShed], wish: LoadShed, attempt: Attempt, revision: int) -> Mapping[str, Any] | None:
    """End what would hold together with a wish; return it as the audit log keeps it. Raises Refused (409)."""
    replaced = [one for one in resting if is_in_the_way(one, wish, attempt.now)]
    told = [_told(one) for one in replaced]
    for one in replaced:
        _refuse_to_cut(one, wish, attempt.now)
        _end(one, attempt, revision, "replaced")
    also = [one.pk for one in replaced[1:]]
    return {**(told[0] or {}), **({"also": also} if also else {})} if told else None


def _refuse_to_cut(held: LoadShed, wish: LoadShed, now: datetime) -> None:
    """Raise Refused (409) when what holds now would be ended for what begins before its end."""
    if held.starts_at <= now < wish.starts_at < held.expires_at:
        detail = (
            f"{held.by} sheds load until {checks.moment_of(held.expires_at, now)}: “{held.reason}”. What begins before "
            "that would end it now. Let everything pass first, or let yours begin later."
        )
        raise Refused("held", detail, status=STALE, fields={"starts_in_s": "would end what is shed now"})


def _refuse_to_run_into(held: LoadShed, expires_at: datetime, now: datetime) -> None:
    """Raise Refused (409) when what is prolonged would hold together with what is to begin."""
    first = LoadShed.objects.live(held.environment).filter(starts_at__gt=now, starts_at__lt=expires_at).first()
    if first is not None:
        detail = (
            f"{first.by} sheds load from {checks.moment_of(first.starts_at, now)} on: “{first.reason}”. Extend this "
            "until then at most, or call that off first."
        )
        raise Refused("held", detail, status=STALE, fields={"expires_in_s": "is after the beginning of the next one"})


def _wish(attempt: Attempt, least: str, starts_in_s: float, expires_in_s: float) -> LoadShed:
    starts_at = attempt.now + timedelta(seconds=starts_in_s)
    return LoadShed(
        environment=attempt.environment,
        least=least,
        reason=attempt.reason,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        starts_at=starts_at,
        expires_at=starts_at + timedelta(seconds=expires_in_s),
    )


def _is_same(held: LoadShed, wish: LoadShed) -> bool:
    # Two that hold at once begin alike, whenever they were asked for.
    begin_alike = abs(held.starts_at - wish.starts_at) <= SAME_END or held.starts_at <= wish.starts_at
    is_alike = (held.least, held.reason) == (wish.least, wish.reason) and begin_alike
    return is_alike and abs(held.expires_at - wish.expires_at) <= SAME_END


def _end(held: LoadShed, attempt: Attempt, revision: int, reason: str) -> None:
    has_expired = held.expires_at <= attempt.now
    held.ended_at = held.expires_at if has_expired else attempt.now
    held.ended_by, held.end_revision = attempt.by.name, revision
    held.end_reason = "expired" if has_expired else reason
    held.save(update_fields=["ended_at", "ended_by", "end_reason", "end_revision"])


def _known(shed_id: str, attempt: Attempt) -> LoadShed:
    found = LoadShed.objects.filter(environment=attempt.environment, pk=shed_id).first()
    if found is None:
        detail = f"No load was ever shed in {attempt.environment} by the id {shed_id}."
        raise Refused("nothing_shed", detail, status=UNKNOWN, fields={"shed_id": "is not known"})
    return found


def _last(environment: str) -> LoadShed:
    last = LoadShed.objects.filter(environment=environment).order_by("-revision").first()
    if last is None:
        raise Refused("nothing_shed", f"No load was ever shed in {environment}: everything passes.", status=UNKNOWN)
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
