"""The machines' door to what waits for a second person: list and look; agreeing is for people."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control import documents
from recovery_ops.control.actions.second import agree, reject, review_glass
from recovery_ops.control.api.paging import newest_of, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.desired import current_revision
from recovery_ops.control.documents.intent import of_held
from recovery_ops.control.models import HeldAct
from recovery_ops.control.refusals import UNKNOWN, Refused

DECIDE = {"agree": agree, "reject": reject, "review": review_glass}


class Requests(Api):
    """`GET /api/v1/requests`: what was asked for where two persons have to want it, the newest first.

    `state=waiting` are those that somebody may still agree to, `state=glass` those that went without a second person
    and wait for somebody to look at them.
    """

    asks = paged() | {"state": ", ".join(HeldAct.STATES)}

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        found = HeldAct.objects.filter(environment=here)
        if state := request.query_params.get("state", ""):
            if state not in HeldAct.STATES:
                fault = f"is one of {', '.join(HeldAct.STATES)}"
                raise Refused("invalid", f"state {fault}.", fields={"state": fault})
            found = HeldAct.objects.waiting(here, now) if state == HeldAct.WAITING else found.filter(state=state)
        shown, further = newest_of(request, found)
        rows = [of_held(one, now=now) for one in shown]
        return Response({"environment": here, "revision": current_revision(here), "requests": rows, "next": further})


class RequestOf(Api):
    """`GET /api/v1/requests/<number>`: what was asked for, by whom and why, and what became of it."""

    def get(self, request: Request, number: int) -> Response:
        held = HeldAct.objects.filter(environment=self.environment, number=number).first()
        if held is None:
            raise Refused("unknown_request", f"There is no request {number} in {self.environment}.", status=UNKNOWN)
        return Response({"environment": self.environment, "request": of_held(held, now=timezone.now())})


class Decide(Api):
    """`POST /api/v1/requests/<number>/agree`, `/reject`, `/review`: for people other than who asked.

    To agree carries it out. Who asked for it may `reject` it too: then it is withdrawn. `review` is for what went
    without a second person. If-Match is the revision of the environment that was looked at.
    """

    verb = ""
    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, number: int) -> Response:
        return Response(documents.of_done(DECIDE[self.verb](**self.asked(request, self.body(request)), number=number)))
