"""Numbers that no column can hold, in every address, query, form and body: nothing is there, or they are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import resolve

from recovery_ops.control.core.cursors import cursor_of
from recovery_ops.control.core.unknown_parameters import TrackedQuery
from tests.control.every_route import Try, everything
from tests.support.actions import REASON
from tests.support.addresses import Address
from tests.support.engines import engine
from tests.support.foreign_objects import admin_of, routes, world
from tests.support.html import Shown

__all__ = ["engine", "everything", "world"]  # the fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

HUGE = int("9" * 25)
QUERIES = ("/runs?before=", "/audit?before=", "/settings/notifications/log?channel=", "/?lists=", "/find?q=ESC-")
FORMS = {
    "/agents/act/retire": "agent",
    "/agents/intake": "line",
    "/escalations/act/resolve": "number",
    "/escalations/act/merge": "into",
    "/failures/act/resolve": "version",
    "/policies/try": "draft",
    "/settings/notifications/channels/new/slack": "version",
    "/settings/you/sign-in/sessions/end": "session",
    "/views": "view",
}
"""A field for a number of each kind of form."""


@pytest.fixture
def admin(engine: str, everything: list[Try]) -> Client:
    client = admin_of("dev")
    client.raise_request_exception = False
    return client


def test_address_with_a_huge_number_is_of_nothing(admin: Client) -> None:
    found = {}
    for digits in (20, 25):
        for route, _ in routes():
            path = re.sub(r"<number:\w+>", "9" * digits, "/" + route)
            if path != "/" + route:
                path = re.sub(r"<[^>]+>", "resolve", path)
                found[path[:60], digits] = admin.get(path).status_code
    assert len(found) > 100
    assert {place: status for place, status in found.items() if status not in (404, 405)} == {}


def test_cursor_with_a_huge_number_is_refused(admin: Client) -> None:
    for number in (2**62, 10**17, HUGE):
        for place in ((number,), (number, number), (number, number, "a"), (0, 0, number, 0)):
            for name in ("runs", "escalations", "capacity/events", "failures", "policies/releases", "audit"):
                asked = {"cursor": cursor_of(place), "environment": "dev"}
                assert admin.get(f"/api/v1/{name}", asked).status_code == 400, (name, place)
            for name in ("runs", "escalations", "escalations?tab=resolved", "degradations", "settings/keys"):
                assert admin.get(f"/{name}", {"cursor": cursor_of(place)}).status_code == 200, (name, place)


def test_query_or_form_with_a_huge_number_is_no_fault(admin: Client) -> None:
    shown = {address: admin.get(f"{address}{HUGE}").status_code for address in QUERIES}
    assert shown == dict.fromkeys(QUERIES, 200)
    for path, name in FORMS.items():
        given = {"reason": REASON, "fingerprint": "one", "act": "rename", "text": "timeout", "number": "1"}
        assert admin.post(path, given | {name: str(HUGE)}).status_code in (200, 303, 400, 404, 409, 422), path


@pytest.mark.full
def test_any_query_with_a_huge_number_is_no_fault(admin: Client, everything: list[Try]) -> None:
    broken = {}
    for one in everything:
        for name in _asked(admin, one) if one.method == "get" else ():
            status = admin.get(one.path, {"environment": "dev", name: str(HUGE)}).status_code
            if status >= 500:
                broken[one.told, name] = status
    assert broken == {}


@pytest.mark.full
def test_any_form_or_body_with_a_huge_number_is_no_fault(admin: Client, everything: list[Try]) -> None:
    broken, count = {}, 0
    for one in everything:
        for name in _fields(admin, one) if one.method != "get" else ():
            for value in (HUGE, [HUGE]) if one.is_api else (HUGE,):
                count += 1
                status = _sent(admin, one, {name: value})
                if status >= 500:
                    broken[one.told, name] = status
    assert count > 500
    assert broken == {}


def _asked(client: Client, one: Try) -> set[str]:
    """What a page or list asks of the query of its address."""
    if one.is_api:
        view = Address(one.name, one.path, resolve(one.path).func).api
        return set(view.asks) if view else set()
    query = client.get(one.path, {"environment": "dev"}).wsgi_request.GET
    return query.heard if isinstance(query, TrackedQuery) else set()


def _fields(client: Client, one: Try) -> set[str]:
    """What a body may hold, or the form that the page shows."""
    view = Address(one.name, one.path, resolve(one.path).func).api
    if view is not None:
        takes = view.takes.get(one.method.upper())
        return set(takes.fields) if takes else set()
    shown = client.get(one.path, {"environment": "dev"})
    fields = Shown(shown).fields if "text/html" in shown.headers.get("Content-Type", "") else {}
    return {*one.body, *fields, "number", "agent", "version", "seen"} - {"environment", "csrfmiddlewaretoken"}


def _sent(client: Client, one: Try, more: Mapping[str, Any]) -> int:
    with transaction.atomic():
        place, body = f"{one.path}?environment=dev", {**one.body, **more}
        if one.is_api:
            answer = getattr(client, one.method)(place, body, "application/json")
        else:
            answer = client.post(place, body | {"environment": "dev"})
        transaction.set_rollback(True)
    return int(answer.status_code)
