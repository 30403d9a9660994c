"""The machines' door to shedding load: what is shed, and how that begins, is prolonged and ends."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control import documents
from recovery_ops.control.actions.shedding import extend_shed, let_pass, shed
from recovery_ops.control.api.requests import GLASS, WHY, Api, Takes, assumed
from recovery_ops.control.desired import current_revision
from recovery_ops.control.documents import intent as documents_intent
from recovery_ops.control.models import LoadShed

_MORE: dict[str, type] = {"least": object, "expires_in_s": float, "starts_in_s": float, "confirm": str}


class Shed(Api):
    """`/api/v1/shed`: GET what is shed now (null: everything passes) what is to be (`ahead`) and
    what after that (`later`), POST to shed.

    Work of less importance than `least` fails fast until `expires_in_s` is over, an hour where it is not said, and
    begins after `starts_in_s`;
    `confirm` repeats the environment's name. `critical` sheds all work that nobody waits for, unless the policy says
    that a source is more important. A `least` of null lets everything pass again.
    """

    takes = {
        "POST": Takes(WHY | {"least": object, "expires_in_s": float, "starts_in_s": float, "confirm": str} | GLASS)
    }

    def get(self, request: Request) -> Response:
        here = self.environment
        now = timezone.now()
        revision = current_revision(here)
        held = LoadShed.objects.in_force(here, now).first()
        coming = [documents_intent.of_shed(one) for one in LoadShed.objects.live(here).filter(starts_at__gt=now)]
        shown = {
            "shed": None if held is None else documents_intent.of_shed(held),
            "ahead": coming[0] if coming else None,
            "later": coming[1:],
        }
        return self.seen_at(shown, revision)

    def post(self, request: Request) -> Response:
        body = self.body(request)
        asked = self.asked(request, body)
        if "least" in body and body["least"] is None:
            return Response(documents.of_done(let_pass(**asked)))
        more: dict[str, Any] = {name: body[name] for name in _MORE if name in body}
        answer = documents.of_done(shed(**asked, **more))
        return Response(answer | assumed(body))


class ShedExtend(Api):
    """`POST /api/v1/shed/extend`: lets it end `expires_in_s` from now."""

    takes = {"POST": Takes(WHY | {"expires_in_s": float} | GLASS, needed=("reason", "expires_in_s"))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = extend_shed(**self.asked(request, body), expires_in_s=body["expires_in_s"])
        return Response(documents.of_done(done))


class ShedRelease(Api):
    """`POST /api/v1/shed/release`: lets everything pass again, else calls off what is next, or `shed_id`."""

    takes = {"POST": Takes(WHY | {"shed_id": str})}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        return Response(documents.of_done(let_pass(**self.asked(request, body), shed_id=body.get("shed_id", ""))))
