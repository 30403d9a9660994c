"""The digest of a channel: set to an hour, to another, or switched off."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time
from typing import Any, NotRequired, Required, Unpack
from zoneinfo import available_timezones

from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.notifications.models.digests import Digest
from recovery_ops.control.notifications.models.notifications import Channel
from recovery_ops.rules.notifications.digests import Every
from recovery_ops.rules.policy.scope import Scope

_NOT_FOR = {
    Channel.PEOPLE: "sends to users of an escalation policy; a digest has no users",
    Channel.PAGERDUTY: "opens an incident per message; a digest has no end",
}


class SettingDigest(CommandContext):
    """What it is given: the channel's number, and when. `version` is the one the asker looked at, 0 for none."""

    number: Required[int]
    every: NotRequired[str]
    at: NotRequired[time]
    weekday: NotRequired[int]
    zone: NotRequired[str]
    tells_calm: NotRequired[bool]
    is_on: NotRequired[bool]
    version: NotRequired[int | None]


_DEFAULTS: Mapping[str, Any] = {
    "every": Every.DAILY.value,
    "at": time(8),
    "weekday": 0,
    "zone": "UTC",
    "tells_calm": False,
    "is_on": True,
}


def set_digest(**asked: Unpack[SettingDigest]) -> CommandResult[Digest]:
    """Set the digest of a channel; what is not named stays, or is as usual where there was none.

    Raises CommandRejected: 403, 404, 400 by field, also for a channel that can have none, 409 when somebody changed it.
    """
    channel = channel_of(asked["environment"], asked["number"])
    found = Digest.objects.filter(channel=channel).first()
    wanted = {name: asked.get(name, getattr(found, name) if found else usual) for name, usual in _DEFAULTS.items()}
    given: Any = {**asked, "seen": None}
    command = Command.of(
        *("digest.save", Scope(), given, _faults(channel, wanted)),
        about=f"the digest of {channel.name}",
    )

    def write(revision: int) -> Change[Digest]:
        one = Digest.objects.filter(channel=channel).first()
        version = asked.get("version")
        if version is not None and version != (one.version if one else 0):
            who = (
                f"{one.changed_by} changed it at {one.changed_at:%H:%M:%S} UTC" if one else "The digest does not exist"
            )
            raise CommandRejected("stale", f"{who}. Reload, then decide.", status=CONFLICT)
        before = _told(one) if one else None
        if one is not None and all(getattr(one, name) == value for name, value in wanted.items()):
            return Change(object=one, revision=revision, was_already=True)
        made = one or Digest(environment=command.environment, channel=channel, version=0)
        for name, value in wanted.items():
            setattr(made, name, value)
        made.since, made.changed_at, made.changed_by = command.now, command.now, command.by.name
        made.version += 1
        made.save()
        return Change(object=made, revision=revision, before=before, after=_told(made))

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: Digest.objects.get(pk=entry.after["id"]))


def channel_of(environment: str, number: int) -> Channel:
    """The channel of this number. Raises CommandRejected (404)."""
    found = Channel.objects.filter(environment=environment, pk=number, removed_at=None).first()
    if found is None:
        detail = f"Channel {number} does not exist in {environment}."
        raise CommandRejected("unknown_channel", detail, status=NOT_FOUND)
    return found


def _faults(channel: Channel, wanted: Mapping[str, Any]) -> dict[str, str]:
    weekday = wanted["weekday"]
    is_day = isinstance(weekday, int) and not isinstance(weekday, bool) and 0 <= weekday <= 6
    return {
        "channel": _NOT_FOR.get(channel.kind, ""),
        "every": "" if wanted["every"] in set(Every) else f"is one of {', '.join(Every)}",
        "at": "" if isinstance(wanted["at"], time) else "is a time of day such as 08:00",
        "weekday": "" if is_day else "is a day of the week, from 0 for Monday to 6",
        "zone": "" if wanted["zone"] in available_timezones() else "is not a time zone; use Europe/Rome",
    }


def _told(one: Digest) -> Mapping[str, Any]:
    return {
        "id": one.pk,
        "channel": one.channel.name,
        "every": one.every,
        "weekday": one.weekday,
        "at": f"{one.at:%H:%M}",
        "zone": one.zone,
        "tells_calm": one.tells_calm,
        "is_on": one.is_on,
    }
