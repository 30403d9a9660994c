"""Holding back the notices of one provider's trouble for a time, and lifting that; nothing of them is lost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from events.queries.breakers import providers_of
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.models import AuditEntry, NoticeSnooze
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

PERMISSION = "snooze_notices"


class Snoozing(Asked):
    """What `snooze` is given: the provider, and for how long, an hour where it is not said."""

    provider: Required[str]
    expires_in_s: NotRequired[float]


class Lifting(Asked):
    """What `lift` is given."""

    number: Required[int]


def snooze(**asked: Unpack[Snoozing]) -> Done[NoticeSnooze]:
    """Hold back the notices of a provider. Where they are held back already, until another moment and for this reason.

    Raises Refused: 403, 400 by field, 404 for a provider that no call of the last day named.
    """
    provider = asked["provider"].strip()
    expires_in_s = asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    faults = {"expires_in_s": checks.fault_of_expiry(expires_in_s, asked["by"], asked["environment"])}
    attempt = _attempt("notices.snooze", asked, faults, provider)

    def write(revision: int) -> Step[NoticeSnooze]:
        if provider not in providers_known(attempt.environment, attempt.now):
            detail = f"No call of the last day named a provider {provider}; its name is as agents tell it."
            raise Refused("unknown_provider", detail, status=UNKNOWN, fields={"provider": "is not known"})
        live = NoticeSnooze.objects.filter(environment=attempt.environment, provider=provider, ended_at=None).first()
        before = None if live is None or not live.holds_at(attempt.now) else _told(live)
        if live is not None and before is None:  # its time was over, and nobody had to note that
            live.ended_at, live.ended_by = live.expires_at, ""
            live.save(update_fields=["ended_at", "ended_by"])
            live = None
        one = live or NoticeSnooze(environment=attempt.environment, provider=provider, started_at=attempt.now)
        one.expires_at = attempt.now + timedelta(seconds=expires_in_s)
        one.reason, one.by, one.by_user_id = attempt.reason, attempt.by.name, attempt.by.user_id
        one.save()
        return Step(object=one, revision=revision, before=before, after=_told(one))

    return _carried_out(attempt, write)


def lift(**asked: Unpack[Lifting]) -> Done[NoticeSnooze]:
    """Hold nothing back any more: what was is told now. Raises Refused: 403, 404; one that is over is left as it is."""
    found = _must(asked["environment"], asked["number"])
    attempt = _attempt("notices.lift", asked, {}, found.provider)

    def write(revision: int) -> Step[NoticeSnooze]:
        one = NoticeSnooze.objects.get(pk=found.pk)
        if not one.holds_at(attempt.now):
            return Step(object=one, revision=revision, was_already=True)
        before = _told(one)
        one.ended_at, one.ended_by = attempt.now, attempt.by.name
        one.save(update_fields=["ended_at", "ended_by"])
        return Step(object=one, revision=revision, before=before, after={"id": one.pk})

    return _carried_out(attempt, write)


def providers_known(environment: str, now: datetime) -> list[str]:
    """The providers that calls of the last day named. One query."""
    return sorted({name for several in providers_of(environment, now=now).values() for name in several})


def _attempt(verb: str, asked: Any, faults: Mapping[str, str], provider: str) -> Attempt:
    return Attempt.of(
        verb, PERMISSION, Scope(), asked, faults, about=f"notices of {provider[:200]}", is_for_agents=False
    )


def _carried_out(attempt: Attempt, write: Any) -> Done[NoticeSnooze]:
    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> NoticeSnooze:
    return NoticeSnooze.objects.get(pk=entry.after["id"])


def _must(environment: str, number: int) -> NoticeSnooze:
    found = NoticeSnooze.objects.filter(environment=environment, pk=number).first()
    if found is None:
        detail = f"There is no snooze {number} of notices in {environment}."
        raise Refused("unknown", detail, status=UNKNOWN, fields={"number": "is not known"})
    return found


def _told(one: NoticeSnooze) -> Mapping[str, Any]:
    return {
        "id": one.pk,
        "provider": one.provider,
        "started_at": one.started_at.isoformat(timespec="seconds"),
        "expires_at": one.expires_at.isoformat(timespec="seconds"),
    }
