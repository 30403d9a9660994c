"""The machines' door to what could not be taken in: list it, have it taken in again after a fix, or forget it."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from events.models import Quarantine
from recovery_ops.control import actions
from recovery_ops.control.actions.showing import show_line
from recovery_ops.control.api.paging import newest_of, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.documents import settings as documents
from recovery_ops.control.numbers import is_number
from recovery_ops.control.refusals import Refused

LINES_MOST = 1000
_SETTLE = {"replay": actions.replay_quarantine, "drop": actions.drop_quarantine}
SETTLE = tuple(_SETTLE)


class Lines(Api):
    """`GET /api/v1/quarantine`: records that could not be taken in and why, the newest first, without their content.

    The ETag is the number of the newest; given back as If-Match, `replay` and `drop` are refused when more came since.
    """

    asks = paged()

    def get(self, request: Request) -> Response:
        here = self.environment
        kept = Quarantine.objects.filter(environment=here)
        shown, further = newest_of(request, kept.defer("payload", "content"), "pk")
        rows = [documents.of_line(one) for one in shown]
        answer = {"environment": here, "total": kept.count(), "lines": rows, "next": further}
        return Response(answer, headers={"ETag": f'"{actions.newest_of_quarantine(here)}"'})


class ShowLine(Api):
    """`POST /api/v1/quarantine/<number>/show`: a record with its content. Who looked is in the audit log."""

    takes = {"POST": Takes({}, needed=())}

    def post(self, request: Request, number: int) -> Response:
        self.body(request)
        line = show_line(by=self.actor, environment=self.environment, number=number)
        return Response({"environment": self.environment, "line": documents.of_shown_line(line)})


class Settle(Api):
    """`POST /api/v1/quarantine/replay`, `/drop`: take `lines` in once more, or forget them for good; all without it.

    What still cannot be taken in stays, with the reason of today (`left`).
    """

    verb = ""
    takes = {"POST": Takes(WHY | {"lines": list})}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        lines = body.get("lines")
        if lines is not None and not (
            1 <= len(lines) <= LINES_MOST and all(is_number(one) and one > 0 for one in lines)
        ):
            fault = f"is a list of 1 to {LINES_MOST} numbers"
            raise Refused("invalid", f"lines {fault}.", fields={"lines": fault})
        return Response(documents.of_settled(_SETTLE[self.verb](**self.asked(request, body), lines=lines)))
