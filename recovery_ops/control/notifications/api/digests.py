"""The machines' door to the digest of a channel: when it is told, and what it would say now."""

from __future__ import annotations

import re
from datetime import datetime, time
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.notifications.digests import next_at, what_is_down
from recovery_ops.control.notifications.models.digests import Digest
from recovery_ops.control.notifications.services.digests import channel_of, set_digest

_WORDS: dict[str, type] = {
    "every": str,
    "weekday": int,
    "at": str,
    "zone": str,
    "tells_calm": bool,
    "is_on": bool,
}
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


class ChannelDigest(ApiView):
    """`/api/v1/notifications/channels/<number>/digest`: GET when it is told and what it would say `now`, PUT to set it.

    `every` is daily or weekly, on `weekday` (0 is Monday), `at` an hour as 08:00 of `zone`; what is not named stays.
    """

    changes_with = "settings"
    takes = {"PUT": BodySpec(COMMAND_FIELDS | _WORDS)}

    def get(self, request: Request, number: int) -> Response:
        channel, now = channel_of(self.environment, number), timezone.now()
        found = Digest.objects.filter(channel=channel).first()
        down = what_is_down(self.environment, now)
        shown = {
            "environment": self.environment,
            "channel": channel.pk,
            "digest": None if found is None else _of_digest(found, now),
            "now": {"is_calm": down.is_calm, "title": down.title, "lines": down.lines},
        }
        return self.tagged(shown, found.version if found else 0)

    def put(self, request: Request, number: int) -> Response:
        body = self.body(request)
        asked: Any = dict(self.asked(request, body))
        asked["version"] = asked.pop("seen", None)
        words: Any = {name: body[name] for name in _WORDS if name in body}
        if "at" in words:
            words["at"] = _clock(words["at"])
        done = set_digest(**asked, **words, number=number)
        told = _of_digest(done.object, timezone.now())
        answer = {"was_already": done.was_already, "dry_run": done.is_dry_run, "digest": told}
        return Response(answer, headers={"ETag": f'"{done.object.version}"'})


def _clock(given: str) -> time:
    if not _CLOCK.fullmatch(given):
        raise CommandRejected(
            "invalid", "at is not a time of day; use 08:00.", fields={"at": "is a time of day such as 08:00"}
        )
    return time.fromisoformat(given)


def _of_digest(one: Digest, now: datetime) -> dict[str, Any]:
    return {
        "every": one.every,
        "weekday": one.weekday,
        "at": f"{one.at:%H:%M}",
        "zone": one.zone,
        "tells_calm": one.tells_calm,
        "is_on": one.is_on,
        "next_at": next_at(one, now).isoformat(timespec="seconds") if one.is_on else None,
        "version": one.version,
        "changed_at": one.changed_at.isoformat(timespec="milliseconds"),
        "changed_by": one.changed_by,
    }
