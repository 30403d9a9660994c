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
from recovery_ops.control.agents.serializers import agent_document
from recovery_ops.control.agents.services.instances import VERBS, Result, act_on_each
from recovery_ops.control.agents.services.labels import labels_of
from recovery_ops.control.capacity.api import RANGE, range_of
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.serializers import Document, utc_text

BULK_MOST = 200


def agent_asked_for(request: Request, environment: str, now: datetime) -> AgentRow:
    """The instance that an address names. Raises CommandRejected, 404, for one that never reported."""
    service, instance = (request.query_params.get(name, "") for name in ("service", "instance"))
    agent = agent_named(environment, service, instance, now=now)
    if agent is None:
        detail = f"No instance {service}/{instance} has reported in {environment}."
        raise CommandRejected("unknown_instance", detail, status=NOT_FOUND)
    return agent


class Instance(ApiView):
    """`GET /api/v1/fleet/instance`: one instance, its status in a range, and its last events.

    `states` are consecutive; `waits` are waits for capacity; `restarts` are restarts under the same name. All three
    are null for an instance without heartbeats. They cover the last day of the range, or less if it has very many
    events: see `since`.
    """

    asks = {"service": "its service", "instance": "its name"} | RANGE

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        agent = agent_asked_for(request, here, now)
        start, end = range_of(request, now)
        found = instance_over_time(agent, start=start, end=end)
        told = {
            "agent": agent_document(agent, labels_of(here, agent.service, agent.instance)),
            "since": None if found is None else utc_text(found.start),
            "states": None if found is None else [_of_stretch(one) for one in found.stretches],
            "waits": None if found is None else [_of_stretch(one) for one in found.waits],
            "restarts": None if found is None else [utc_text(at) for at in found.restarts],
            "events": [
                {
                    "at": utc_text(one.at),
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


class Instances(ApiView):
    """`POST /api/v1/fleet/instances`: one `verb` for each of `instances`, independently: label, retire, restore, offer.

    Each is an object with `service` and `instance`. `labels` belong to the verb `label`; a minus before a label removes
    it. `offer` gives an OpAMP client again what it could not apply. The answer has a result for each: `done`, or the
    `problem` of this one only.
    """

    takes = {
        "POST": BodySpec(COMMAND_FIELDS | {"verb": str, "instances": list, "labels": str}, needed=("verb", "instances"))
    }

    def post(self, request: Request) -> Response:
        body = self.body(request)
        verb, named = body["verb"], _named(body["instances"])
        if verb not in VERBS:
            raise CommandRejected("invalid", f"verb must be one of {', '.join(VERBS)}.", fields={"verb": "is unknown"})
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
        refused = sum(one.rejection is not None for one in results)
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
        fault = f"must be a list of 1 to {BULK_MOST} objects with service and instance"
        raise CommandRejected("invalid", f"instances {fault}.", fields={"instances": fault})
    return names


def _of_result(one: Result) -> Document:
    named = {"service": one.service, "instance": one.instance}
    if one.rejection is not None:
        rejection = one.rejection
        problem = documents.problem_document(
            rejection.status, rejection.code, rejection.detail, fields=rejection.fields
        )
        return named | {"problem": problem}
    assert one.done is not None  # noqa: S101  # what was not refused was done
    held, told = one.done.object, {"was_already": one.done.was_already, "dry_run": one.done.is_dry_run}
    if isinstance(held, AgentRow):
        return named | {"done": told | {"retired_at": utc_text(held.retired_at)}}
    return named | {"done": told | {"labels": held.label_names}}


def _of_stretch(one: Stretch) -> Document:
    return {"what": one.word, "start": utc_text(one.start), "end": utc_text(one.end)}
