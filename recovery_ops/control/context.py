"""Who is looking, at which environment, and what they may do there: for views, for actions and for every template."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypedDict

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from events.capacity.asking import count_going_on
from events.models import AgentKey
from events.queries import breakers_named, count_silent
from events.scoped import scope_query
from events.window import carried
from recovery_ops.control.actors import Actor, Channel, wish_of
from recovery_ops.control.desired import current_revision
from recovery_ops.control.escalations.asking import unacknowledged
from recovery_ops.control.heard import unheard
from recovery_ops.control.jobs import in_tray
from recovery_ops.control.models import EVERYWHERE, NAME_CHARS, HeldAct, Revision
from recovery_ops.control.roles import Grants, Role, grants_of
from recovery_ops.control.saved_views import in_use
from recovery_ops.control.scope_chips import chips_of
from recovery_ops.control.sign_in.sessions import is_fresh

PARAMETER = "environment"
_SESSION_KEY = "environment"
_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_AGENT_CHARS = 300
_NO_OBJECTS = {"verb", "kind", "operation", "category", "rest"}
"""Parts of addresses that name no object: what is done, and what a policy may speak of before anybody has called it."""
_ADDED = ("csrfmiddlewaretoken", "seen", "version", "weighed", "environment", "back")
"""Fields of forms that say how it stood and where one came from, and not what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request's person and place. `environment` is one they may see, or where they hold no role at all."""

    grants: Grants
    environments: tuple[str, ...]
    environment: str
    asked: str
    """The environment that the request names; empty for none."""

    @property
    def role(self) -> Role | None:
        return self.grants.role(self.environment)


def visit_of(request: HttpRequest) -> Visit:
    """Who is looking at what. Read once per request.

    `?environment=` (or a form's field of that name) chooses and is remembered; else the one remembered; else the first.
    """
    found: Visit | None = request.__dict__.get("_visit")
    if found is None:
        found = request.__dict__["_visit"] = _visit(request)
    return found


def environment_of(request: HttpRequest) -> str:
    """The environment that a request is about.

    Where the person may not look at it: raises Http404 for an address that names an object, which for them is not
    there, and PermissionDenied for any other.
    """
    visit = visit_of(request)
    place = visit.asked or visit.environment
    closed = Http404 if _names_an_object(request) else PermissionDenied
    if not visit.grants.may("see", place):
        raise closed(f"You have no role in {place}. Ask an admin for one.")
    if place != visit.environment:
        raise closed(f"There is no environment called {place}.")
    return visit.environment


def _names_an_object(request: HttpRequest) -> bool:
    found = request.resolver_match
    return found is not None and any(name not in _NO_OBJECTS for name in found.captured_kwargs)  # type: ignore[attr-defined]  # Django has it, its types do not


def asked_by(request: HttpRequest, environment: str, cleaned: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """What every action is given that a form with a reason and a key asks for."""
    return {
        "by": actor_of(request),
        "environment": environment,
        "reason": cleaned["reason"],
        "key": cleaned["key"] or None,
        "now": now,
    }


def actor_of(request: HttpRequest, channel: Channel = "web") -> Actor:
    """The signed-in person, as actions are told."""
    user = request.user
    return Actor(
        name=(user.get_full_name() or user.get_username())[:NAME_CHARS],  # type: ignore[union-attr]  # never anonymous: views are closed
        kind="person",
        channel=channel,
        may=visit_of(request).grants.may,
        may_for_group=visit_of(request).grants.may,
        user_id=user.pk,
        is_fresh=is_fresh(request),
        wish=_wish(request),
        **origin_of(request),
    )


def _wish(request: HttpRequest) -> str:
    """What a form asks for, apart from what a browser adds to it anew each time."""
    said = {name: values for name, values in request.POST.lists() if name not in _ADDED}
    return wish_of(request.path, said) if said else ""


class Origin(TypedDict):
    """Where a request came from."""

    ip: str
    user_agent: str
    request_id: str


def origin_of(request: HttpRequest) -> Origin:
    """Where a request came from, as the audit log keeps it."""
    given = request.headers.get("X-Request-ID", "")
    agent = "".join(one for one in request.headers.get("User-Agent", "") if one.isprintable())
    return {
        "ip": str(request.META.get("REMOTE_ADDR") or "")[:64],
        "user_agent": agent[:_AGENT_CHARS],
        "request_id": given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex,
    }


def console(request: HttpRequest) -> dict[str, Any]:
    """What every template may use: `environment`, `environments`, `role`, `may`, `revision`, `nav`, `carried`.

    `may.trip` and so on are the permissions of `roles.LEAST_ROLE`. `nav.breakers` counts those that do not flow,
    `nav.agents` those that do not report, `nav.capacity` the outages that go on, `nav.escalations` what nobody has
    taken, `nav.requests` what waits for a second person. `carried` is the range and the scope that the address asks
    for, for links to other screens, `kept_to` the chips of the scope, `unheard` what of the address the page ignored.
    `has_tray`: this session asked for long work that may still go on. What a page does not print is not asked for.
    """
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    visit = visit_of(request)
    return {
        "environment": visit.environment,
        "environments": visit.environments,
        "role": visit.role or "no role",
        "may": visit.grants.permissions(visit.environment),
        "revision": SimpleLazyObject(partial(current_revision, visit.environment)),
        "nav": SimpleLazyObject(partial(_nav, visit)),
        "carried": "&".join(filter(None, (carried(request), scope_query(request)))),
        "kept_to": chips_of(request),
        "unheard": unheard(request),
        "has_tray": in_tray(request.session, timezone.now()),
        "view_in_use": SimpleLazyObject(partial(in_use, request, visit.environment)),
    }


def known_environments() -> list[str]:
    """Every environment that a key was made for or somebody changed something in, the product's own first."""
    keys = AgentKey.objects.order_by().values_list("environment", flat=True)
    known = {*keys.union(Revision.objects.values_list("environment", flat=True))}
    return sorted(known or {settings.ENVIRONMENT}, key=lambda name: (name != settings.ENVIRONMENT, name))


def _visit(request: HttpRequest) -> Visit:
    grants = grants_of(request.user)
    own = [name for name in grants.by_environment if name != EVERYWHERE]
    names = tuple(dict.fromkeys([*known_environments(), *sorted(own)]))
    environments = tuple(name for name in names if grants.may("see", name))
    asked = request.GET.get(PARAMETER) or request.POST.get(PARAMETER) or ""
    remembered = request.session.get(_SESSION_KEY, "")
    wanted = [name for name in (asked, remembered) if name in environments]
    environment = next(iter([*wanted, *environments]), settings.ENVIRONMENT)
    if environment == asked != remembered:
        request.session[_SESSION_KEY] = asked
    return Visit(grants=grants, environments=environments, environment=environment, asked=asked)


def _nav(visit: Visit) -> dict[str, int]:
    if not visit.grants.may("see", visit.environment):
        return {"breakers": 0, "agents": 0, "capacity": 0, "escalations": 0, "requests": 0}
    now = timezone.now()
    return {
        "breakers": sum(not row.is_flowing for row in breakers_named(visit.environment, None, now=now)),
        "agents": count_silent(visit.environment, now=now),
        "capacity": count_going_on(visit.environment, now=now),
        "escalations": unacknowledged(visit.environment, now),
        "requests": HeldAct.objects.waiting(visit.environment, now).count(),
    }
