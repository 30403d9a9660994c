"""Holding back the notices of one provider's trouble for a time, and lifting that; nothing of them is lost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NotRequired, Required, Unpack

from events.queries.breakers import providers_of
from recovery_ops.control.core import checks
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "snooze_notices"


class Snoozing(CommandContext):
    """What `snooze` is given: the provider, and for how long, an hour where it is not said."""

    provider: Required[str]
    expires_in_s: NotRequired[float]


class Lifting(CommandContext):
    """What `lift` is given."""

    number: Required[int]


def snooze(**asked: Unpack[Snoozing]) -> CommandResult[NoticeSnooze]:
    """Hold back the notices of a provider. Where they are held back already, until another moment and for this reason.

    Raises CommandRejected: 403, 400 by field, 404 for a provider that no call of the last day named.
    """
    provider = asked["provider"].strip()
    expires_in_s = asked.get("expires_in_s", checks.DEFAULT_EXPIRY_S)
    faults = {"expires_in_s": checks.expiry_error(expires_in_s, asked["by"], asked["environment"])}
    command = _attempt("notices.snooze", asked, faults, provider)

    def write(revision: int) -> Change[NoticeSnooze]:
        if provider not in providers_known(command.environment, command.now):
            detail = f"Provider {provider} has no calls in the last day; check its name."
            raise CommandRejected("unknown_provider", detail, status=NOT_FOUND, fields={"provider": "is unknown"})
        live = NoticeSnooze.objects.filter(environment=command.environment, provider=provider, ended_at=None).first()
        before = None if live is None or not live.holds_at(command.now) else _told(live)
        if live is not None and before is None:  # its time was over, and nobody had to note that
            live.ended_at, live.ended_by = live.expires_at, ""
            live.save(update_fields=["ended_at", "ended_by"])
            live = None
        one = live or NoticeSnooze(environment=command.environment, provider=provider, started_at=command.now)
        one.expires_at = command.now + timedelta(seconds=expires_in_s)
        one.reason, one.by, one.by_user_id = command.reason, command.by.name, command.by.user_id
        one.save()
        return Change(object=one, revision=revision, before=before, after=_told(one))

    return _carried_out(command, write)


def lift(**asked: Unpack[Lifting]) -> CommandResult[NoticeSnooze]:
    """Hold nothing back any more: what was is told now.

    Raises CommandRejected: 403, 404; one that is over is left as it is.
    """
    found = _must(asked["environment"], asked["number"])
    command = _attempt("notices.lift", asked, {}, found.provider)

    def write(revision: int) -> Change[NoticeSnooze]:
        one = NoticeSnooze.objects.get(pk=found.pk)
        if not one.holds_at(command.now):
            return Change(object=one, revision=revision, was_already=True)
        before = _told(one)
        one.ended_at, one.ended_by = command.now, command.by.name
        one.save(update_fields=["ended_at", "ended_by"])
        return Change(object=one, revision=revision, before=before, after={"id": one.pk})

    return _carried_out(command, write)


def providers_known(environment: str, now: datetime) -> list[str]:
    """The providers that calls of the last day named. One query."""
    return sorted({name for several in providers_of(environment, now=now).values() for name in several})


def _attempt(verb: str, asked: Any, faults: Mapping[str, str], provider: str) -> Command:
    return Command.of(verb, Scope(), asked, faults, about=f"messages of {provider[:200]}")


def _carried_out(command: Command, write: Any) -> CommandResult[NoticeSnooze]:
    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def _recalled(entry: AuditEntry) -> NoticeSnooze:
    return NoticeSnooze.objects.get(pk=entry.after["id"])


def _must(environment: str, number: int) -> NoticeSnooze:
    found = NoticeSnooze.objects.filter(environment=environment, pk=number).first()
    if found is None:
        detail = f"Mute {number} does not exist in {environment}."
        raise CommandRejected("unknown", detail, status=NOT_FOUND, fields={"number": "is unknown"})
    return found


def _told(one: NoticeSnooze) -> Mapping[str, Any]:
    return {
        "id": one.pk,
        "provider": one.provider,
        "started_at": one.started_at.isoformat(timespec="seconds"),
        "expires_at": one.expires_at.isoformat(timespec="seconds"),
    }
