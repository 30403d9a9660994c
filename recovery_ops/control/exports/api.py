"""The machines' door to exports: ask for a long list as a file, see how far it has come, fetch it, call it off."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict, StreamingHttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core.api.pagination import newest_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec, read_texts
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.rejections import CONFLICT, FORBIDDEN, NOT_FOUND, CommandRejected
from recovery_ops.control.core.serializers import Document
from recovery_ops.control.exports.catalogue import LISTS
from recovery_ops.control.exports.files import file_answer
from recovery_ops.control.exports.models import Export
from recovery_ops.control.exports.serializers import export_document
from recovery_ops.control.exports.services import cancel_export, exports_of, may_fetch, start_export
from recovery_ops.control.policies.api.policies import moment_of

_SAID: dict[str, type] = {
    "list": str,
    "narrowed": str,
    "format": str,
    "columns": list,
    "start": str,
    "end": str,
}


class Exports(ApiView):
    """`/api/v1/exports`: GET your own, the newest first, POST `list` (audit, escalations or runs) to ask for one.

    `narrowed` is what the page's address says behind its question mark (`status=failed&agent=research`), `format` csv,
    json or ndjson, `columns` those of the file (all), `start` and `end` the range, which runs need. The audit log has
    `chain=*` for that of everywhere.
    """

    changes_with = "read"
    asks = paged()
    takes = {"POST": BodySpec(COMMAND_FIELDS | _SAID, needed=("list",))}
    answers = {"POST": 202}

    def get(self, request: Request) -> Response:
        shown, further = newest_of(request, exports_of(self.actor, self.environment))
        rows = [export_document(one) for one in shown]
        return Response({"environment": self.environment, "exports": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        moments: dict[str, Any] = {name: moment_of(body[name], name) for name in ("start", "end") if name in body}
        done = start_export(
            **self.asked(request, body),
            **moments,
            what=body["list"],
            query=body.get("narrowed", ""),
            address=_address(request, body),
            kind=body.get("format", ""),
            columns=read_texts(body, "columns") if "columns" in body else (),
        )
        return Response(_of_done(done), status=200 if done.was_already or done.is_dry_run else 202)


class ExportOf(ApiView):
    """`/api/v1/exports/<number>`: GET how far your own has come, DELETE calls it off."""

    changes_with = "read"
    takes = {"DELETE": BodySpec(COMMAND_FIELDS, needed=())}

    def get(self, request: Request, number: int) -> Response:
        return Response({"environment": self.environment, "export": export_document(_found(self, number))})

    def delete(self, request: Request, number: int) -> Response:
        asked = self.asked(request, {"reason": "Cancelled through the API", **self.body(request)})
        return Response(_of_done(cancel_export(**asked, number=number)))


class ExportFile(ApiView):
    """`GET /api/v1/exports/<number>/file`: the file of your own, when it is done."""

    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        found = _found(self, number)
        if not may_fetch(self.actor, found):
            raise CommandRejected("forbidden", "You no longer have the permission to read this data.", status=FORBIDDEN)
        if found.state != Export.DONE:
            raise CommandRejected("not_done", f"Export {number} is {found.state}; no file.", status=CONFLICT)
        return file_answer(found)


def _found(view: ApiView, number: int) -> Export:
    found = exports_of(view.actor, view.environment).filter(number=number).first()
    if found is None:
        raise CommandRejected(
            "unknown_export", f"Export {number} does not exist in {view.environment}.", status=NOT_FOUND
        )
    return found


def _address(request: Request, body: dict[str, Any]) -> str:
    """Where a browser sees the same rows."""
    found = LISTS.get(body["list"])
    if found is None:
        return ""
    span = {name: body[said] for name, said in (("from", "start"), ("to", "end")) if said in body}
    said = {name: value for name, value in QueryDict(body.get("narrowed", "")).items() if name in found.asks}
    query = urlencode({**said, **span}, safe=":")
    return request.build_absolute_uri(f"{reverse(found.page)}{'?' if query else ''}{query}")


def _of_done(done: CommandResult[Export]) -> Document:
    return {"was_already": done.was_already, "dry_run": done.is_dry_run, "export": export_document(done.object)}
