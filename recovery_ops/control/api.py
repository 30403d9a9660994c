"""The machines' door: shows what the screens show and does what they do, by the same queries and actions."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from events.queries import breaker, breakers, fleet, instance_states
from recovery_ops.control import actions, documents
from recovery_ops.control.api_requests import Api, said
from recovery_ops.control.desired import apply_status, current_revision, live_policy
from recovery_ops.control.models import AuditEntry, Override
from recovery_ops.control.refusals import INVALID, UNKNOWN, Refused
from recovery_ops.rules.knobs import KNOBS
from recovery_ops.rules.policy import knobs_document, parse_policy
from recovery_ops.rules.scope import ANY, Place, Scope

PARTS = {"service": str, "instance": str, "group": str}
WHY: dict[str, type] = {"reason": str, "dry_run": bool}
IMPOSING = WHY | PARTS | {"expires_in_s": float, "ahead": bool}
AUDIT_MOST = 500


class Status(Api):
    """`GET /api/v1/status`: the environment in a few numbers, and who obeys its newest revision."""

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        agents, rows = fleet(here, now=now), breakers(here, now=now)
        revision = current_revision(here)
        return Response(
            {
                "environment": here,
                "revision": revision,
                "policy": documents.of_policy(live_policy(here)),
                "agents": {"total": len(agents), "reporting": sum(row.is_reachable for row in agents)},
                "breakers": {"total": len(rows), "not_flowing": sum(not row.is_flowing for row in rows)},
                "overrides": Override.objects.in_force(here, now).count(),
                "applying": documents.of_applying(apply_status(here, revision, Scope(), now=now, agents=agents)),
            }
        )


class Fleet(Api):
    """`GET /api/v1/fleet`: every instance that reported within a day."""

    def get(self, request: Request) -> Response:
        rows = fleet(self.environment, now=timezone.now())
        return Response(
            {
                "environment": self.environment,
                "revision": current_revision(self.environment),
                "agents": [documents.of_agent(row) for row in rows],
            }
        )


class Breakers(Api):
    """`GET /api/v1/breakers`: every breaker, the worst first."""

    def get(self, request: Request) -> Response:
        now, here = timezone.now(), self.environment
        held = list(Override.objects.in_force(here, now))
        rows = breakers(here, now=now)
        return Response(
            {
                "environment": here,
                "revision": current_revision(here),
                "breakers": [documents.of_breaker(row, _resting_on((row.name, *row.operations), held)) for row in rows],
            }
        )


class Breaker(Api):
    """`GET /api/v1/breakers/<name>`: instance by instance, and who obeys `?revision=` (else the newest)."""

    def get(self, request: Request, name: str) -> Response:
        now, here = timezone.now(), self.environment
        row = breaker(here, name, now=now)
        overrides = list(Override.objects.in_force(here, now))
        if row is None:
            overrides = _resting_on((name,), overrides)
            if not overrides:
                detail = f"No instance in {here} has ever reported a breaker called {name}."
                raise Refused("unknown_breaker", detail, status=UNKNOWN)
            found = {"name": name, "instances": 0, "overrides": [documents.of_override(one) for one in overrides]}
        else:
            found = documents.of_breaker(row, _resting_on((row.name, *row.operations), overrides))
        wanted = _whole(request, "revision", current_revision(here))
        summary = apply_status(here, wanted, Scope(operation=name), now=now)
        return Response(
            {
                "environment": here,
                "revision": current_revision(here),
                "breaker": found,
                "instances": [documents.of_instance(one) for one in instance_states(here, name, now=now)],
                "applying": documents.of_applying(summary),
            }
        )


class Impose(Api):
    """`POST /api/v1/breakers/<name>/trip`, `/disable`, `/observe`."""

    verb = ""

    def post(self, request: Request, name: str) -> Response:
        body = said(request, IMPOSING, needed=["reason"])
        rest: dict[str, Any] = {one: body[one] for one in ("expires_in_s", "ahead") if one in body}
        impose = {"trip": actions.trip, "disable": actions.disable, "observe": actions.observe}[self.verb]
        done = impose(**self.asked(request, body), **rest, scope=_scope(name, body))
        return Response(documents.of_done(done))


class Release(Api):
    """`POST /api/v1/breakers/<name>/release`: ends the override of exactly the scope given, or `override_id`."""

    def post(self, request: Request, name: str) -> Response:
        body = said(request, WHY | PARTS | {"override_id": str}, needed=["reason"])
        override_id = _override_id(self.environment, name, body)
        return Response(documents.of_done(actions.release(**self.asked(request, body), override_id=override_id)))


class Extend(Api):
    """`POST /api/v1/breakers/<name>/extend`: lets it end `expires_in_s` from now."""

    def post(self, request: Request, name: str) -> Response:
        fields = WHY | PARTS | {"override_id": str, "expires_in_s": float}
        body = said(request, fields, needed=["reason", "expires_in_s"])
        override_id = _override_id(self.environment, name, body)
        asked = self.asked(request, body)
        done = actions.extend(**asked, override_id=override_id, expires_in_s=body["expires_in_s"])
        return Response(documents.of_done(done))


class Reset(Api):
    """`POST /api/v1/breakers/<name>/reset`: closes it with a fresh window."""

    def post(self, request: Request, name: str) -> Response:
        body = said(request, WHY | PARTS, needed=["reason"])
        return Response(documents.of_done(actions.reset(**self.asked(request, body), scope=_scope(name, body))))


class OperationPolicy(Api):
    """`/api/v1/policies/operations/<operation>`: GET what holds, PATCH `knobs` (null takes one back).

    `effective` is what an operation of the kind `operation` gets; where the agent's code says otherwise, the code wins
    over the defaults, and that is not known here.
    """

    def get(self, request: Request, operation: str) -> Response:
        service = request.query_params.get("service", ANY)
        live = live_policy(self.environment)
        place = Place(service=service, instance="", operation=operation)
        effective = parse_policy(live.document, version=live.version).for_operation(place)
        return Response(
            {
                "environment": self.environment,
                "revision": current_revision(self.environment),
                "operation": operation,
                "service": service,
                "knobs": actions.knobs_of(live.document, Scope(operation=operation, service=service)),
                "effective": knobs_document(effective.knobs),
                "winning_rules": list(effective.winning_rules),
                "policy": documents.of_policy(live),
            }
        )

    def patch(self, request: Request, operation: str) -> Response:
        body = said(request, WHY | {"knobs": dict, "service": str, "ahead": bool}, needed=["reason", "knobs"])
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


class Audit(Api):
    """`GET /api/v1/audit`: the newest rows first; `limit`, `before` (a row's number), `operation`."""

    needs = "see_audit"

    def get(self, request: Request) -> Response:
        limit = _whole(request, "limit", 50)
        if not 1 <= limit <= AUDIT_MOST:
            raise Refused("invalid", f"limit is from 1 to {AUDIT_MOST}.", fields={"limit": "is out of bounds"})
        entries = AuditEntry.objects.filter(environment=self.environment)
        before = _whole(request, "before", 0)
        if before:
            entries = entries.filter(number__lt=before)
        if operation := request.query_params.get("operation"):
            entries = entries.filter(Q(operation=operation))
        rows = [documents.of_entry(entry) for entry in entries.order_by("-number")[:limit]]
        older = rows[-1]["number"] if len(rows) == limit else None
        return Response({"environment": self.environment, "entries": rows, "before": older})


class Nothing(Api):
    """Any other address under /api/v1/."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise Refused("not_found", f"There is nothing at {request.path}.", status=UNKNOWN)


def _scope(name: str, body: dict[str, Any]) -> Scope:
    return Scope(operation=name, **{part: body[part] for part in PARTS if part in body})


def _resting_on(names: tuple[str, ...], overrides: list[Override]) -> list[Override]:
    """The overrides that speak of one of these names: in all of the environment or a part of it."""
    places = [Place(service="", instance="", operation=name) for name in names]
    return [one for one in overrides if any(Scope(operation=one.operation).holds(place) for place in places)]


def _override_id(environment: str, name: str, body: dict[str, Any]) -> str:
    """The override that a request means: by its id, or the newest that rests, or rested, on exactly its scope."""
    if "override_id" in body:
        return str(body["override_id"])
    newest = Override.objects.filter(environment=environment).in_scope(_scope(name, body)).order_by("-revision").first()
    if newest is None:
        detail = f"No override rests on exactly this scope of {name}. Name a part of it, or the override's id."
        raise Refused("nothing_held", detail, status=UNKNOWN)
    return newest.pk


def _whole(request: Request, name: str, default: int) -> int:
    given = request.query_params.get(name, "")
    if not given:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise Refused("invalid", f"{name} is a whole number.", status=INVALID, fields={name: "is a whole number"})
    return int(given)
