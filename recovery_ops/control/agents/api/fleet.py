"""The machines' door: shows what the screens show and does what they do, by the same queries and actions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import breaker, breakers, fleet, instance_states, retired, settings_in_force
from events.queries.workload import workloads
from recovery_ops.control.agents import settings_serializers as documents_in_force
from recovery_ops.control.agents.api.instances import agent_asked_for
from recovery_ops.control.agents.effective_settings import in_force_of
from recovery_ops.control.agents.filters import ASKS as FLEET_ASKS
from recovery_ops.control.agents.filters import FleetFilter
from recovery_ops.control.agents.serializers import agent_document, breaker_instance_document, workload_document
from recovery_ops.control.agents.services.labels import label_instance, labels_by_instance
from recovery_ops.control.breakers import serializers as documents_intent
from recovery_ops.control.breakers.filters import ASKS as BREAKER_ASKS
from recovery_ops.control.breakers.filters import BreakerFilter
from recovery_ops.control.breakers.impact import impact_of_all
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.precedence import placed, verdict_of
from recovery_ops.control.breakers.rows import with_in_flight, with_providers
from recovery_ops.control.breakers.selectors import ASK as BREAKER_SHOW
from recovery_ops.control.breakers.selectors import list_of
from recovery_ops.control.breakers.serializers import breaker_document, impact_document, quorum_document
from recovery_ops.control.breakers.services import bulk
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.breakers.services import resets as resets_services
from recovery_ops.control.breakers.services.overrides import resting_id
from recovery_ops.control.breakers.services.probes import probe
from recovery_ops.control.breakers.stuck import findings_of
from recovery_ops.control.core import checks
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import page_of, paged
from recovery_ops.control.core.api.requests import (
    BREAK_GLASS_FIELDS,
    COMMAND_FIELDS,
    ApiView,
    BodySpec,
    assumed_defaults,
    pending_document,
    read_number_parameter,
)
from recovery_ops.control.core.rejections import NOT_FOUND, ApprovalPending, CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.core.serializers import utc_text
from recovery_ops.control.desired_state.document import apply_status, live_policy, read
from recovery_ops.control.desired_state.opamp.agents import is_client
from recovery_ops.control.desired_state.serializers import propagation_document
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.policies.serializers import policy_document
from recovery_ops.control.policies.services import policies as policies_services
from recovery_ops.rules.fleet.breaker_quorum import rule_for
from recovery_ops.rules.policy.model import parse_policy, settings_document
from recovery_ops.rules.policy.scope import ANY, Place, Scope
from recovery_ops.rules.policy.settings import SETTINGS

PARTS = {"service": str, "instance": str, "group": str}
IMPOSE_MORE: dict[str, type] = {"expires_in_s": float, "starts_in_s": float, "ahead": bool, "confirm": str}


class Status(ApiView):
    """`GET /api/v1/status`: summary of the environment, and which instances applied its newest revision."""

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        agents, rows = fleet(here, now=now), breakers(here, now=now)
        revision = current_revision(here)
        shed = LoadShed.objects.in_force(here, now).first()
        return Response(
            {
                "environment": here,
                "revision": revision,
                "policy": policy_document(live_policy(here)),
                "agents": {"total": len(agents), "reporting": sum(row.is_reachable for row in agents)},
                "breakers": {"total": len(rows), "not_flowing": sum(not row.is_flowing for row in rows)},
                "overrides": Override.objects.in_force(here, now).count(),
                "shed": None if shed is None else documents_intent.load_shed_document(shed),
                "applying": propagation_document(apply_status(here, revision, Scope(), now=now, agents=agents)),
            }
        )


class Fleet(ApiView):
    """`GET /api/v1/fleet`: instances that reported in the last 24 hours, by service and name; with `state=retired`
    those retired in the last 31 days.

    `calls`, `attempts`, `successes` and `tokens_per_min` count since `counted_since`, 15 minutes at most.
    `current_run` is empty without a run. Each is null if the instance did not report it, or if the counts that were
    read reach back less than 30 s.
    """

    asks = paged() | FLEET_ASKS

    def get(self, request: Request) -> Response:
        now, asked = timezone.now(), FleetFilter.of(request.query_params)
        labels = labels_by_instance(self.environment)
        found = [
            one
            for one in (retired if asked.is_of_retired else fleet)(self.environment, now=now)
            if asked.keeps(one, now, labels.get((one.service, one.instance), ()))
        ]
        rows, further = page_of(request, found, lambda row: (row.service, row.instance, row.id), (str, str, int))
        work = workloads(self.environment, rows, now=now)
        return Response(
            {
                "environment": self.environment,
                "revision": current_revision(self.environment),
                "counted_since": utc_text(work.since),
                "agents": [
                    agent_document(row, labels.get((row.service, row.instance), ()))
                    | workload_document(work.by_agent[row.id])
                    for row in rows
                ],
                "next": further,
            }
        )


class Labels(ApiView):
    """`POST /api/v1/fleet/labels`: adds comma-separated `labels` to an instance; a minus before a label removes it."""

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | {"service": str, "instance": str, "labels": str},
            needed=("service", "instance", "labels"),
        )
    }

    def post(self, request: Request) -> Response:
        body = self.body(request)
        done = label_instance(
            **self.asked(request, body), service=body["service"], instance=body["instance"], labels=body["labels"]
        )
        one = done.object
        told = {"service": one.service, "instance": one.instance, "labels": one.label_names}
        return Response(told | {"was_already": done.was_already, "dry_run": done.is_dry_run})


class SettingsInForce(ApiView):
    """`GET /api/v1/fleet/settings`: effective and desired value of each setting of one instance.

    `why` is same, code, ceiling, not_declared, not_applied, refused, drifted, unreachable, on_its_way, own, hidden,
    unknown_here, unknown_there or unexplained. An instance that has not reported its settings has no `parts`.
    """

    asks = {
        "service": "its service",
        "instance": "its name",
        "operation": "only this operation",
    }

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        agent = agent_asked_for(request, here, now)
        service, instance = (request.query_params.get(name, "") for name in ("service", "instance"))
        stated = settings_in_force(agent.id)
        is_opamp = not stated and is_client(here, service, instance)
        found = in_force_of(agent, stated, read(here), now=now, is_opamp=is_opamp)
        operation = request.query_params.get("operation")
        return Response(
            {"environment": here} | documents_in_force.effective_settings_document(found, operation=operation)
        )


class Breakers(ApiView):
    """`/api/v1/breakers`: GET breakers by name; POST one `verb` for each of `names`, independently.

    A POST (trip, disable, observe, release, extend, reset or probe) answers with a result for each name: `done`, the
    `problem` of this name only, or the approval `request` that waits. `impact` is that of all together. A reset of
    several breakers that are not closed is one `ramp`. `confirm` repeats the environment's name if one of the
    breakers requires a confirmation.
    """

    asks = paged() | BREAKER_ASKS | {"show": BREAKER_SHOW}
    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | PARTS | BREAK_GLASS_FIELDS | {"verb": str, "names": list} | IMPOSE_MORE,
            needed=("verb", "names"),
        )
    }

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        revision = current_revision(here)  # first: what is read after it is not older
        in_force = list(Override.objects.in_force(here, now))
        # By name, which lasts: a breaker that opens while somebody walks the pages stays in its place.
        asked, show = BreakerFilter.of(request.query_params), request.query_params.get("show", "")
        listed = list_of(Standing(here, now=now))
        if show and show not in listed.shown_by:
            fault = f"must be one of {', '.join(listed.shown_by)}"
            raise CommandRejected("invalid", f"show {fault}.", fields={"show": fault})
        found = [row for row in listed.rows if asked.keeps(row) and (not show or row.name in listed.shown_by[show])]
        rows, further = page_of(request, found, lambda row: (row.name,), (str,))
        rows = with_in_flight(here, rows, now=now)
        told = [
            breaker_document(row, _resting_on((row.name, *row.operations), in_force), listed.stuck.get(row.name, ()))
            for row in rows
        ]
        return self.seen_at({"breakers": told, "next": further}, revision)

    def post(self, request: Request) -> Response:
        body = self.body(request)
        verb, names = body["verb"], body["names"]
        if verb not in bulk.VERBS:
            raise CommandRejected(
                "invalid", f"verb must be one of {', '.join(bulk.VERBS)}.", fields={"verb": "is unknown"}
            )
        if not 1 <= len(names) <= bulk.MOST or not all(isinstance(name, str) and name for name in names):
            fault = f"must be a list of 1 to {bulk.MOST} names"
            raise CommandRejected("invalid", f"names {fault}.", fields={"names": fault})
        where = {part: body[part] for part in PARTS if part in body}
        more = {one: body[one] for one in IMPOSE_MORE if one in body}
        asked = self.asked(request, body)
        scopes = [Scope(operation=name, **where) for name in dict.fromkeys(names)]
        impact = impact_of_all(self.environment, scopes, now=timezone.now())
        results = bulk.each(verb, names, asked, where=where, **more)
        answer = {
            "environment": self.environment,
            "results": [_told(one) for one in results],
            "refused": sum(
                one.rejection is not None and not isinstance(one.rejection, ApprovalPending) for one in results
            ),
            "waiting": sum(isinstance(one.rejection, ApprovalPending) for one in results),
            "dry_run": asked.get("dry_run", False),
            "impact": impact_document(impact),
        }
        return Response(answer | (assumed_defaults(body) if verb in bulk.IMPOSING else {}))


class Breaker(ApiView):
    """`GET /api/v1/breakers/<name>`: one breaker by instance, with the progress of `?revision=` (default: newest)."""

    asks = {"revision": "progress of this revision"}

    def get(self, request: Request, name: str) -> Response:
        now, here = timezone.now(), self.environment
        revision = current_revision(here)
        row = breaker(here, name, now=now)
        overrides = list(Override.objects.in_force(here, now))
        if row is None:
            overrides = _resting_on((name,), overrides)
            if not overrides:
                detail = f"No instance in {here} has reported a breaker {name}."
                raise CommandRejected("unknown_breaker", detail, status=NOT_FOUND)
            in_force = [documents_intent.override_document(one) for one in overrides]
            found = {"name": name, "instances": 0, "overrides": in_force}
        else:
            policy = parse_policy(live_policy(here).document)
            stuck = findings_of(row, policy, now=now)
            [row] = with_providers(here, with_in_flight(here, [row], now=now), now=now)
            found = breaker_document(row, _resting_on((row.name, *row.operations), overrides), stuck)
            found["quorum"] = quorum_document(rule_for(policy.quorum, row.name, row.operations), row)
        wanted = read_number_parameter(request, "revision", revision)
        summary = apply_status(here, wanted, Scope(operation=name), now=now)
        told = {
            "breaker": found,
            "instances": [breaker_instance_document(one) for one in instance_states(here, name, now=now)],
            "applying": propagation_document(summary),
        }
        return self.seen_at(told, revision)


class Impose(ApiView):
    """`POST /api/v1/breakers/<name>/trip`, `/disable`, `/observe`: for `expires_in_s` seconds.

    The default is one hour; the answer then lists it in `assumed`. `confirm` repeats the breaker's name for all
    services of a production environment, and the environment's name for every breaker (`*`).
    """

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS | PARTS | BREAK_GLASS_FIELDS | IMPOSE_MORE)}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        rest: dict[str, Any] = {one: body[one] for one in IMPOSE_MORE if one in body}
        impose = {
            "trip": overrides_services.trip,
            "disable": overrides_services.disable,
            "observe": overrides_services.observe,
        }[self.verb]
        done = impose(**self.asked(request, body), **rest, scope=_scope(name, body))
        return Response(documents.result_document(done) | assumed_defaults(body))


class Release(ApiView):
    """`POST /api/v1/breakers/<name>/release`: clears the override of exactly the given scope, or `override_id`."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | PARTS | {"override_id": str})}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        override_id = _override_id(self.environment, name, body)
        return Response(
            documents.result_document(overrides_services.release(**self.asked(request, body), override_id=override_id))
        )


