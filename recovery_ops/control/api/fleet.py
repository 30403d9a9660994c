"""The machines' door: shows what the screens show and does what they do, by the same queries and actions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import breaker, breakers, fleet, instance_states, retired, settings_in_force
from events.queries.workload import workloads
from recovery_ops.control import actions, documents
from recovery_ops.control.actions import Done, bulk, checks
from recovery_ops.control.actions.labelling import label_instance, labels_by_instance
from recovery_ops.control.actions.overrides import resting_id
from recovery_ops.control.actions.probes import probe
from recovery_ops.control.actions.watching import unwatch, watch
from recovery_ops.control.api.instances import agent_asked_for
from recovery_ops.control.api.paging import page_of, paged
from recovery_ops.control.api.requests import GLASS, WHY, Api, Takes, assumed, waiting, whole_of
from recovery_ops.control.breaker_filter import ASKS as BREAKER_ASKS
from recovery_ops.control.breaker_filter import BreakerFilter
from recovery_ops.control.breaker_list import ASK as BREAKER_SHOW
from recovery_ops.control.breaker_list import list_of
from recovery_ops.control.breaker_rows import with_in_flight, with_providers
from recovery_ops.control.desired import apply_status, current_revision, live_policy, read
from recovery_ops.control.desired_standing import Standing
from recovery_ops.control.documents import in_force as documents_in_force
from recovery_ops.control.documents import intent as documents_intent
from recovery_ops.control.fleet_filter import ASKS as FLEET_ASKS
from recovery_ops.control.fleet_filter import FleetFilter
from recovery_ops.control.impact import impact_of_all
from recovery_ops.control.in_force import in_force_of
from recovery_ops.control.models import LoadShed, Override
from recovery_ops.control.opamp.agents import is_client
from recovery_ops.control.precedence import placed, verdict_of
from recovery_ops.control.refusals import UNKNOWN, Held, Refused
from recovery_ops.control.stuck import findings_of
from recovery_ops.rules.knobs import KNOBS
from recovery_ops.rules.policy import knobs_document, parse_policy
from recovery_ops.rules.quorum import rule_for
from recovery_ops.rules.scope import ANY, Place, Scope

PARTS = {"service": str, "instance": str, "group": str}
IMPOSE_MORE: dict[str, type] = {"expires_in_s": float, "starts_in_s": float, "ahead": bool, "confirm": str}


class Status(Api):
    """`GET /api/v1/status`: the environment in a few numbers, and who obeys its newest revision."""

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        agents, rows = fleet(here, now=now), breakers(here, now=now)
        revision = current_revision(here)
        shed = LoadShed.objects.in_force(here, now).first()
        return Response(
            {
                "environment": here,
                "revision": revision,
                "policy": documents.of_policy(live_policy(here)),
                "agents": {"total": len(agents), "reporting": sum(row.is_reachable for row in agents)},
                "breakers": {"total": len(rows), "not_flowing": sum(not row.is_flowing for row in rows)},
                "overrides": Override.objects.in_force(here, now).count(),
                "shed": None if shed is None else documents_intent.of_shed(shed),
                "applying": documents.of_applying(apply_status(here, revision, Scope(), now=now, agents=agents)),
            }
        )


class Fleet(Api):
    """`GET /api/v1/fleet`: the instances that reported within a day, by service and name; with `state=retired` those
    that people retired within a month.

    `calls`, `attempts`, `successes` and `tokens_per_min` are what each counted since `counted_since`, a quarter of an
    hour at most; `current_run` is empty where it is at none. All of them are null where it was not told, and the
    figures of an instance without a count where the counts that were read reach back less than 30 s.
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
                "counted_since": documents_intent.moment(work.since),
                "agents": [
                    documents.of_agent(row, labels.get((row.service, row.instance), ()))
                    | documents.of_workload(work.by_agent[row.id])
                    for row in rows
                ],
                "next": further,
            }
        )


