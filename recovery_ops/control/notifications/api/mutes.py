"""The machines' door to notices that are held back: whose are, and how that begins and is lifted."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.muting import counts_held
from recovery_ops.control.notifications.serializers import mute_document
from recovery_ops.control.notifications.services.muting import lift, snooze


class Snoozes(ApiView):
    """`/api/v1/notifications/snoozes`: GET whose notices are held back, of how many things; POST to hold them back.

    `provider` is one that calls of the last day named; it lasts `expires_in_s`, an hour where that is not said, and so
    long from now where it holds already.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"provider": str, "expires_in_s": float}, needed=("provider",))}

    def get(self, request: Request) -> Response:
        found = list(NoticeSnooze.objects.in_force(self.environment, timezone.now()))
        held = counts_held(found)
        rows = [mute_document(one, held.get(one.pk, 0)) for one in found]
        return Response({"environment": self.environment, "snoozes": rows})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        more = {"expires_in_s": body["expires_in_s"]} if "expires_in_s" in body else {}
        return _answer(snooze(**_asked(self, request, body), provider=body["provider"], **more))


class LiftSnooze(ApiView):
    """`POST /api/v1/notifications/snoozes/<number>/lift`: tell of the provider again, and of what was held back."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        return _answer(lift(**_asked(self, request, self.body(request)), number=number))


def _asked(door: ApiView, request: Request, body: Any) -> Any:
    asked = dict(door.asked(request, body))
    asked.pop("seen", None)  # it has no version: what holds last counts
    return asked


def _answer(done: CommandResult[NoticeSnooze]) -> Response:
    told = mute_document(done.object, counts_held([done.object]).get(done.object.pk, 0) if done.object.pk else 0)
    return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "snooze": told})
