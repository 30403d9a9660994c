"""U+0000, which PostgreSQL stores nowhere: refused at the door, wherever in a request it is."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from recovery_ops.control.dashboard import live_stream
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON
from tests.support.api_client import Program
from tests.support.engines import engine
from tests.support.live import refused
from tests.support.pages import signed_in

__all__ = ["engine"]  # the fixture

ADDRESSES = (
    "/breakers/a%00b",
    "/breakers/%00/trip",
    "/escalations?q=%00",
    "/escalations?owner=a%00",
    "/timelines?breaker=%00",
    "/agents/settings?service=%00&instance=a",
    "/settings/keys/%00/revoke",
    "/find?q=%00",
    "/api/v1/breakers/%00",
    "/api/v1/keys/a%00b",
    "/api/v1/audit?operation=%00",
    "/api/v1/fleet/settings?service=a&instance=%00",
    "/api/v1/fleet/instance?service=a&instance=%00",
    "/agents/label?service=a&instance=%00",
)


@pytest.fixture
def client(engine: str) -> Client:
    client = signed_in(Role.ADMIN)
    client.raise_request_exception = False
    return client


@pytest.fixture
def program(engine: str) -> Program:
    return Program("read", "act", "settings")


def test_no_address_holds_it(client: Client) -> None:
    assert {address: client.get(address).status_code for address in ADDRESSES} == dict.fromkeys(ADDRESSES, 400)


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("breakers/search_web/release", {"override_id": "a\0b"}),
        ("breakers/search_web/extend", {"service": "\0", "expires_in_s": 3600}),
        ("notifications/chains", {"name": "\0", "steps": []}),
        ("shed", {"\0": 1}),
    ],
)
def test_no_body_of_a_program_holds_it(program: Program, address: str, body: dict[str, Any]) -> None:
    status, told = program.post(address, {"reason": REASON, **body})
    assert (status, told["code"]) == (400, "invalid")
    assert "U+0000" in told["detail"]


def test_what_only_looks_like_it_is_let_through(program: Program) -> None:
    status, told = program.post("shed", {"reason": REASON, "dry_run": True, "least": "\\u0000"})
    assert (status, "U+0000" in told["detail"]) == (400, False)


def test_no_form_holds_it(client: Client) -> None:
    assert client.post("/settings/keys/new", {"name": "a\0b"}).status_code == 400
    assert client.post("/settings/keys/new", "name=a%00b", "application/x-www-form-urlencoded").status_code == 400
    assert client.post("/settings/keys/new", "name=a%2500b", "application/x-www-form-urlencoded").status_code == 422


@pytest.mark.parametrize("name", [settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME])
def test_a_cookie_that_holds_it_is_none(engine: str, name: str) -> None:
    client = Client(headers={"cookie": rf'{name}="\000{"a" * 32}"'})
    assert client.get("/").headers["Location"].startswith("/sign-in")
    assert client.get("/api/v1/you").status_code == 401


def test_a_stream_for_who_comes_with_such_a_cookie_is_as_for_who_has_none(engine: str) -> None:
    cookie = rf'{settings.SESSION_COOKIE_NAME}="\000{"a" * 32}"'
    assert refused(live_stream.app, {"host": "localhost"})[0] == 401
    assert refused(live_stream.app, {"host": "localhost", "cookie": cookie})[0] == 401