class Labels(Api):
    """`POST /api/v1/fleet/labels`: gives an instance `labels`, by commas, and takes those behind a minus away."""

    takes = {
        "POST": Takes(
            WHY | {"service": str, "instance": str, "labels": str}, needed=("reason", "service", "instance", "labels")
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


class SettingsInForce(Api):
    """`GET /api/v1/fleet/settings`: what one instance really goes by, setting by setting, beside what is desired of it.

    `why` is same, code, ceiling, not_declared, not_applied, refused, drifted, unreachable, on_its_way, own, hidden,
    unknown_here, unknown_there or unexplained. An instance that has not said what it runs has no `parts`.
    """

    asks = {"service": "of which service", "instance": "which instance", "operation": "this one alone"}

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        agent = agent_asked_for(request, here, now)
        service, instance = (request.query_params.get(name, "") for name in ("service", "instance"))
        stated = settings_in_force(agent.id)
        is_opamp = not stated and is_client(here, service, instance)
        found = in_force_of(agent, stated, read(here), now=now, is_opamp=is_opamp)
        operation = request.query_params.get("operation")
        return Response({"environment": here} | documents_in_force.of_in_force(found, operation=operation))


class Breakers(Api):
    """`/api/v1/breakers`: GET breakers by name; POST one `verb` for each of `names`, each by itself.

    A POST (trip, disable, observe, release, extend, reset or probe) answers with a result for each: `done`, or the
    `problem` that stopped this one and no other, or the `request` that waits for a second person; and in `impact` with
    what all of them touch together. A reset of more than one that is not closed is one `ramp` for all of them.
    `confirm` repeats the environment's name where one of them would ask for a confirmation.
    """

    asks = paged() | BREAKER_ASKS | {"show": BREAKER_SHOW}
    takes = {
        "POST": Takes(
            WHY | PARTS | GLASS | {"verb": str, "names": list} | IMPOSE_MORE,
            needed=("reason", "verb", "names"),
        )
    }

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        revision = current_revision(here)  # first: what is read after it is not older
        held = list(Override.objects.in_force(here, now))
        # By name, which lasts: a breaker that opens while somebody walks the pages stays in its place.
        asked, show = BreakerFilter.of(request.query_params), request.query_params.get("show", "")
        listed = list_of(Standing(here, now=now))
        if show and show not in listed.shown_by:
            fault = f"is one of {', '.join(listed.shown_by)}"
            raise Refused("invalid", f"show {fault}.", fields={"show": fault})
        found = [row for row in listed.rows if asked.keeps(row) and (not show or row.name in listed.shown_by[show])]
        rows, further = page_of(request, found, lambda row: (row.name,), (str,))
        rows = with_in_flight(here, rows, now=now)
        told = [
            documents.of_breaker(row, _resting_on((row.name, *row.operations), held), listed.stuck.get(row.name, ()))
            for row in rows
        ]
        return self.seen_at({"breakers": told, "next": further}, revision)

    def post(self, request: Request) -> Response:
        body = self.body(request)
        verb, names = body["verb"], body["names"]
        if verb not in bulk.VERBS:
            raise Refused("invalid", f"verb is one of {', '.join(bulk.VERBS)}.", fields={"verb": "is not known"})
        if not 1 <= len(names) <= bulk.MOST or not all(isinstance(name, str) and name for name in names):
            fault = f"is a list of 1 to {bulk.MOST} names"
            raise Refused("invalid", f"names {fault}.", fields={"names": fault})
        where = {part: body[part] for part in PARTS if part in body}
        more = {one: body[one] for one in IMPOSE_MORE if one in body}
        asked = self.asked(request, body)
        scopes = [Scope(operation=name, **where) for name in dict.fromkeys(names)]
        impact = impact_of_all(self.environment, scopes, now=timezone.now())
        results = bulk.each(verb, names, asked, where=where, **more)
        answer = {
            "environment": self.environment,
            "results": [_told(one) for one in results],
            "refused": sum(one.refusal is not None and not isinstance(one.refusal, Held) for one in results),
            "waiting": sum(isinstance(one.refusal, Held) for one in results),
            "dry_run": asked.get("dry_run", False),
            "impact": documents.of_impact(impact),
        }
        return Response(answer | (assumed(body) if verb in bulk.IMPOSING else {}))


class Breaker(Api):
    """`GET /api/v1/breakers/<name>`: instance by instance, and who obeys `?revision=` (else the newest)."""

    asks = {"revision": "who obeys this one"}

    def get(self, request: Request, name: str) -> Response:
        now, here = timezone.now(), self.environment
        revision = current_revision(here)
        row = breaker(here, name, now=now)
        overrides = list(Override.objects.in_force(here, now))
        if row is None:
            overrides = _resting_on((name,), overrides)
            if not overrides:
                detail = f"No instance in {here} has ever reported a breaker called {name}."
                raise Refused("unknown_breaker", detail, status=UNKNOWN)
            held = [documents_intent.of_override(one) for one in overrides]
            found = {"name": name, "instances": 0, "overrides": held}
        else:
            policy = parse_policy(live_policy(here).document)
            stuck = findings_of(row, policy, now=now)
            [row] = with_providers(here, with_in_flight(here, [row], now=now), now=now)
            found = documents.of_breaker(row, _resting_on((row.name, *row.operations), overrides), stuck)
            found["quorum"] = documents.of_quorum(rule_for(policy.quorum, row.name, row.operations), row)
        wanted = whole_of(request, "revision", revision)
        summary = apply_status(here, wanted, Scope(operation=name), now=now)
        told = {
            "breaker": found,
            "instances": [documents.of_instance(one) for one in instance_states(here, name, now=now)],
            "applying": documents.of_applying(summary),
        }
        return self.seen_at(told, revision)


class Impose(Api):
    """`POST /api/v1/breakers/<name>/trip`, `/disable`, `/observe`: until `expires_in_s` is over.

    Where it is not said, that is an hour, and the answer says so in `assumed`. `confirm` repeats the breaker's name for
    all services of an environment whose name begins with `prod`, and the environment's name for every breaker (`*`).
    """

    verb = ""
    takes = {"POST": Takes(WHY | PARTS | GLASS | IMPOSE_MORE)}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        rest: dict[str, Any] = {one: body[one] for one in IMPOSE_MORE if one in body}
        impose = {"trip": actions.trip, "disable": actions.disable, "observe": actions.observe}[self.verb]
        done = impose(**self.asked(request, body), **rest, scope=_scope(name, body))
        return Response(documents.of_done(done) | assumed(body))


class Release(Api):
    """`POST /api/v1/breakers/<name>/release`: ends the override of exactly the scope given, or `override_id`."""

    takes = {"POST": Takes(WHY | PARTS | {"override_id": str})}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        override_id = _override_id(self.environment, name, body)
        return Response(documents.of_done(actions.release(**self.asked(request, body), override_id=override_id)))


class Extend(Api):
    """`POST /api/v1/breakers/<name>/extend`: lets it end `expires_in_s` from now."""

    takes = {
        "POST": Takes(
            WHY | PARTS | {"override_id": str, "expires_in_s": float} | GLASS, needed=("reason", "expires_in_s")
        )
    }

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        override_id = _override_id(self.environment, name, body)
        asked = self.asked(request, body)
        done = actions.extend(**asked, override_id=override_id, expires_in_s=body["expires_in_s"])
        return Response(documents.of_done(done))


class Reset(Api):
    """`POST /api/v1/breakers/<name>/reset`: closes it with a fresh window.

    Where it is not closed on more than one instance, it goes in steps: the answer has a `ramp` in place of a `reset`,
    and `/api/v1/resets/<number>` says how far it has come.
    """

    takes = {"POST": Takes(WHY | PARTS)}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        return Response(documents.of_done(actions.reset(**self.asked(request, body), scope=_scope(name, body))))


class Probe(Api):
    """`POST /api/v1/breakers/<name>/probe`: lets one call through an open breaker now."""

    takes = {"POST": Takes(WHY | PARTS)}

    def post(self, request: Request, name: str) -> Response:
        body = self.body(request)
        return Response(documents.of_done(probe(**self.asked(request, body), scope=_scope(name, body))))


class Watch(Api):
    """`POST /api/v1/breakers/<name>/watch`, `…/unwatch`: whether whoever is signed in is told when it moves.

    An e-mail goes to their own address. People watch: a key has no mailbox.
    """

    takes = {"POST": Takes(WHY)}
    is_end = False

    def post(self, request: Request, name: str) -> Response:
        asked = self.asked(request, self.body(request))
        done: Done[Any] = unwatch(**asked, name=name) if self.is_end else watch(**asked, name=name)
        told = {"was_already": done.was_already, "dry_run": done.is_dry_run}
        return Response({**told, "breaker": name, "is_watched": not self.is_end})


class Overrides(Api):
    """`GET /api/v1/overrides`: those that hold, and those that are to begin, the newest first."""

    asks = paged()

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        revision = current_revision(here)
        found = Override.objects.live(here).filter(expires_at__gt=now)
        live, further = page_of(request, found, lambda one: (-one.revision, one.pk), (int, str))
        told = {
            "overrides": [documents_intent.of_override(one) for one in live if one.starts_at <= now],
            "ahead": [documents_intent.of_override(one) for one in live if one.starts_at > now],
            "next": further,
        }
        return self.seen_at(told, revision)


class Explain(Api):
    """`GET /api/v1/explain`: which override and which rule wins at a place, and why."""

    asks = {
        "operation": "whose knobs and breaker",
        "breaker": "where it is called otherwise than the operation",
        "service": "in which service; that of the instance where it is not said",
        "instance": "in which instance",
        "group": "in which group",
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


class OperationPolicy(Api):
    """`/api/v1/policies/operations/<operation>`: GET what holds, PATCH `knobs` (null takes one back).

    `effective` is what an operation of the kind `operation` gets; where the agent's code says otherwise, the code wins
    over the defaults, and that is not known here.
    """

    asks = {"service": "the policy in one service"}
    takes = {
        "PATCH": Takes(
            WHY | {"knobs": dict, "service": str, "ahead": bool, "break_glass": bool}, needed=("reason", "knobs")
        )
    }

    def get(self, request: Request, operation: str) -> Response:
        service = request.query_params.get("service", ANY)
        checks.refuse(checks.faults_of_scope(Scope(operation=operation, service=service)))
        revision = current_revision(self.environment)
        live = live_policy(self.environment)
        place = Place(service=service, instance="", operation=operation)
        effective = parse_policy(live.document, version=live.version).for_operation(place)
        return self.seen_at(
            {
                "operation": operation,
                "service": service,
                "knobs": actions.knobs_of(live.document, Scope(operation=operation, service=service)),
                "effective": knobs_document(effective.knobs),
                "winning_rules": list(effective.winning_rules),
                "policy": documents.of_policy(live),
            },
            revision,
        )

    def patch(self, request: Request, operation: str) -> Response:
        body = self.body(request)
        if not body["knobs"]:
            raise Refused("invalid", f"No knob was given; there are {', '.join(KNOBS)}.", fields={"knobs": "is empty"})
        done = actions.set_operation_policy(
            **self.asked(request, body),
            operation=operation,
            service=body.get("service", ANY),
            knobs=body["knobs"],
            ahead=body.get("ahead", False),
        )
        return Response(documents.of_done(done))


class Nothing(Api):
    """Any other address under /api/v1/."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise Refused("not_found", f"There is nothing at {request.path}.", status=UNKNOWN)


def _told(result: bulk.Result) -> dict[str, Any]:
    if result.done is not None:
        return {"name": result.name, "done": documents.of_done(result.done)}
    refusal = result.refusal
    if refusal is None:
        raise ValueError(result.name)
    if isinstance(refusal, Held):
        return {"name": result.name, **waiting(refusal)}
    problem = documents.of_problem(
        refusal.status, refusal.code, refusal.detail, fields=refusal.fields, changes=refusal.changes
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
