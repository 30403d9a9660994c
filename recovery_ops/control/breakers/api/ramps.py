"""The machines' door to resets that go in steps: list and look, take the next step, or take no more."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.breakers import serializers as documents_intent
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.ramp_progress import Seen, opinion_of, seen_of
from recovery_ops.control.breakers.services import ramps
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import newest_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected


class Resets(ApiView):
    """`GET /api/v1/resets`: resets of many, the newest first.

    A reset of more than one breaker that is not closed goes in steps: each waits until those before it have shown that
    they stay closed, and the first that opens again halts it.
    """

    asks = paged()

    def get(self, request: Request) -> Response:
        shown, further = newest_of(request, ResetRamp.objects.filter(environment=self.environment))
        rows = [documents_intent.ramp_document(one) for one in shown]
        return Response({"environment": self.environment, "resets": rows, "next": further})


class ResetOf(ApiView):
    """`GET /api/v1/resets/<number>`: how far it has come, what it waits for, and each breaker that it has reset.

    The ETag is its turn, which `continue` and `cancel` may name as If-Match.
    """

    def get(self, request: Request, number: int) -> Response:
        ramp = ResetRamp.objects.filter(environment=self.environment, number=number).first()
        if ramp is None:
            raise CommandRejected(
                "unknown_reset", f"Reset {number} does not exist in {self.environment}.", status=NOT_FOUND
            )
        now = timezone.now()
        answer = documents_intent.ramp_document(ramp)
        seen = seen_of(ramp, now=now)
        if ramp.is_running:
            opinion = opinion_of(ramp, seen, now=now)
            answer |= {"go": opinion.go.value, "said": opinion.sentence}
        members = [_member(one) for one in seen]
        return Response(
            {"environment": self.environment, "reset": answer, "members": members},
            headers={"ETag": f'"{ramp.turn}"'},
        )


class Decide(ApiView):
    """`POST /api/v1/resets/<number>/continue`, `/cancel`: take the next step now, or no further one.

    To go on with one that was halted leaves open what has opened.
    """

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, number: int) -> Response:
        act = ramps.go_on if self.verb == "continue" else ramps.cancel
        return Response(documents.result_document(act(**self.asked(request, self.body(request)), number=number)))


def _member(seen: Seen) -> dict[str, object]:
    one, member = seen.one, seen.member
    return {
        "breaker": one.breaker,
        "service": one.agent.service,
        "instance": one.agent.instance,
        "step": seen.step,
        "state": None if one.state is None else one.state.value,
        "is_reachable": member.is_reachable,
        "has_applied": member.has_applied,
        "closed_for_s": round(member.closed_for_s, 1),
        "opened_after_s": None if member.opened_after_s is None else round(member.opened_after_s, 1),
        "calls": member.calls,
    }