class Extend(ApiView):
    """`POST /api/v1/breakers/<name>/extend`: sets the end of the override to `expires_in_s` from now."""

    takes = {
        "POST": BodySpec(
            COMMAND_FIELDS | PARTS | {"override_id": str, "expires_in_s": float} | BREAK_GLASS_FIELDS,
            needed=("expires_in_s",),
        )
    }

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        override_id = _override_id(self.environment, name, body)
        asked = self.asked(request, body)
        done = overrides_services.extend(**asked, override_id=override_id, expires_in_s=body["expires_in_s"])
        return Response(documents.result_document(done))


class Reset(ApiView):
    """`POST /api/v1/breakers/<name>/reset`: closes it with a fresh window.

    If several instances are not closed, the reset is gradual: the answer has a `ramp` in place of a `reset`, and
    `/api/v1/resets/<number>` has its progress.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | PARTS)}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        return Response(
            documents.result_document(resets_services.reset(**self.asked(request, body), scope=_scope(name, body)))
        )


class Probe(ApiView):
    """`POST /api/v1/breakers/<name>/probe`: lets one call through an open breaker now."""

    takes = {"POST": BodySpec(COMMAND_FIELDS | PARTS)}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        return Response(documents.result_document(probe(**self.asked(request, body), scope=_scope(name, body))))


class Overrides(ApiView):
    """`GET /api/v1/overrides`: active and scheduled overrides, newest first."""

    asks = paged()

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        revision = current_revision(here)
        found = Override.objects.live(here).filter(expires_at__gt=now)
        live, further = page_of(request, found, lambda one: (-one.revision, one.pk), (int, str))
        told = {
            "overrides": [documents_intent.override_document(one) for one in live if one.starts_at <= now],
            "ahead": [documents_intent.override_document(one) for one in live if one.starts_at > now],
            "next": further,
        }
        return self.seen_at(told, revision)


class Explain(ApiView):
    """`GET /api/v1/explain`: the override and the rule that win at a place, and the reason."""

    asks = {
        "operation": "operation to explain",
        "breaker": "breaker, if its name differs from the operation",
        "service": "service; default: that of the instance",
        "instance": "instance",
        "group": "group",
        "kind": "operation, model, tool, document, sandbox",
    }

    def get(self, request: Request) -> Response:
        said = {name: request.query_params.get(name, "") for name in self.asks}
        now = timezone.now()
        place = Place(
            operation=said["operation"],
            breaker=said["breaker"] or said["operation"],
            service=said["service"],
            instance=said["instance"],
            group=said["group"],
        )
        place = placed(self.environment, place, now=now)
        found = verdict_of(read(self.environment), place, now=now, kind=said["kind"] or "operation")
        return Response({"environment": self.environment, "place": asdict(place), **asdict(found)})


class OperationPolicy(ApiView):
    """`/api/v1/policies/operations/<operation>`: GET the settings, PATCH `settings` (null removes one).

    `effective` are the values for the kind `operation`. Values in the agent's code win over the defaults; the server
    does not know them.
    """

    asks = {"service": "the policy in one service"}
    takes = {
        "PATCH": BodySpec(
            COMMAND_FIELDS | {"settings": dict, "service": str, "ahead": bool, "break_glass": bool},
            needed=("settings",),
        )
    }

    def get(self, request: Request, operation: str) -> Response:
        service = request.query_params.get("service", ANY)
        checks.raise_for_errors(checks.scope_errors(Scope(operation=operation, service=service)))
        revision = current_revision(self.environment)
        live = live_policy(self.environment)
        place = Place(service=service, instance="", operation=operation)
        effective = parse_policy(live.document, version=live.version).for_operation(place)
        return self.seen_at(
            {
                "operation": operation,
                "service": service,
                "settings": policies_services.settings_of(live.document, Scope(operation=operation, service=service)),
                "effective": settings_document(effective.settings),
                "winning_rules": list(effective.winning_rules),
                "policy": policy_document(live),
            },
            revision,
        )

    def patch(self, request: Request, operation: str) -> Response:
        body = self.body(request)
        if not body["settings"]:
            raise CommandRejected(
                "invalid",
                f"settings is empty; use one or more of {', '.join(SETTINGS)}.",
                fields={"settings": "must not be empty"},
            )
        done = policies_services.set_operation_policy(
            **self.asked(request, body),
            operation=operation,
            service=body.get("service", ANY),
            settings=body["settings"],
            ahead=body.get("ahead", False),
        )
        return Response(documents.result_document(done))


class Nothing(ApiView):
    """Any other address under /api/v1/."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise CommandRejected("not_found", f"{request.path} does not exist.", status=NOT_FOUND)


def _told(result: bulk.Result) -> dict[str, Any]:
    if result.done is not None:
        return {"name": result.name, "done": documents.result_document(result.done)}
    rejection = result.rejection
    if rejection is None:
        raise ValueError(result.name)
    if isinstance(rejection, ApprovalPending):
        return {"name": result.name, **pending_document(rejection)}
    problem = documents.problem_document(
        rejection.status, rejection.code, rejection.detail, fields=rejection.fields, changes=rejection.changes
    )
    return {"name": result.name, "problem": problem}


def _scope(name: str, body: dict[str, Any]) -> Scope:
    return Scope(operation=name, **{part: body[part] for part in PARTS if part in body})


def _resting_on(names: tuple[str, ...], overrides: list[Override]) -> list[Override]:
    """The overrides that speak of one of these names: in all of the environment or a part of it."""
    places = [Place(service="", instance="", operation=name) for name in names]
    return [one for one in overrides if any(Scope(operation=one.operation).holds(place) for place in places)]


def _override_id(environment: str, name: str, body: dict[str, Any]) -> str:
    """The override that a request means: by its id, or by its scope."""
    if "override_id" in body:
        return str(body["override_id"])
    return resting_id(environment, _scope(name, body))
