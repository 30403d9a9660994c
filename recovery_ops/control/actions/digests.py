"""The digest of a channel: set to an hour, to another, or switched off."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time
from typing import Any, NotRequired, Required, Unpack
from zoneinfo import available_timezones

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.notifying import PERMISSION
from recovery_ops.control.models import Channel, Digest
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.rules.digests import Every
from recovery_ops.rules.scope import Scope

_NOT_FOR = {
    Channel.PEOPLE: "writes to whom a chain names; a digest names nobody",
    Channel.PAGERDUTY: "opens an incident for each message; a digest ends nothing",
}


class SettingDigest(Asked):
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


def set_digest(**asked: Unpack[SettingDigest]) -> Done[Digest]:
    """Set the digest of a channel; what is not named stays, or is as usual where there was none.

    Raises Refused: 403, 404, 400 by field, also for a channel that can have none, 409 when somebody changed it.
    """
    channel = channel_of(asked["environment"], asked["number"])
    found = Digest.objects.filter(channel=channel).first()
    wanted = {name: asked.get(name, getattr(found, name) if found else usual) for name, usual in _DEFAULTS.items()}
    given: Any = {**asked, "seen": None}
    attempt = Attempt.of(
        *("digest.save", PERMISSION, Scope(), given, _faults(channel, wanted)),
        about=f"the digest of {channel.name}",
        is_for_agents=False,
    )

    def write(revision: int) -> Step[Digest]:
        one = Digest.objects.filter(channel=channel).first()
        version = asked.get("version")
        if version is not None and version != (one.version if one else 0):
            who = f"{one.changed_by} changed it at {one.changed_at:%H:%M:%S} UTC" if one else "There is none"
            raise Refused("stale", f"{who}. Look again, then decide.", status=STALE)
        before = _told(one) if one else None
        if one is not None and all(getattr(one, name) == value for name, value in wanted.items()):
            return Step(object=one, revision=revision, was_already=True)
        made = one or Digest(environment=attempt.environment, channel=channel, version=0)
        for name, value in wanted.items():
            setattr(made, name, value)
        made.since, made.changed_at, made.changed_by = attempt.now, attempt.now, attempt.by.name
        made.version += 1
        made.save()
        return Step(object=made, revision=revision, before=before, after=_told(made))

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: Digest.objects.get(pk=entry.after["id"]))


def channel_of(environment: str, number: int) -> Channel:
    """The channel of this number. Raises Refused (404)."""
    found = Channel.objects.filter(environment=environment, pk=number, removed_at=None).first()
    if found is None:
        detail = f"There is no channel {number} in {environment}; it may have been removed."
        raise Refused("unknown_channel", detail, status=UNKNOWN)
    return found


def _faults(channel: Channel, wanted: Mapping[str, Any]) -> dict[str, str]:
    weekday = wanted["weekday"]
    is_day = isinstance(weekday, int) and not isinstance(weekday, bool) and 0 <= weekday <= 6
    return {
        "channel": _NOT_FOR.get(channel.kind, ""),
        "every": "" if wanted["every"] in set(Every) else f"is one of {', '.join(Every)}",
        "at": "" if isinstance(wanted["at"], time) else "is a time of day, as 08:00",
        "weekday": "" if is_day else "is a day of the week, from 0 for Monday to 6",
        "zone": "" if wanted["zone"] in available_timezones() else "is a zone such as Europe/Rome",
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
