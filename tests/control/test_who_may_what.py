"""Every address of the console, asked by strangers, by people without a role, by those of elsewhere, and by viewers.

The answers to each role are in `test_every_route.py`; the table of permissions is `docs/reference/roles.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import IntConverter

from events.keys import create_key
from events.models import Agent, AgentKey
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, asked, person, small_fleet
from tests.support.addresses import Address, as_role

pytestmark = pytest.mark.django_db

OPEN = {"sign-in", "account_login", "mfa_login_webauthn", "mfa_authenticate", "single-sign-on", "single-sign-on-back"}
OPEN |= {"socialaccount_login_cancelled", "sign-out", "look", "api-openapi", "api-policy-schema"}
OF_PROGRAMS = {"opamp", "api-desired"}
NAMES = {
    "name": "search_web",
    "category": "timeout",
    "operation": "search_web",
    "verb": "merge",
    "version": "0",
    "rest": "nothing",
}


def addresses(known: dict[str, str]) -> Iterator[Address]:
    """Every address that the console answers, in order."""

    def walk(patterns: list[Any], before: str) -> Iterator[Address]:
        for one in patterns:
            here = before + str(one.pattern)
            if isinstance(one, URLResolver):
                yield from walk(one.url_patterns, here)
            elif isinstance(one, URLPattern):
                path = "/" + here
                for name, converter in one.pattern.converters.items():
                    filled = known.get(name, "1" if isinstance(converter, IntConverter) else NAMES.get(name, "1"))
                    start = path.index("<")
                    path = path[:start] + filled + path[path.index(">", start) + 1 :]
                yield Address(one.name or here, path, one.callback)

    yield from walk(get_resolver().url_patterns, "")


@pytest.fixture
def known() -> dict[str, str]:
    """A fleet, a proposal, an override and a key in `dev`."""
    small_fleet()
    overrides.trip(**asked(scope=Scope(operation="search_web")))
    key, _ = create_key("research", ["ingest"], "dev")
    create_key("elsewhere", ["ingest"], "prod")
    Revision.objects.get_or_create(environment="prod", defaults={"number": 1, "changed_at": key.created_at})
    done = proposals_services.propose(
        **asked(by=person(Role.OPERATOR)),
        title="more patience",
        document={"defaults": {"operation": {"max_retries": 5}}},
    )
    return {"prefix": key.prefix, "number": str(done.object.pk)}


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana")


def status(client: Client, address: Address, method: str, environment: str = "dev") -> int:
    path = f"{address.path}?environment={environment}"
    if method == "get":
        return client.get(path).status_code
    if address.is_api:
        return int(getattr(client, method)(path, address.body(method), "application/json").status_code)
    return client.post(path, {"reason": REASON}).status_code


def is_refused(status_code: int) -> bool:
    return status_code in (401, 403)


@pytest.mark.parametrize("who", ["a stranger", "somebody without a role", "an admin of elsewhere"])
def test_whoever_has_no_role_here_neither_sees_nor_changes_anything(known: dict[str, str], ana: User, who: str) -> None:
    client = Client()
    if who != "a stranger":
        client.force_login(ana)
        as_role(ana, Role.ADMIN if who == "an admin of elsewhere" else None, "prod")
    before = _state()
    let_in = []
    for address in addresses(known):
        is_own = address.path.startswith(("/settings/you", "/sign-in/again")) and who != "a stranger"
        if address.name in OPEN | OF_PROGRAMS or is_own:
            continue
        for method in address.methods():
            code = status(client, address, method)
            is_sent_to_the_door = code == 302 and who == "a stranger"
            is_slash = code == 301 or (code == 302 and address.path.endswith("/"))
            if not (is_refused(code) or code in (404, 405) or is_sent_to_the_door or is_slash):
                let_in.append((address.name, address.path, method, code))
    assert let_in == []
    assert _state() == before


def test_whoever_may_only_look_changes_nothing(known: dict[str, str], ana: User) -> None:
    client = Client()
    client.force_login(ana)
    as_role(ana, Role.VIEWER)
    before = _state()
    for address in addresses(known):
        for method in address.methods():
            if method != "get" and address.name not in OPEN | OF_PROGRAMS:
                assert status(client, address, method) < 500
    assert _state() == before


def test_an_object_of_elsewhere_is_not_there(known: dict[str, str], ana: User) -> None:
    """Whoever rules `prod` and asks for the objects of `dev` there finds nothing."""
    client = Client()
    client.force_login(ana)
    as_role(ana, Role.ADMIN, "prod")
    override = Override.objects.get().pk
    paths = [
        f"/policies/proposals/{known['number']}",
        f"/api/v1/policies/proposals/{known['number']}",
        f"/settings/keys/{known['prefix']}/revoke",
        f"/settings/keys/{known['prefix']}/replace",
        "/breakers/search_web",
        "/breakers/search_web/trip",
        f"/breakers/search_web/release?override={override}",
        "/api/v1/breakers/search_web",
    ]
    found = {path: client.get(f"{path}{'&' if '?' in path else '?'}environment=prod").status_code for path in paths}
    assert found == dict.fromkeys(paths, 404)
    body = {"reason": REASON, "override_id": override}
    answer = client.post("/api/v1/breakers/search_web/release?environment=prod", body, "application/json")
    assert answer.status_code == 404


def test_a_role_for_a_group_rules_that_group_and_no_more(ana: User) -> None:
    small_fleet()
    Agent.objects.update(group="payments")
    RoleGrant.objects.create(user=ana, environment="dev", group="payments", role=Role.OPERATOR)
    client = Client()
    client.force_login(ana)
    assert client.get("/breakers/search_web").status_code == 200
    assert client.get("/breakers/search_web/trip").status_code == 200

    def trip(**part: str) -> int:
        body = {"reason": REASON, "confirm": "dev", **part}
        return client.post("/api/v1/breakers/search_web/trip", body, "application/json").status_code

    assert trip() == 403
    assert trip(group="search") == 403
    assert trip(group="pay*") == 403
    assert trip(group="payments") == 200
    override = Override.objects.get()
    assert (override.group, override.by) == ("payments", "ana")
    assert client.get("/settings/keys/new").status_code == 403
    assert client.post("/api/v1/shed", {"reason": REASON, "on": True}, "application/json").status_code in (400, 403)


def _state() -> tuple[int, ...]:
    return (
        AuditEntry.objects.filter(result=AuditEntry.OK).count(),
        Override.objects.count(),
        AgentKey.objects.filter(revoked_at=None).count(),
        User.objects.count(),
        RoleGrant.objects.count(),
    )
