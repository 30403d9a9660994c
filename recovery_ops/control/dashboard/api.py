"""The machines' door to annotations on the time axis: list, add, end, remove. A deploy notes itself here."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Q
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.capacity.api import RANGE, range_of
from recovery_ops.control.core.api.pagination import asked_for, next_page, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec, read_texts
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.cursors import cut
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.serializers import Document, utc_text
from recovery_ops.control.dashboard.models import Annotation
from recovery_ops.control.dashboard.services import (
    annotate,
    end_annotation,
    remove_annotation,
    version_of_annotation,
)
from recovery_ops.control.policies.api.policies import moment_of

_SAID: dict[str, type] = {"note": str, "at": str, "until": str, "goes_on": bool, "operation": str, "tags": list}


class Annotations(ApiView):
    """`/api/v1/annotations`: GET what was noted of a range, the newest first, POST a `note` to add one.

    It stands at `at` (now, where it is not said), lasts `until` a moment or `goes_on`, and may be about one breaker
    (`operation`). `tag` narrows the list.
    """

    asks = paged() | RANGE | {"tag": "only those with this tag"}
    takes = {"POST": BodySpec(COMMAND_FIELDS | _SAID, needed=("note",))}

    def get(self, request: Request) -> Response:
        start, end = range_of(request, timezone.now())
        reaches_in = Q(at__gte=start) | Q(until__gte=start) | Q(lasts=True, until=None)
        found = Annotation.objects.filter(reaches_in, environment=self.environment, at__lte=end, removed_at=None)
        if tag := request.query_params.get("tag", "").strip().lower():
            found = found.filter(tags__contains=f"|{tag}|")
        limit, after = asked_for(request, (int,))
        if after is not None:
            found = found.filter(number__lt=after[0])
        shown, cursor = cut(list(found.order_by("-number")[: limit + 1]), lambda one: (one.number,), limit)
        further = next_page(request, cursor, span=(start, end))  # a range that moves with the clock stays what it was
        rows = [of_annotation(one) for one in shown]
        return Response({"environment": self.environment, "annotations": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        moments: dict[str, Any] = {name: moment_of(body[name], name) for name in ("at", "until") if name in body}
        done = annotate(
            **self.asked(request, body),
            **moments,
            text=body["note"],
            goes_on=body.get("goes_on", False),
            operation=body.get("operation", ""),
            tags=read_texts(body, "tags") if "tags" in body else (),
        )
        return Response(_of_done(done))


class AnnotationOf(ApiView):
    """`GET /api/v1/annotations/<number>`: one. Its ETag is what ending and removing it take as If-Match."""

    def get(self, request: Request, number: int) -> Response:
        one = Annotation.objects.filter(environment=self.environment, number=number, removed_at=None).first()
        if one is None:
            raise CommandRejected("unknown_annotation", "The annotation does not exist.", status=NOT_FOUND)
        answer = {"environment": self.environment, "annotation": of_annotation(one)}
        return Response(answer, headers={"ETag": f'"{version_of_annotation(one)}"'})


class ChangeAnnotation(ApiView):
    """`POST /api/v1/annotations/<number>/end`, `…/remove`: let what goes on end now; take one from the time axis."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}
    verb = "end"
    _ACTS: ClassVar[dict[str, Any]] = {"end": end_annotation, "remove": remove_annotation}

    def post(self, request: Request, number: int) -> Response:
        return Response(_of_done(self._ACTS[self.verb](**self.asked(request, self.body(request)), number=number)))


def of_annotation(one: Annotation) -> Document:
    """An annotation as programs are told it; `until` null and `goes_on` false: a moment."""
    return {
        "number": one.number,
        "note": one.text,
        "tags": one.tag_names,
        "operation": one.operation or None,
        "at": utc_text(one.at),
        "until": utc_text(one.until),
        "goes_on": one.goes_on,
        "by": one.by,
        "made_at": utc_text(one.made_at),
        "version": version_of_annotation(one),
    }


def _of_done(done: CommandResult[Annotation]) -> Document:
    return {"was_already": done.was_already, "dry_run": done.is_dry_run, "annotation": of_annotation(done.object)}
