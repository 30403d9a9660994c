"""The machines' door to what could not be taken in: list it, have it taken in again after a fix, or forget it."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from events.models import Quarantine
from recovery_ops.control.audit.guarded_content import show_line
from recovery_ops.control.core.api.pagination import newest_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.numbers import is_number
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.self_monitoring import services
from recovery_ops.control.self_monitoring.serializers import (
    rejected_record_document,
    settled_document,
    shown_record_document,
)

LINES_MOST = 1000
_SETTLE = {"replay": services.replay_quarantine, "drop": services.drop_quarantine}
SETTLE = tuple(_SETTLE)


class Lines(ApiView):
    """`GET /api/v1/quarantine`: records that could not be taken in and why, the newest first, without their content.

    The ETag is the number of the newest; given back as If-Match, `replay` and `drop` are refused when more came since.
    """

    asks = paged()

    def get(self, request: Request) -> Response:
        here = self.environment
        kept = Quarantine.objects.filter(environment=here)
        shown, further = newest_of(request, kept.defer("payload", "content"), "pk")
        rows = [rejected_record_document(one) for one in shown]
        answer = {"environment": here, "total": kept.count(), "lines": rows, "next": further}
        return Response(answer, headers={"ETag": f'"{services.newest_of_quarantine(here)}"'})


class ShowLine(ApiView):
    """`POST /api/v1/quarantine/<number>/show`: a record with its content. Who looked is in the audit log."""

    takes = {"POST": BodySpec({}, needed=())}

    def post(self, request: Request, number: int) -> Response:
        self.body(request)
        line = show_line(by=self.actor, environment=self.environment, number=number)
        return Response({"environment": self.environment, "line": shown_record_document(line)})


class Settle(ApiView):
    """`POST /api/v1/quarantine/replay`, `/drop`: take `lines` in once more, or forget them for good; all without it.

    What still cannot be taken in stays, with the reason of today (`left`).
    """

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS | {"lines": list})}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        lines = body.get("lines")
        if lines is not None and not (
            1 <= len(lines) <= LINES_MOST and all(is_number(one) and one > 0 for one in lines)
        ):
            fault = f"is a list of 1 to {LINES_MOST} numbers"
            raise CommandRejected("invalid", f"lines {fault}.", fields={"lines": fault})
        return Response(settled_document(_SETTLE[self.verb](**self.asked(request, body), lines=lines)))
