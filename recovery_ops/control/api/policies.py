"""The machines' door to policies: read what is live and what was, draft, review, release and roll back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import JsonResponse
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from events.window import in_utc
from recovery_ops.control import actions, documents
from recovery_ops.control.actions.documents import faults_of_document, plain
from recovery_ops.control.actions.holding import is_second_needed
from recovery_ops.control.actions.replays import cancel_replay, start_replay
from recovery_ops.control.api.paging import newest_of, paged
from recovery_ops.control.api.requests import COHORT, GLASS, WHY, Api, Takes
from recovery_ops.control.desired import current_revision, live_policy
from recovery_ops.control.differences import parts_of
from recovery_ops.control.models import PolicyProposal, PolicyRelease, Replay
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.control.replay.golden import results_of
from recovery_ops.rules.lint import lint
from recovery_ops.rules.policy import parse_policy
from recovery_ops.rules.schema import policy_schema

RULES = ("is_review_needed", "is_second_needed")


class LivePolicy(Api):
    """`GET /api/v1/policies`: the policy in force, whole, and whether a change of it has to be approved."""

    def get(self, request: Request) -> Response:
        live, here = live_policy(self.environment), self.environment
        return self.tagged(
            {
                "environment": here,
                "revision": current_revision(here),
                "policy": documents.of_policy(live),
                "document": dict(live.document),
                "is_review_needed": actions.is_review_needed(here),
                "awaiting_review": [documents.of_release(one) for one in actions.awaiting_review(here)],
            },
            current_revision(here),
        )


class PolicySchema(Api):
    """`GET /api/v1/policies/schema`: the JSON Schema of a policy document. Open: it holds nothing of anybody's."""

    authentication_classes = []
    is_open = True

    def get(self, request: Request) -> JsonResponse:
        return JsonResponse(policy_schema(), content_type="application/schema+json")


class PolicyCheck(Api):
    """`POST /api/v1/policies/check`: what is wrong with a document, what to ask about it, how it differs from the live.

    Writes nothing; a key of scope `read` may.
    """

    is_reading = True
    takes = {"POST": Takes({"document": object}, needed=("document",))}

    def post(self, request: Request) -> Response:
        document = self.body(request)["document"]
        faults = faults_of_document(document)
        live = live_policy(self.environment)
        findings = () if faults else lint(parse_policy(document), document)
        changes = [] if faults else parts_of(live.document, plain(document))
        return Response(
            {
                "environment": self.environment,
                "is_valid": not faults,
                "problems": [{"path": path, "message": message} for path, message in faults.items()],
                "findings": [documents.of_finding(one) for one in findings],
                "base_version": live.version,
                "changes": [documents.of_part(one) for one in changes],
            }
        )


class Releases(Api):
    """`GET /api/v1/policies/releases`: the newest first."""

    asks = paged()

    def get(self, request: Request) -> Response:
        found = PolicyRelease.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found, "version")
        rows = [documents.of_release(one) for one in shown]
        return Response({"environment": self.environment, "releases": rows, "next": further})


class Release(Api):
    """`GET /api/v1/policies/releases/<version>`: one release with its document."""

    def get(self, request: Request, version: int) -> Response:
        found = PolicyRelease.objects.filter(environment=self.environment, version=version).first()
        if found is None:
            raise Refused("unknown_release", f"There is no policy {version} in {self.environment}.", status=UNKNOWN)
        answer = {"environment": self.environment, "release": documents.of_release(found), "document": found.document}
        return self.tagged(answer, found.revision)


class RollBack(Api):
    """`POST /api/v1/policies/releases/<version>/roll-back`: release it again; 0 is the built-in policy."""

    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, version: int) -> Response:
        body = self.body(request)
        return Response(documents.of_done(actions.roll_back(**self.asked(request, body), version=version)))


class ReviewRelease(Api):
    """`POST /api/v1/policies/releases/<version>/review`: somebody has looked at a release without approval."""

    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, version: int) -> Response:
        body = self.body(request)
        done = actions.review_release(**self.asked(request, body), version=version)
        return Response(documents.of_done(done))


class Rules(Api):
    """`/api/v1/rules`: what the environment asks of those who change it; PUT `is_review_needed`, `is_second_needed`.

    Under `is_second_needed` whatever reaches everybody, or anybody in production, waits in `/api/v1/requests` until a
    second person agrees: the answer is 202. To ask for less takes two as well.
    """

    takes = {"PUT": Takes(WHY | dict.fromkeys(RULES, bool) | GLASS)}

    def get(self, request: Request) -> Response:
        here = self.environment
        return Response(
            {
                "environment": here,
                "is_review_needed": actions.is_review_needed(here),
                "is_second_needed": is_second_needed(here),
            }
        )

    def put(self, request: Request) -> Response:
        body = self.body(request)
        said: Any = {name: body[name] for name in RULES if name in body}
        done = actions.set_rules(**self.asked(request, body), **said)
        return Response(documents.of_done(done))


