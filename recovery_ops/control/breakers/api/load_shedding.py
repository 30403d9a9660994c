"""The machines' door to shedding load: what is shed, and how that begins, is prolonged and ends."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.breakers import serializers as documents_intent
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.services.load_shedding import extend_shed, let_pass, shed
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.requests import (
    BREAK_GLASS_FIELDS,
    COMMAND_FIELDS,
    ApiView,
    BodySpec,
    assumed_defaults,
)
from recovery_ops.control.core.revisions import current_revision

_MORE: dict[str, type] = {"least": object, "expires_in_s": float, "starts_in_s": float, "confirm": str}


class Shed(ApiView):
    """`/api/v1/shed`: GET what is shed now (null: everything passes) what is to be (`ahead`) and
    what after that (`later`), POST to shed.

    Work of less importance than `least` fails fast until `expires_in_s` is over, an hour where it is not said, and
    begins after `starts_in_s`;
    `confirm` repeats the environment's name. `critical` sheds all work that nobody waits for, unless the policy says
    that a source is more important. A `least` of null lets everything pass again.
    """

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS
            | {"least": object, "expires_in_s": float, "starts_in_s": float, "confirm": str}
            | BREAK_GLASS_FIELDS
        )
    }

    def get(self, request: Request) -> Response:
        here = self.environment
        now = timezone.now()
        revision = current_revision(here)
        held = LoadShed.objects.in_force(here, now).first()
        coming = [
            documents_intent.load_shed_document(one) for one in LoadShed.objects.live(here).filter(starts_at__gt=now)
        ]
        shown = {
            "shed": None if held is None else documents_intent.load_shed_document(held),
            "ahead": coming[0] if coming else None,
            "later": coming[1:],
        }
        return self.seen_at(shown, revision)

    def post(self, request: Request) -> Response:
        body = self.body(request)
        asked = self.asked(request, body)
        if "least" in body and body["least"] is None:
            return Response(documents.result_document(let_pass(**asked)))
        more: dict[str, Any] = {name: body[name] for name in _MORE if name in body}
        answer = documents.result_document(shed(**asked, **more))
        return Response(answer | assumed_defaults(body))


class ShedExtend(ApiView):
    """`POST /api/v1/shed/extend`: lets it end `expires_in_s` from now."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"expires_in_s": float} | BREAK_GLASS_FIELDS, needed=("expires_in_s",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = extend_shed(**self.asked(request, body), expires_in_s=body["expires_in_s"])
        return Response(documents.result_document(done))


class ShedRelease(ApiView):
    """`POST /api/v1/shed/release`: lets everything pass again, else calls off what is next, or `shed_id`."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"shed_id": str})}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        return Response(
            documents.result_document(let_pass(**self.asked(request, body), shed_id=body.get("shed_id", "")))
        )
