"""API of golden runs and feedback."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import newest_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.policies.models.feedback import Feedback as Entry
from recovery_ops.control.policies.serializers import feedback_document
from recovery_ops.control.policies.services import feedback as feedback_services
from recovery_ops.control.replay.models.golden import GoldenCase
from recovery_ops.control.replay.serializers import golden_document
from recovery_ops.control.replay.services import golden as golden_services


class GoldenRuns(ApiView):
    """`/api/v1/policies/golden`: GET the golden runs, POST `run`, `name`, `must` to mark one."""

    asks = paged()
    takes = {"POST": BodySpec(COMMAND_FIELDS | {"run": str, "name": str, "must": str}, needed=("run", "name", "must"))}
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        found = GoldenCase.objects.filter(environment=self.environment, retired_at=None)
        shown, further = newest_of(request, found.defer("facts", "base_document"))
        rows = [golden_document(one) for one in shown]
        return Response({"environment": self.environment, "golden": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = golden_services.mark_golden(
            **self.asked(request, body), run=body["run"], name=body["name"], must=body["must"]
        )
        return Response(documents.result_document(done), status=200 if done.was_already or done.is_dry_run else 201)


class GoldenRun(ApiView):
    """`/api/v1/policies/golden/<number>`: GET one with its recorded decisions, DELETE retires it."""

    takes = {"DELETE": BodySpec(COMMAND_FIELDS, needed=())}

    def get(self, request: Request, number: int) -> Response:
        found = GoldenCase.objects.filter(environment=self.environment, number=number).first()
        if found is None:
            raise CommandRejected("unknown_golden", f"{self.environment} has no golden run {number}.", status=NOT_FOUND)
        answer = {"environment": self.environment, "golden": golden_document(found), "calls": found.expected}
        return Response(answer)

    def delete(self, request: Request, number: int) -> Response:
        asked = self.asked(request, {"reason": "retired by the API", **self.body(request)})
        return Response(documents.result_document(golden_services.retire_golden(**asked, number=number)))


class Feedbacks(ApiView):
    """`/api/v1/feedback`: GET the newest entries, POST `operation` and `want` to report one."""

    asks = paged()
    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | {"operation": str, "want": str, "service": str, "run": str, "fingerprint": str},
            needed=("operation", "want"),
        )
    }
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        found = Entry.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found)
        rows = [feedback_document(one) for one in shown]
        return Response({"environment": self.environment, "feedback": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        more = {name: body[name] for name in ("operation", "want", "service", "run", "fingerprint") if name in body}
        done = feedback_services.say(**self.asked(request, body), **more)
        return Response(documents.result_document(done), status=200 if done.was_already or done.is_dry_run else 201)


class AnswerFeedback(ApiView):
    """`POST /api/v1/feedback/<number>/propose`, `/close`: draft a proposal from it, or dismiss it."""

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        asked = self.asked(request, self.body(request))
        if self.verb == "propose":
            return Response(documents.result_document(feedback_services.propose_from(**asked, number=number)))
        return Response(documents.result_document(feedback_services.lay_aside(**asked, number=number)))
