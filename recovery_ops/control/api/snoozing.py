"""The machines' door to notices that are held back: whose are, and how that begins and is lifted."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.actions import Done
from recovery_ops.control.actions.snoozing import lift, snooze
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.documents.notifications import of_snooze
from recovery_ops.control.models import NoticeSnooze
from recovery_ops.control.notify.snoozing import counts_held


class Snoozes(Api):
    """`/api/v1/notifications/snoozes`: GET whose notices are held back, of how many things; POST to hold them back.

    `provider` is one that calls of the last day named; it lasts `expires_in_s`, an hour where that is not said, and so
    long from now where it holds already.
    """

    takes = {"POST": Takes(WHY | {"provider": str, "expires_in_s": float}, needed=("reason", "provider"))}

    def get(self, request: Request) -> Response:
        found = list(NoticeSnooze.objects.in_force(self.environment, timezone.now()))
        held = counts_held(found)
        rows = [of_snooze(one, held.get(one.pk, 0)) for one in found]
        return Response({"environment": self.environment, "snoozes": rows})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        more = {"expires_in_s": body["expires_in_s"]} if "expires_in_s" in body else {}
        return _answer(snooze(**_asked(self, request, body), provider=body["provider"], **more))


class LiftSnooze(Api):
    """`POST /api/v1/notifications/snoozes/<number>/lift`: tell of the provider again, and of what was held back."""

    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, number: int) -> Response:
        return _answer(lift(**_asked(self, request, self.body(request)), number=number))


def _asked(door: Api, request: Request, body: Any) -> Any:
    asked = dict(door.asked(request, body))
    asked.pop("seen", None)  # it has no version: what holds last counts
    return asked


def _answer(done: Done[NoticeSnooze]) -> Response:
    told = of_snooze(done.object, counts_held([done.object]).get(done.object.pk, 0) if done.object.pk else 0)
    return Response({"was_already": done.was_already, "dry_run": done.is_dry_run, "snooze": told})
