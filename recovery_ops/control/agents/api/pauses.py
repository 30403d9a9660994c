"""The machines' door to paused and stopped agents: their progress, pause, stop and resume."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import fleet
from recovery_ops.control.agents.pause_status import Pauses as Found
from recovery_ops.control.agents.serializers import activity_document, pause_result_document
from recovery_ops.control.agents.services.pauses import TARGETS_MOST, Target, pause_work, resume_work, stop_agents
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import CommandRejected

_WHOM = {"targets": list}
_FAULT = f"must be a list of 1 to {TARGETS_MOST} objects with service and optionally instance"
_EMPTY = "has an empty instance; omit instance for the whole service"


class Pauses(ApiView):
    """`GET /api/v1/fleet/pauses`: pauses and stops in effect or resumed recently, with the progress of each instance.

    `told` is `drained`, `draining`, `stopped`, `stopping`, `only pauses` (of a version that knows no stop), `not heard
    yet`, `takes work all the same`, `does not tell`, `silent`, or `takes new work` after its end.
    """

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        found = Found(here, now).activities(fleet(here, now=now))
        return Response({"environment": here, "activities": [activity_document(one) for one in found]})


class Pause(ApiView):
    """`POST /api/v1/fleet/pause`: pause new runs of instances; runs in flight continue.

    `targets` are objects with `service` and optionally a non-empty `instance`. A whole service as in `fleet/pauses`
    (`"instance": ""`) can be resumed, not paused. `expires_in_s` defaults to one hour; `until_resumed` true means no
    end. `fleet/pauses` has the progress of each instance.
    """

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | _WHOM | {"expires_in_s": float, "until_resumed": bool},
            needed=("targets",),
        )
    }

    def post(self, request: Request) -> Response:
        body = self.body(request)
        more = {"expires_in_s": body["expires_in_s"]} if "expires_in_s" in body else {}
        if body.get("until_resumed", False):
            if more:
                fault = "must be absent if until_resumed is true"
                raise CommandRejected("invalid", f"expires_in_s {fault}.", fields={"expires_in_s": fault})
            more = {"expires_in_s": None}
        done = pause_work(**self.asked(request, body), targets=_named_targets(body["targets"]), **more)
        return Response({"environment": self.environment} | pause_result_document(done))


class Stop(ApiView):
    """`POST /api/v1/fleet/stop`: stop instances; runs in flight are aborted, new runs and calls outside runs rejected.

    `targets` are those of `fleet/pause`, and a stop replaces a pause of the same target. `expires_in_s` defaults to one
    hour; `fleet/resume` ends the stop earlier. `fleet/pauses` has the progress of each instance.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | _WHOM | {"expires_in_s": float}, needed=("targets",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        lasts: dict[str, float] = {"expires_in_s": body["expires_in_s"]} if "expires_in_s" in body else {}
        done = stop_agents(**self.asked(request, body), targets=_named_targets(body["targets"]), **lasts)
        return Response({"environment": self.environment} | pause_result_document(done))


class Resume(ApiView):
    """`POST /api/v1/fleet/resume`: resume paused or stopped instances. 409 if none of `targets` is one individually."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | _WHOM, needed=("targets",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = resume_work(**self.asked(request, body), targets=_targets(body["targets"]))
        return Response({"environment": self.environment} | pause_result_document(done))


def _named_targets(given: list[Any]) -> list[Target]:
    """Targets of a pause or stop: an empty instance is a program's variable that was not set, never a whole service."""
    targets = _targets(given)
    if not all(one.get("instance", "all") for one in given):
        raise CommandRejected("invalid", f"targets {_EMPTY}.", fields={"targets": _EMPTY})
    return targets


def _targets(given: list[Any]) -> list[Target]:
    found = [
        (one["service"], one.get("instance", ""))
        for one in given
        if isinstance(one, dict)
        and {"service"} <= one.keys() <= {"service", "instance"}
        and all(isinstance(name, str) and name.isprintable() for name in one.values())
    ]
    if not 1 <= len(given) <= TARGETS_MOST or len(found) < len(given):
        raise CommandRejected("invalid", f"targets {_FAULT}.", fields={"targets": _FAULT})
    return found
