"""Who is looking, at which environment, and what they may do there: for views, for actions and for every template."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypedDict

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import BooleanField, Value
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest

from events.models import AgentKey
from recovery_ops.control.core.actors import Actor, Channel, digest_request
from recovery_ops.control.core.client_addresses import client_address
from recovery_ops.control.core.models.bases import EVERYWHERE, NAME_CHARS
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.core.permissions import Grants
from recovery_ops.control.core.production import by_setting_or_name
from recovery_ops.rules.roles import Role

PARAMETER = "environment"
_SESSION_KEY = "environment"
_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_AGENT_CHARS = 300
_NO_OBJECTS = {"verb", "kind", "operation", "category", "rest"}
"""Parts of addresses that name no object: what is done, and what a policy may speak of before anybody has called it."""
_ADDED = ("csrfmiddlewaretoken", "seen", "version", "weighed", "environment", "back")
"""Fields of forms that say how it stood and where one came from, and not what is wanted."""


class Access(Protocol):
    """The room that knows roles and sign-ins, as the core needs it."""

    def grants_of(self, user: AbstractBaseUser | AnonymousUser) -> Grants:
        """The roles that a user holds now."""

    def is_fresh(self, request: HttpRequest) -> bool:
        """Whether a user has signed in, or confirmed the sign-in, a short time ago."""


_access: Access


def connect_access(access: Access) -> None:
    """Say who knows roles and sign-ins. Called once, when Django has loaded its apps."""
    global _access  # noqa: PLW0603  # one for each process, like Django's own registries
    _access = access


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request's person and place. `environment` is one they may see, or where they hold no role at all."""

    grants: Grants
    environments: tuple[str, ...]
    environment: str
    is_production: bool
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
        raise closed(f"You have no role in {place}. An admin can grant one.")
    if place != visit.environment:
        raise closed(f"The environment {place} does not exist.")
    return visit.environment


def _names_an_object(request: HttpRequest) -> bool:
    found = request.resolver_match
    return found is not None and any(name not in _NO_OBJECTS for name in found.captured_kwargs)  # type: ignore[attr-defined]  # Django has it, its types do not


def form_command_context(
    request: HttpRequest, environment: str, cleaned: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
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
        is_fresh=_access.is_fresh(request),
        request_digest=_request_digest(request),
        **origin_of(request),
    )


def _request_digest(request: HttpRequest) -> str:
    """What a form asks for, apart from what a browser adds to it anew each time."""
    said = {name: values for name, values in request.POST.lists() if name not in _ADDED}
    return digest_request(request.path, said) if said else ""


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
        "ip": client_address(request),
        "user_agent": agent[:_AGENT_CHARS],
        "request_id": given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex,
    }


def known_environments() -> list[str]:
    """Every environment that a key was made for or somebody changed something in, the product's own first.

    The demonstration is nobody's only environment: beside it there is the product's own, to connect agents to.
    """
    return list(_production_settings())


def _production_settings() -> dict[str, bool | None]:
    """What was said of each known environment: whether it is production, or nothing. One query."""
    unsaid = Cast(Value(None), BooleanField())  # PostgreSQL takes a bare NULL for text
    keys = AgentKey.objects.order_by().values_list("environment", unsaid)
    revisions = Revision.objects.order_by().values_list("environment", unsaid)
    said: dict[str, bool | None] = {}
    for name, setting in keys.union(revisions, EnvironmentRules.objects.values_list("environment", "is_production")):
        said[name] = said.get(name) if setting is None else bool(setting)
    if said.keys() <= {settings.DEMO_ENVIRONMENT}:
        said[settings.ENVIRONMENT] = said.get(settings.ENVIRONMENT)
    return dict(sorted(said.items(), key=lambda one: (one[0] != settings.ENVIRONMENT, one[0])))


def _visit(request: HttpRequest) -> Visit:
    grants = _access.grants_of(request.user)
    own = [name for name in grants.by_environment if name != EVERYWHERE]
    production = _production_settings()
    names = tuple(dict.fromkeys([*production, *sorted(own)]))
    environments = tuple(name for name in names if grants.may("see", name))
    asked = request.GET.get(PARAMETER) or request.POST.get(PARAMETER) or ""
    remembered = request.session.get(_SESSION_KEY, "")
    wanted = [name for name in (asked, remembered) if name in environments]
    environment = next(iter([*wanted, *environments]), settings.ENVIRONMENT)
    if environment == asked != remembered:
        request.session[_SESSION_KEY] = asked
    return Visit(
        grants=grants,
        environments=environments,
        environment=environment,
        is_production=by_setting_or_name(environment, production.get(environment)),
        asked=asked,
    )