class Proposals(Api):
    """`/api/v1/policies/proposals`: GET the open ones (`state=all`: every one), POST a new one."""

    asks = paged() | {"state": "`all`: those that ended too"}
    takes = {"POST": Takes(WHY | {"title": str, "document": object}, needed=("reason", "title", "document"))}
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        found: QuerySet[PolicyProposal] = PolicyProposal.objects.open(self.environment)
        if request.query_params.get("state") == "all":
            found = PolicyProposal.objects.filter(environment=self.environment)
        shown, further = newest_of(request, found)
        rows = [documents.of_proposal(one) for one in shown]
        return Response({"environment": self.environment, "proposals": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = actions.propose(**self.asked(request, body), title=body["title"], document=body["document"])
        return Response(documents.of_done(done), status=200 if done.was_already or done.is_dry_run else 201)


class Proposal(Api):
    """`/api/v1/policies/proposals/<number>`: GET it with its document and notes, PUT another document.

    The ETag is its step, which every change may name as If-Match.
    """

    takes = {
        "PUT": Takes(WHY | {"title": str, "document": object, "is_onto_live": bool}, needed=("reason", "document"))
    }

    def get(self, request: Request, number: int) -> Response:
        found = PolicyProposal.objects.filter(environment=self.environment, number=number).first()
        if found is None:
            raise Refused("unknown_proposal", f"There is no proposal {number} in {self.environment}.", status=UNKNOWN)
        live = live_policy(self.environment)
        answer = {
            "environment": self.environment,
            "proposal": documents.of_proposal(found),
            "document": found.document,
            "live_version": live.version,
            "changes": [documents.of_part(one) for one in parts_of(live.document, found.document)],
            "findings": [documents.of_finding(one) for one in lint(parse_policy(found.document), found.document)],
            "golden": [documents.of_golden_result(one) for one in results_of(found)],
            "notes": [documents.of_note(one) for one in found.notes.order_by("step")],
        }
        return self.tagged(answer, found.step)

    def put(self, request: Request, number: int) -> Response:
        body = self.body(request)
        more: dict[str, Any] = {name: body[name] for name in ("title", "is_onto_live") if name in body}
        done = actions.revise(**self.asked(request, body), number=number, document=body["document"], **more)
        return Response(documents.of_done(done))


class Move(Api):
    """`POST /api/v1/policies/proposals/<number>/submit`, `/comment`, `/approve`, `/return`, `/reject`."""

    verb = ""
    takes = {"POST": Takes(WHY | {"accepts_golden": bool})}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        accepts = body.get("accepts_golden", False)
        done = MOVES[self.verb](**self.asked(request, body), number=number, accepts_golden=accepts)
        return Response(documents.of_done(done))


MOVES = {
    "submit": actions.submit,
    "comment": actions.comment,
    "approve": actions.approve,
    "return": actions.send_back,
    "reject": actions.reject,
}


class Schedule(Api):
    """`POST /api/v1/policies/proposals/<number>/schedule`: it goes live by itself at `go_live_at` (ISO 8601).

    With any of `share`, `for_s`, `service`, `group` and `least_calls` it goes to some first, as `/roll-out` does.
    """

    takes = {
        "POST": Takes(
            WHY | COHORT | {"go_live_at": str, "accepts_golden": bool},
            needed=("reason", "go_live_at"),
        )
    }

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        at = moment_of(body["go_live_at"], "go_live_at")
        accepts = body.get("accepts_golden", False)
        cohort = {name: body[name] for name in COHORT if name in body}
        done = actions.schedule(
            **self.asked(request, body), number=number, go_live_at=at, accepts_golden=accepts, cohort=cohort or None
        )
        return Response(documents.of_done(done))


class ReleaseProposal(Api):
    """`POST /api/v1/policies/proposals/<number>/release`: make it live, at once and everywhere."""

    takes = {"POST": Takes(WHY | {"break_glass": bool, "accepts_golden": bool})}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        more = {"accepts_golden": body.get("accepts_golden", False)}
        done = actions.release_proposal(**self.asked(request, body), number=number, **more)
        return Response(documents.of_done(done))


class Replays(Api):
    """`/api/v1/policies/replays`: GET the newest, POST `proposal` or `document`, `start` and `end` to ask for one."""

    asks = paged()
    takes = {
        "POST": Takes(
            WHY | {"proposal": int, "document": object, "start": str, "end": str, "service": str, "operation": str},
            needed=("reason", "start", "end"),
        )
    }
    answers = {"POST": 202}

    def get(self, request: Request) -> Response:
        found = Replay.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found)
        rows = [documents.of_replay(one) for one in shown]
        return Response({"environment": self.environment, "replays": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        window = {name: moment_of(body[name], name) for name in ("start", "end")}
        more: dict[str, Any] = {name: body[name] for name in ("document", "service", "operation") if name in body}
        if "proposal" in body:
            more["number"] = body["proposal"]
        done = start_replay(**self.asked(request, body), start=window["start"], end=window["end"], **more)
        return Response(documents.of_done(done), status=200 if done.was_already or done.is_dry_run else 202)


class ReplayOf(Api):
    """`/api/v1/policies/replays/<number>`: GET how far it has come and what came of it, DELETE calls it off."""

    takes = {"DELETE": Takes(WHY, needed=())}

    def get(self, request: Request, number: int) -> Response:
        found = Replay.objects.filter(environment=self.environment, number=number).select_related("proposal").first()
        if found is None:
            raise Refused("unknown_replay", f"There is no replay {number} in {self.environment}.", status=UNKNOWN)
        answer = {"environment": self.environment, "replay": documents.of_replay(found), "result": found.result}
        return Response(answer)

    def delete(self, request: Request, number: int) -> Response:
        asked = self.asked(request, {"reason": "called off by the API", **self.body(request)})
        return Response(documents.of_done(cancel_replay(**asked, number=number)))


def moment_of(text: str, field: str) -> datetime:
    """A moment with its zone, in UTC. Raises Refused (400) for anything else."""
    try:
        said = parse_datetime(text)
    except ValueError:
        said = None
    at = None if said is None or said.tzinfo is None else in_utc(said)
    if at is None:
        fault = "is a moment such as 2026-11-22T04:00:00Z"
        raise Refused("invalid", f"Nothing was changed: {field} {fault}.", fields={field: fault})
    return at
