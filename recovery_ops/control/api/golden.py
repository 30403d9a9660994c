"""The machines' door to golden runs and feedback."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control import actions, documents
from recovery_ops.control.api.requests import WHY, Api, Takes, page_of
from recovery_ops.control.models import Feedback as Entry
from recovery_ops.control.models import GoldenCase
from recovery_ops.control.refusals import UNKNOWN, Refused

ENTRIES_MOST = 200


class GoldenRuns(Api):
    """`/api/v1/policies/golden`: GET the runs that proposals are tried on, POST `run`, `name`, `must` to mark one."""

    takes = {"POST": Takes(WHY | {"run": str, "name": str, "must": str}, needed=("reason", "run", "name", "must"))}
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        found = GoldenCase.objects.filter(environment=self.environment, retired_at=None).order_by("-number")
        rows = [documents.of_golden(one) for one in found.defer("facts", "base_document")]
        return Response({"environment": self.environment, "golden": rows})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = actions.mark_golden(**self.asked(request, body), run=body["run"], name=body["name"], must=body["must"])
        return Response(documents.of_done(done), status=200 if done.was_already or done.is_dry_run else 201)


class GoldenRun(Api):
    """`/api/v1/policies/golden/<number>`: GET one with what was decided in it, DELETE lets it go."""

    def get(self, request: Request, number: int) -> Response:
        found = GoldenCase.objects.filter(environment=self.environment, number=number).first()
        if found is None:
            raise Refused("unknown_golden", f"There is no golden run {number} in {self.environment}.", status=UNKNOWN)
        answer = {"environment": self.environment, "golden": documents.of_golden(found), "calls": found.expected}
        return Response(answer)

    def delete(self, request: Request, number: int) -> Response:
        asked = self.asked(request, {"reason": "let go by the API"})
        return Response(documents.of_done(actions.retire_golden(**asked, number=number)))


class Feedbacks(Api):
    """`/api/v1/feedback`: GET the newest entries, POST `operation` and `want`: something was handled badly."""

    asks = {"limit": f"from 1 to {ENTRIES_MOST}", "before": "the number that `before` of the page before told"}
    takes = {
        "POST": Takes(
            WHY | {"operation": str, "want": str, "service": str, "run": str, "fingerprint": str},
            needed=("reason", "operation", "want"),
        )
    }
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        limit, before = page_of(request, most=ENTRIES_MOST)
        found = Entry.objects.filter(environment=self.environment).select_related("proposal")
        if before:
            found = found.filter(number__lt=before)
        rows = [documents.of_feedback(one) for one in found.order_by("-number")[:limit]]
        older = rows[-1]["number"] if len(rows) == limit else None
        return Response({"environment": self.environment, "feedback": rows, "before": older})

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
