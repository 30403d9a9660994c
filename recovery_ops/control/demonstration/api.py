"""The demonstration for programs: its state, and its removal."""

from __future__ import annotations

from typing import Any, cast

from rest_framework.request import Request
from rest_framework.response import Response

from events.store.removal import count_events
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.serializers import Document, utc_text
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.demonstration.selectors import demonstration_of
from recovery_ops.control.demonstration.services import remove_demonstration


class DemonstrationState(ApiView):
    """`GET /api/v1/demonstration`: its generated hour, the number of its events, its removal."""

    def get(self, request: Request) -> Response:
        found = demonstration_of(self.environment)
        if found is None:
            raise CommandRejected(
                "unknown_demonstration", f"{self.environment} has no demonstration.", status=NOT_FOUND
            )
        return Response(_document(found))


class DemonstrationRemoval(ApiView):
    """`POST /api/v1/demonstration/remove`: stop it and delete all data of its environment; `confirm` is its name.

    Keys of the environment are revoked at once; the data is deleted within a minute.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"confirm": str}, needed=("confirm",))}
    changes_with = "admin"

    def post(self, request: Request) -> Response:
        body = self.body(request)
        asked: dict[str, Any] = {**self.asked(request, body), "confirm": body["confirm"]}
        done = remove_demonstration(**cast(Any, asked))
        answer = {"was_already": done.was_already, "dry_run": done.is_dry_run, **_document(done.object)}
        return Response(answer)


def _document(one: Demonstration) -> Document:
    return {
        "environment": one.environment,
        "history_start": utc_text(one.history_start),
        "history_end": utc_text(one.history_end),
        "events": count_events(one.environment),
        "removed_at": utc_text(one.removed_at),
        "emptied_at": utc_text(one.emptied_at),
    }
