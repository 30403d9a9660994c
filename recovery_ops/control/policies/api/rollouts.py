"""The machines' door to rollouts: begin one, watch it, promote it, prolong it, take it back."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import fleet
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import newest_of, paged
from recovery_ops.control.core.api.requests import BREAK_GLASS_FIELDS, COHORT_FIELDS, COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import Standards, apply_status_of, read
from recovery_ops.control.desired_state.serializers import propagation_document
from recovery_ops.control.policies.models.rollouts import PolicyRollout
from recovery_ops.control.policies.rollout_evidence import evidence_of, figures_of, split
from recovery_ops.control.policies.serializers import rollout_document
from recovery_ops.control.policies.services import rollouts as rollouts_services

_ASKED: dict[str, type] = COHORT_FIELDS | {"accepts_golden": bool}


class RollOut(ApiView):
    """`POST /api/v1/policies/proposals/<number>/roll-out`: start a canary of the proposal.

    `share` of the instances (0.1) of a `service` and a `group`, for `for_s` seconds (900); the health gate needs
    `least_calls` on each side. A healthy canary is promoted at the end; an unhealthy one is rolled back at once.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | BREAK_GLASS_FIELDS | _ASKED)}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        more: dict[str, Any] = {name: body[name] for name in _ASKED if name in body}
        return Response(
            documents.result_document(
                rollouts_services.start_rollout(**self.asked(request, body), number=number, **more)
            )
        )


class Rollouts(ApiView):
    """`GET /api/v1/policies/rollouts`: canary rollouts, newest first."""

    asks = paged()

    def get(self, request: Request) -> Response:
        found = PolicyRollout.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found)
        rows = [rollout_document(one) for one in shown]
        return Response({"environment": self.environment, "rollouts": rows, "next": further})


class Rollout(ApiView):
    """`GET /api/v1/policies/rollouts/<number>`: health gate, figures of both sides, and progress by instance.

    The ETag is its step, which every decision may name as If-Match.
    """

    def get(self, request: Request, number: int) -> Response:
        found = PolicyRollout.objects.filter(environment=self.environment, number=number)
        rollout = found.select_related("proposal").first()
        if rollout is None:
            raise CommandRejected("unknown_rollout", f"{self.environment} has no rollout {number}.", status=NOT_FOUND)
        now = timezone.now()
        agents = fleet(self.environment, now=now)
        answer: dict[str, Any] = {"environment": self.environment, "rollout": rollout_document(rollout)}
        if rollout.is_running:
            evidence = evidence_of(rollout, now=now, agents=agents)
            opinion = evidence.opinion(rollout)
            answer["rollout"] |= {"health": opinion.health.value, "said": opinion.sentence}
            answer["rollout"]["figures"] = figures_of(evidence)
        standards = Standards(read(self.environment))
        revision = rollout.end_revision or rollout.revision
        for side, members in zip(("cohort", "others"), split(rollout, agents), strict=True):
            answer[side] = propagation_document(apply_status_of(members, revision, standards))
        return Response(answer, headers={"ETag": f'"{rollout.step}"'})


class Decide(ApiView):
    """`POST /api/v1/policies/rollouts/<number>/promote`, `/take-back`: end a rollout manually."""

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        asked = self.asked(request, self.body(request))
        if self.verb == "promote":
            return Response(documents.result_document(rollouts_services.promote(**asked, number=number)))
        return Response(documents.result_document(rollouts_services.take_back(**asked, number=number)))


class Extend(ApiView):
    """`POST /api/v1/policies/rollouts/<number>/extend`: extend it by `for_s` seconds."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"for_s": float}, needed=("for_s",))}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        done = rollouts_services.extend_rollout(**self.asked(request, body), number=number, for_s=body["for_s"])
        return Response(documents.result_document(done))
