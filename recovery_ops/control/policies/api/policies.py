"""The machines' door to policies: read what is live and what was, draft, review, release and roll back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import JsonResponse
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from events.pages.window import in_utc
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import newest_of, paged
from recovery_ops.control.core.api.requests import BREAK_GLASS_FIELDS, COHORT_FIELDS, COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.differences import parts_of
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.document_checks import faults_of_document, plain
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.serializers import (
    finding_document,
    policy_document,
    proposal_document,
    proposal_note_document,
    release_document,
    rules_document,
)
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.services import releases as releases_services
from recovery_ops.control.policies.services import review as review_services
from recovery_ops.control.replay.golden import results_of
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.replay.serializers import golden_result_document, replay_document
from recovery_ops.control.replay.services.replays import cancel_replay, start_replay
from recovery_ops.rules.policy.lint import lint
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.schema import policy_schema


class LivePolicy(ApiView):
    """`GET /api/v1/policies`: the live policy document, and whether a change requires approval."""

    def get(self, request: Request) -> Response:
        live, here = live_policy(self.environment), self.environment
        return self.tagged(
            {
                "environment": here,
                "revision": current_revision(here),
                "policy": policy_document(live),
                "document": dict(live.document),
                "is_review_needed": review_services.is_review_needed(here),
                "awaiting_review": [release_document(one) for one in review_services.awaiting_review(here)],
            },
            current_revision(here),
        )


class PolicySchema(ApiView):
    """`GET /api/v1/policies/schema`: the JSON Schema of a policy document. Public: it contains no data."""

    authentication_classes = []
    is_open = True

    def get(self, request: Request) -> JsonResponse:
        return JsonResponse(policy_schema(), content_type="application/schema+json")


class PolicyCheck(ApiView):
    """`POST /api/v1/policies/check`: errors and warnings of a document, and its changes to the live policy.

    Writes nothing; the key permission `read` is enough.
    """

    is_reading = True
    takes = {"POST": BodySpec({"document": object}, needed=("document",))}

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
                "findings": [finding_document(one) for one in findings],
                "base_version": live.version,
                "changes": [documents.difference_document(one) for one in changes],
            }
        )


class Releases(ApiView):
    """`GET /api/v1/policies/releases`: releases, newest first."""

    asks = paged()

    def get(self, request: Request) -> Response:
        found = PolicyRelease.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found, "version")
        rows = [release_document(one) for one in shown]
        return Response({"environment": self.environment, "releases": rows, "next": further})


class Release(ApiView):
    """`GET /api/v1/policies/releases/<version>`: one release with its document."""

    def get(self, request: Request, version: int) -> Response:
        found = PolicyRelease.objects.filter(environment=self.environment, version=version).first()
        if found is None:
            raise CommandRejected("unknown_release", f"{self.environment} has no policy {version}.", status=NOT_FOUND)
        answer = {"environment": self.environment, "release": release_document(found), "document": found.document}
        return self.tagged(answer, found.revision)


class RollBack(ApiView):
    """`POST /api/v1/policies/releases/<version>/roll-back`: release this version again; 0 is the default policy."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, version: int) -> Response:
        body = self.body(request)
        return Response(
            documents.result_document(releases_services.roll_back(**self.asked(request, body), version=version))
        )


class ReviewRelease(ApiView):
    """`POST /api/v1/policies/releases/<version>/review`: mark a release without approval as reviewed."""

    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, version: int) -> Response:
        body = self.body(request)
        done = review_services.review_release(**self.asked(request, body), version=version)
        return Response(documents.result_document(done))


class Rules(ApiView):
    """`/api/v1/rules`: rules of the environment; PUT `is_production`, `is_review_needed`, `is_second_needed`.

    Under `is_second_needed` changes with wide reach, and all in production, wait in `/api/v1/requests` for a second
    approver: the answer is 202. Lower rules require a second approver, too.
    """

    takes = {"PUT": BodySpec(COMMAND_FIELDS | dict.fromkeys(review_services.RULES, bool) | BREAK_GLASS_FIELDS)}

    def get(self, request: Request) -> Response:
        here = self.environment
        rules = EnvironmentRules.objects.filter(environment=here).first() or EnvironmentRules(environment=here)
        return Response({"environment": here, **rules_document(rules)})

    def put(self, request: Request) -> Response:
        body = self.body(request)
        said: Any = {name: body[name] for name in review_services.RULES if name in body}
        done = review_services.set_rules(**self.asked(request, body), **said)
        return Response(documents.result_document(done))


