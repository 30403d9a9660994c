"""The machines' door to the audit log: the newest rows, and all of them in their order for a store of logs."""

from __future__ import annotations

import orjson
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.audit.selectors import ASKS, conditions_in, entries_of, matching
from recovery_ops.control.capacity.api import moment_in
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import asked_for, newest_of, paged
from recovery_ops.control.core.api.requests import ApiView, read_number_parameter
from recovery_ops.control.core.models.audit import AuditEntry

MOST = 500
STREAM_MOST = 5_000


class Audit(ApiView):
    """`GET /api/v1/audit`: the newest rows first, of all that there are or of a range."""

    needs = "see_audit"
    asks = (
        paged(MOST)
        | {"operation": "only entries about this operation"}
        | ASKS
        | {"from": "ISO 8601 time: entries from then on", "to": "ISO 8601 time: entries before then"}
    )

    def get(self, request: Request) -> Response:
        asked = request.query_params
        entries = entries_of(self.environment, start=moment_in(request, "from"), end=moment_in(request, "to"))
        if operation := asked.get("operation"):
            entries = entries.filter(operation=operation)
        entries = matching(entries, conditions_in(asked))
        shown, further = newest_of(request, entries, most=MOST)
        rows = [documents.audit_entry_document(entry) for entry in shown]
        return Response({"environment": self.environment, "entries": rows, "next": further})


class AuditStream(ApiView):
    """`GET /api/v1/audit/stream`: the rows behind the number `after`, the oldest first, as NDJSON for a store of logs.

    Whoever goes on behind the last `number` they kept misses nothing and gets nothing twice; no line is the end so far.
    """

    needs = "see_audit"
    content = "application/x-ndjson"
    asks = {
        "after": "number of the last stored entry (0: from the start)",
        "limit": paged(STREAM_MOST)["limit"],
    }

    def get(self, request: Request) -> HttpResponse:
        limit, _ = asked_for(request, (int,), most=STREAM_MOST)
        after = read_number_parameter(request, "after", 0)
        rows = entries_of(self.environment).filter(number__gt=after).order_by("number")[:limit]
        lines = (orjson.dumps(_line(entry), option=orjson.OPT_APPEND_NEWLINE) for entry in rows)
        answer = HttpResponse(b"".join(lines), content_type=self.content)
        answer["Cache-Control"] = "no-store"
        return answer


def _line(entry: AuditEntry) -> dict[str, object]:
    """A row as a store of logs wants it: also where it was done, and from where."""
    where: dict[str, object] = {"environment": entry.environment, "operation": entry.operation}
    return where | documents.audit_entry_document(entry) | {"ip": entry.ip, "user_agent": entry.user_agent}
