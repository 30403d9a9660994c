"""The machines' door to paused work: who begins no new runs, have some begin none, and take that back."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import fleet
from recovery_ops.control.actions.pausing import TARGETS_MOST, Target, pause_work, resume_work
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.documents import pauses as documents_pauses
from recovery_ops.control.paused import Pauses as Found
from recovery_ops.control.refusals import Refused

_WHOM = {"targets": list}
_FAULT = f"is a list of 1 to {TARGETS_MOST} objects with service and, where one is meant, instance"
_EMPTY = "names an empty instance: leave instance out where all of the service is meant"


class Pauses(Api):
    """`GET /api/v1/fleet/pauses`: what is paused, or was resumed a short time ago, with what each instance says of it.

    `told` is `drained`, `draining`, `not heard yet`, `takes work all the same`, `does not tell`, `silent`, or
    `takes new work` after its end.
    """

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        found = Found(here, now).activities(fleet(here, now=now))
        return Response({"environment": here, "activities": [documents_pauses.of_activity(one) for one in found]})


class Pause(Api):
    """`POST /api/v1/fleet/pause`: have instances begin no new runs; those under way go on.

    `targets` are objects with `service` and, where not all of it is meant, `instance`, which is not empty then: what
    `fleet/pauses` tells of a whole service (`"instance": ""`) can be resumed as it is told, not paused. `expires_in_s`
    is an hour where it is not said, and `until_resumed` true means no end. Whether they do is told by the agents:
    `fleet/pauses`.
    """

    takes = {
        "POST": Takes(
            WHY | _WHOM | {"expires_in_s": float, "until_resumed": bool},
            needed=("reason", "targets"),
        )
    }

    def post(self, request: Request) -> Response:
        body = self.body(request)
        more = {"expires_in_s": body["expires_in_s"]} if "expires_in_s" in body else {}
        if body.get("until_resumed", False):
            if more:
                fault = "has no end where until_resumed is true"
                raise Refused("invalid", f"expires_in_s {fault}.", fields={"expires_in_s": fault})
            more = {"expires_in_s": None}
        targets = _targets(body["targets"])
        if not all(one.get("instance", "all") for one in body["targets"]):
            # A program's variable that was not set must not mean all of the service.
            raise Refused("invalid", f"targets {_EMPTY}.", fields={"targets": _EMPTY})
        done = pause_work(**self.asked(request, body), targets=targets, **more)
        return Response({"environment": self.environment} | documents_pauses.of_done(done))


class Resume(Api):
    """`POST /api/v1/fleet/resume`: let them begin runs again. 409 where none of `targets` is paused by itself."""

    takes = {"POST": Takes(WHY | _WHOM, needed=("reason", "targets"))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = resume_work(**self.asked(request, body), targets=_targets(body["targets"]))
        return Response({"environment": self.environment} | documents_pauses.of_done(done))


def _targets(given: list[Any]) -> list[Target]:
    found = [
        (one["service"], one.get("instance", ""))
        for one in given
        if isinstance(one, dict)
        and {"service"} <= one.keys() <= {"service", "instance"}
        and all(isinstance(name, str) and name.isprintable() for name in one.values())
    ]
    if not 1 <= len(given) <= TARGETS_MOST or len(found) < len(given):
        raise Refused("invalid", f"targets {_FAULT}.", fields={"targets": _FAULT})
    return found
