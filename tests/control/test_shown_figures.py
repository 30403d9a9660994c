"""A figure that two screens show is the same on both, in the navigation, and in the API."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.recoveries import busy

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.fixture
def client() -> Client:
    """A person who looks at an outage, an open breaker, an escalation and two weeks of runs."""
    busy()
    return signed_in(Role.ADMIN)


def tile(client: Client, name: str) -> int:
    return int(Shown(client.get("/")).one("tile", name).data["figure"])


def in_navigation(client: Client, name: str) -> int:
    answer = client.get("/counts", headers={"X-Fragment": "counts"}).content.decode()
    found = re.search(rf'id="count-{name}" data-count="(\d+)"', answer)
    assert found is not None
    return int(found[1])


def listed(client: Client, path: str, key: str) -> list[Any]:
    rows: list[Any] = client.get(path).json()[key]
    return rows


def test_blocking_breakers_are_counted_alike(client: Client) -> None:
    page = Shown(client.get("/breakers"))
    blocking = int(page.values("blocking")[0])
    rows = [row for row in listed(client, "/api/v1/breakers", "breakers") if row["worst"] in ("open", "half_open")]
    assert blocking > 0
    assert tile(client, "breakers") == in_navigation(client, "breakers") == len(rows) == blocking


def test_unacknowledged_escalations_are_counted_alike(client: Client) -> None:
    untaken = int(Shown(client.get("/escalations")).values("untaken")[0])
    assert untaken > 0
    assert tile(client, "escalations") == in_navigation(client, "escalations") == untaken


def test_incidents_are_counted_alike(client: Client) -> None:
    [(row, *_)] = client.get("/capacity").context["rows"]
    page = client.get(f"/capacity/{row.id}").context["row"]
    [reported] = client.get("/report").context["outages"]
    figures = [(one.failures, one.runs, one.instances, one.owner) for one in (row, page, reported["row"])]
    assert figures[0] == figures[1] == figures[2]
    assert in_navigation(client, "capacity") == 1


def test_failures_are_counted_alike(client: Client) -> None:
    answer = client.get("/failures?range=15m")
    failures, window = int(Shown(answer).values("failures")[0]), answer.context["window"]
    query = urlencode({"from": window.start.isoformat(), "to": window.end.isoformat()})
    rows = listed(client, f"/api/v1/failures?{query}", "failures")
    assert failures > 0
    assert sum(row["failures"] for row in rows) == failures
