"""The machines' door to rollouts: begin one, watch it, promote it, prolong it, take it back."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import fleet
from recovery_ops.control import actions, documents
from recovery_ops.control.api.paging import newest_of, paged
from recovery_ops.control.api.requests import COHORT, GLASS, WHY, Api, Takes
from recovery_ops.control.desired import Standards, apply_status_of, read
from recovery_ops.control.evidence import evidence_of, figures_of, split
from recovery_ops.control.models import PolicyRollout
from recovery_ops.control.refusals import UNKNOWN, Refused

_ASKED: dict[str, type] = COHORT | {"accepts_golden": bool}


class RollOut(Api):
    """`POST /api/v1/policies/proposals/<number>/roll-out`: let a part of the fleet obey it first.

    `share` of the instances (0.1) of a `service` and a `group`, for `for_s` seconds (900); the health gate needs
    `least_calls` on each side. It is promoted when the time is over and the cohort is well, and taken back when not.
    """

    takes = {"POST": Takes(WHY | GLASS | _ASKED)}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        more: dict[str, Any] = {name: body[name] for name in _ASKED if name in body}
        return Response(documents.of_done(actions.start_rollout(**self.asked(request, body), number=number, **more)))


class Rollouts(Api):
    """`GET /api/v1/policies/rollouts`: the newest first."""

    asks = paged()

    def get(self, request: Request) -> Response:
        found = PolicyRollout.objects.filter(environment=self.environment).select_related("proposal")
        shown, further = newest_of(request, found)
        rows = [documents.of_rollout(one) for one in shown]
        return Response({"environment": self.environment, "rollouts": rows, "next": further})


class Rollout(Api):
    """`GET /api/v1/policies/rollouts/<number>`: what the gate says, both sides' figures, and who has applied it.

    The ETag is its step, which every decision may name as If-Match.
    """

    def get(self, request: Request, number: int) -> Response:
        found = PolicyRollout.objects.filter(environment=self.environment, number=number)
        rollout = found.select_related("proposal").first()
        if rollout is None:
            raise Refused("unknown_rollout", f"There is no rollout {number} in {self.environment}.", status=UNKNOWN)
        now = timezone.now()
        agents = fleet(self.environment, now=now)
        answer: dict[str, Any] = {"environment": self.environment, "rollout": documents.of_rollout(rollout)}
        if rollout.is_running:
            evidence = evidence_of(rollout, now=now, agents=agents)
            opinion = evidence.opinion(rollout)
            answer["rollout"] |= {"health": opinion.health.value, "said": opinion.sentence}
            answer["rollout"]["figures"] = figures_of(evidence)
        standards = Standards(read(self.environment))
        revision = rollout.end_revision or rollout.revision
        for side, members in zip(("cohort", "others"), split(rollout, agents), strict=True):
            answer[side] = documents.of_applying(apply_status_of(members, revision, standards))
        return Response(answer, headers={"ETag": f'"{rollout.step}"'})


class Decide(Api):
    """`POST /api/v1/policies/rollouts/<number>/promote`, `/take-back`: end a rollout by hand, for all or for none."""

    verb = ""
    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, number: int) -> Response:
        asked = self.asked(request, self.body(request))
        if self.verb == "promote":
            return Response(documents.of_done(actions.promote(**asked, number=number)))
        return Response(documents.of_done(actions.take_back(**asked, number=number)))


class Extend(Api):
    """`POST /api/v1/policies/rollouts/<number>/extend`: let it go on for `for_s` seconds more."""

    takes = {"POST": Takes(WHY | {"for_s": float}, needed=("reason", "for_s"))}

    def post(self, request: Request, number: int) -> Response:
        body = self.body(request)
        done = actions.extend_rollout(**self.asked(request, body), number=number, for_s=body["for_s"])
        return Response(documents.of_done(done))