class Proposals(ApiView):
    """`/api/v1/policies/proposals`: GET the open ones (`state=all`: every one), POST a new one."""

    asks = paged() | {"state": "`all`: closed proposals, too"}
    takes = {"POST": BodySpec(COMMAND_FIELDS | {"title": str, "document": object}, needed=("title", "document"))}
    answers = {"POST": 201}

    def get(self, request: Request) -> Response:
        found: QuerySet[PolicyProposal] = PolicyProposal.objects.open(self.environment)
        if request.query_params.get("state") == "all":
            found = PolicyProposal.objects.filter(environment=self.environment)
        shown, further = newest_of(request, found)
        rows = [proposal_document(one) for one in shown]
        return Response({"environment": self.environment, "proposals": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = proposals_services.propose(**self.asked(request, body), title=body["title"], document=body["document"])
        return Response(documents.result_document(done), status=200 if done.was_already or done.is_dry_run else 201)


class Proposal(ApiView):
    """`/api/v1/policies/proposals/<number>`: GET it with its document and notes, PUT another document.

    The ETag is its step, which every change may name as If-Match.
    """

    takes = {
        "PUT": BodySpec(COMMAND_FIELDS | {"title": str, "document": object, "is_onto_live": bool}, needed=("document",))
    }

    def get(self, request: Request, number: int) -> Response:
        found = PolicyProposal.objects.filter(environment=self.environment, number=number).first()
        if found is None:
            raise CommandRejected("unknown_proposal", f"{self.environment} has no proposal {number}.", status=NOT_FOUND)
        live = live_policy(self.environment)
        answer = {
            "environment": self.environment,
            "proposal": proposal_document(found),
            "document": found.document,
            "live_version": live.version,
            "changes": [documents.difference_document(one) for one in parts_of(live.document, found.document)],
            "findings": [finding_document(one) for one in lint(parse_policy(found.document), found.document)],
            "golden": [golden_result_document(one) for one in results_of(found)],
            "notes": [proposal_note_document(one) for one in found.notes.order_by("step")],
        }
        return self.tagged(answer, found.step)

    def put(self, request: Request, number: int) -> Response:
        body = self.body(request)
        more: dict[str, Any] = {name: body[name] for name in ("title", "is_onto_live") if name in body}
        done = proposals_services.revise(**self.asked(request, body), number=number, document=body["document"], **more)
        return Response(documents.result_document(done))


class Move(ApiView):
    """`POST /api/v1/policies/proposals/<number>/submit`, `/comment`, `/approve`, `/return`, `/reject`."""

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS | {"accepts_golden": bool})}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        accepts = body.get("accepts_golden", False)
        done = MOVES[self.verb](**self.asked(request, body), number=number, accepts_golden=accepts)
        return Response(documents.result_document(done))


MOVES = {
    "submit": proposals_services.submit,
    "comment": proposals_services.comment,
    "approve": proposals_services.approve,
    "return": proposals_services.send_back,
    "reject": proposals_services.reject,
}


class Schedule(ApiView):
    """`POST /api/v1/policies/proposals/<number>/schedule`: schedule the release for `go_live_at` (ISO 8601).

    Any of `share`, `for_s`, `service`, `group` and `least_calls` starts a canary, as `/roll-out` does.
    """

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | COHORT_FIELDS | {"go_live_at": str, "accepts_golden": bool},
            needed=("go_live_at",),
        )
    }

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        at = moment_of(body["go_live_at"], "go_live_at")
        accepts = body.get("accepts_golden", False)
        cohort = {name: body[name] for name in COHORT_FIELDS if name in body}
        done = proposals_services.schedule(
            **self.asked(request, body), number=number, go_live_at=at, accepts_golden=accepts, cohort=cohort or None
        )
        return Response(documents.result_document(done))


class ReleaseProposal(ApiView):
    """`POST /api/v1/policies/proposals/<number>/release`: release the proposal at once to all instances."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"break_glass": bool, "accepts_golden": bool})}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        more = {"accepts_golden": body.get("accepts_golden", False)}
        done = proposals_services.release_proposal(**self.asked(request, body), number=number, **more)
        return Response(documents.result_document(done))


class Replays(ApiView):
    """`/api/v1/policies/replays`: GET the newest, POST `proposal` or `document`, `start` and `end` to start one."""

    asks = paged()
    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS
            | {"proposal": int, "document": object, "start": str, "end": str, "service": str, "operation": str},
            needed=("start", "end"),
        )
    }
    answers = {"POST": 202}

    def get(self, request: Request) -> Response:
        found = Replay.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found)
        rows = [replay_document(one) for one in shown]
        return Response({"environment": self.environment, "replays": rows, "next": further})

    def post(self, request: Request) -> Response:
        body = self.body(request)
        window = {name: moment_of(body[name], name) for name in ("start", "end")}
        more: dict[str, Any] = {name: body[name] for name in ("document", "service", "operation") if name in body}
        if "proposal" in body:
            more["number"] = body["proposal"]
        done = start_replay(**self.asked(request, body), start=window["start"], end=window["end"], **more)
        return Response(documents.result_document(done), status=200 if done.was_already or done.is_dry_run else 202)


class ReplayOf(ApiView):
    """`/api/v1/policies/replays/<number>`: GET its progress and result, DELETE cancels it."""

    takes = {"DELETE": BodySpec(COMMAND_FIELDS, needed=())}

    def get(self, request: Request, number: int) -> Response:
        found = Replay.objects.filter(environment=self.environment, number=number).select_related("proposal").first()
        if found is None:
            raise CommandRejected("unknown_replay", f"{self.environment} has no replay {number}.", status=NOT_FOUND)
        answer = {"environment": self.environment, "replay": replay_document(found), "result": found.result}
        return Response(answer)

    def delete(self, request: Request, number: int) -> Response:
        asked = self.asked(request, {"reason": "cancelled by the API", **self.body(request)})
        return Response(documents.result_document(cancel_replay(**asked, number=number)))


def moment_of(text: str, field: str) -> datetime:
    """A moment with its zone, in UTC. Raises CommandRejected (400) for anything else."""
    try:
        said = parse_datetime(text)
    except ValueError:
        said = None
    at = None if said is None or said.tzinfo is None else in_utc(said)
    if at is None:
        fault = "must be a time such as 2026-11-22T04:00:00Z"
        raise CommandRejected("invalid", f"Change rejected: {field} {fault}.", fields={field: fault})
    return at
