"""API of approval requests: list, one request, and decisions, which are for users only."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.approvals.services import agree, reject, review_glass
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import newest_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.core.serializers import approval_request_document

DECIDE = {"agree": agree, "reject": reject, "review": review_glass}


class Requests(ApiView):
    """`GET /api/v1/requests`: approval requests, newest first.

    `state=waiting` lists requests that can still be approved. `state=glass` lists break-glass changes that were
    applied without a second approver and are not reviewed yet.
    """

    asks = paged() | {"state": ", ".join(ApprovalRequest.STATES)}

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        found = ApprovalRequest.objects.filter(environment=here)
        if state := request.query_params.get("state", ""):
            if state not in ApprovalRequest.STATES:
                fault = f"is {state}; use one of {', '.join(ApprovalRequest.STATES)}"
                raise CommandRejected("invalid", f"state {fault}.", fields={"state": fault})
            found = (
                ApprovalRequest.objects.waiting(here, now)
                if state == ApprovalRequest.WAITING
                else found.filter(state=state)
            )
        shown, further = newest_of(request, found)
        rows = [approval_request_document(one, now=now) for one in shown]
        return Response({"environment": here, "revision": current_revision(here), "requests": rows, "next": further})


class RequestOf(ApiView):
    """`GET /api/v1/requests/<number>`: one approval request: its change, requester, reason and decision."""

    def get(self, request: Request, number: int) -> Response:
        held = ApprovalRequest.objects.filter(environment=self.environment, number=number).first()
        if held is None:
            raise CommandRejected(
                "unknown_request", f"{self.environment} has no approval request {number}.", status=NOT_FOUND
            )
        return Response(
            {"environment": self.environment, "request": approval_request_document(held, now=timezone.now())}
        )


class Decide(ApiView):
    """`POST /api/v1/requests/<number>/agree`, `/reject`, `/review`: decision of a user other than the requester.

    `agree` applies the change. `reject` by the requester withdraws the request. `review` marks a break-glass change as
    reviewed. If-Match is the revision of the environment on the caller's screen.
    """

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        return Response(
            documents.result_document(DECIDE[self.verb](**self.asked(request, self.body(request)), number=number))
        )
