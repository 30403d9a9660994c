"""The machines' door to one instance: how it stood over a range, and what it told last."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import agent_named
from events.queries.instance import last_events_of
from events.queries.over_time import Stretch, instance_over_time
from events.rows import AgentRow
from recovery_ops.control import documents
from recovery_ops.control.actions.instances import VERBS, Result, act_on_each
from recovery_ops.control.actions.labelling import labels_of
from recovery_ops.control.api.capacity import RANGE, range_of
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.documents import Document
from recovery_ops.control.documents.intent import moment
from recovery_ops.control.refusals import UNKNOWN, Refused

BULK_MOST = 200


def agent_asked_for(request: Request, environment: str, now: datetime) -> AgentRow:
    """The instance that an address names. Raises Refused, 404, for one that never reported."""
    service, instance = (request.query_params.get(name, "") for name in ("service", "instance"))
    agent = agent_named(environment, service, instance, now=now)
    if agent is None:
        detail = f"No instance {service}/{instance} has ever reported in {environment}."
        raise Refused("unknown_instance", detail, status=UNKNOWN)
    return agent


class Instance(Api):
    """`GET /api/v1/fleet/instance`: one instance, how it stood in a range, and its last events.

    `states` follow one another, `waits` are when it waited on capacity, `restarts` when it began again under its name;
    all three are null for who tells no heartbeats. Of a range longer than a day they are of its last day, of one
    with very many facts of its newer part: `since`.
    """

    asks = {"service": "of which service", "instance": "which instance"} | RANGE

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        agent = agent_asked_for(request, here, now)
        start, end = range_of(request, now)
        found = instance_over_time(agent, start=start, end=end)
        told = {
            "agent": documents.of_agent(agent, labels_of(here, agent.service, agent.instance)),
            "since": None if found is None else moment(found.start),
            "states": None if found is None else [_of_stretch(one) for one in found.stretches],
            "waits": None if found is None else [_of_stretch(one) for one in found.waits],
            "restarts": None if found is None else [moment(at) for at in found.restarts],
            "events": [
                {
                    "at": moment(one.at),
                    "event": one.event,
                    "severity": one.severity,
                    "operation": one.operation,
                    "category": one.category,
                    "run": one.run,
                    "body": one.body,
                }
                for one in last_events_of(agent.id, last_seen=agent.last_seen)
            ],
        }
        return Response({"environment": here} | told)


class Instances(Api):
    """`POST /api/v1/fleet/instances`: one `verb` (label, retire, restore) for each of `instances`, each by itself.

    Each is an object with `service` and `instance`; `labels` are what `label` gives, those behind a minus go. The
    answer has a result for each: `done`, or the `problem` that stopped this one and no other.
    """

    takes = {
        "POST": Takes(WHY | {"verb": str, "instances": list, "labels": str}, needed=("reason", "verb", "instances"))
    }

    def post(self, request: Request) -> Response:
        body = self.body(request)
        verb, named = body["verb"], _named(body["instances"])
        if verb not in VERBS:
            raise Refused("invalid", f"verb is one of {', '.join(VERBS)}.", fields={"verb": "is not known"})
        asked = self.asked(request, body)
        results = act_on_each(
            verb,
            named,
            by=asked["by"],
            environment=self.environment,
            reason=asked["reason"],
            key=asked.get("key"),
            dry_run=asked.get("dry_run", False),
            labels=body.get("labels", ""),
        )
        refused = sum(one.refusal is not None for one in results)
        return Response(
            {"environment": self.environment, "results": [_of_result(one) for one in results], "refused": refused}
        )


def _named(given: list[Any]) -> list[tuple[str, str]]:
    names = [
        (one["service"], one["instance"])
        for one in given
        if isinstance(one, dict)
        and one.keys() == {"service", "instance"}
        and all(isinstance(name, str) and name.isprintable() for name in one.values())
    ]
    if not 1 <= len(given) <= BULK_MOST or len(names) < len(given):
        fault = f"is a list of 1 to {BULK_MOST} objects with service and instance"
        raise Refused("invalid", f"instances {fault}.", fields={"instances": fault})
    return names


def _of_result(one: Result) -> Document:
    named = {"service": one.service, "instance": one.instance}
    if one.refusal is not None:
        refusal = one.refusal
        problem = documents.of_problem(refusal.status, refusal.code, refusal.detail, fields=refusal.fields)
        return named | {"problem": problem}
    assert one.done is not None  # noqa: S101  # what was not refused was done
    held, told = one.done.object, {"was_already": one.done.was_already, "dry_run": one.done.is_dry_run}
    if isinstance(held, AgentRow):
        return named | {"done": told | {"retired_at": moment(held.retired_at)}}
    return named | {"done": told | {"labels": held.label_names}}


def _of_stretch(one: Stretch) -> Document:
    return {"what": one.word, "start": moment(one.start), "end": moment(one.end)}
