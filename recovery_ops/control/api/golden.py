"""The machines' door to golden runs and feedback."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control import actions, documents
from recovery_ops.control.api.paging import newest_of, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.models import Feedback as Entry
from recovery_ops.control.models import GoldenCase
from recovery_ops.control.refusals import UNKNOWN, Refused


class GoldenRuns(Api):
    """`/api/v1/policies/golden`: GET the runs that proposals are tried on, POST `run`, `name`, `must` to mark one."""

    asks = paged()
    takes = {"POST": Takes(WHY | {"run": str, "name": str, "must": str}, needed=("reason", "run", "name", "must"))}
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        found = GoldenCase.objects.filter(environment=self.environment, retired_at=None)
        shown, further = newest_of(request, found.defer("facts", "base_document"))
        rows = [documents.of_golden(one) for one in shown]
        return Response({"environment": self.environment, "golden": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = actions.mark_golden(**self.asked(request, body), run=body["run"], name=body["name"], must=body["must"])
        return Response(documents.of_done(done), status=200 if done.was_already or done.is_dry_run else 201)


class GoldenRun(Api):
    """`/api/v1/policies/golden/<number>`: GET one with what was decided in it, DELETE lets it go."""

    takes = {"DELETE": Takes(WHY, needed=())}

    def get(self, request: Request, number: int) -> Response:
        found = GoldenCase.objects.filter(environment=self.environment, number=number).first()
        if found is None:
            raise Refused("unknown_golden", f"There is no golden run {number} in {self.environment}.", status=UNKNOWN)
        answer = {"environment": self.environment, "golden": documents.of_golden(found), "calls": found.expected}
        return Response(answer)

    def delete(self, request: Request, number: int) -> Response:
        asked = self.asked(request, {"reason": "let go by the API", **self.body(request)})
        return Response(documents.of_done(actions.retire_golden(**asked, number=number)))


class Feedbacks(Api):
    """`/api/v1/feedback`: GET the newest entries, POST `operation` and `want`: something was handled badly."""

    asks = paged()
    takes = {
        "POST": Takes(
            WHY | {"operation": str, "want": str, "service": str, "run": str, "fingerprint": str},
            needed=("reason", "operation", "want"),
        )
    }
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        found = Entry.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found)
        rows = [documents.of_feedback(one) for one in shown]
        return Response({"environment": self.environment, "feedback": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        more = {name: body[name] for name in ("operation", "want", "service", "run", "fingerprint") if name in body}
        done = actions.say(**self.asked(request, body), **more)
        return Response(documents.of_done(done), status=200 if done.was_already or done.is_dry_run else 201)


class AnswerFeedback(Api):
    """`POST /api/v1/feedback/<number>/propose`, `/close`: draft a proposal from it, or lay it aside."""

    verb = ""
    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, number: int) -> Response:
        asked = self.asked(request, self.body(request))
        if self.verb == "propose":
            return Response(documents.of_done(actions.propose_from(**asked, number=number)))
        return Response(documents.of_done(actions.lay_aside(**asked, number=number)))
