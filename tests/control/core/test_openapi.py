"""The API described: every address is there, what it says it takes is what it takes, and nothing breaks it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops.control import api_urls
from recovery_ops.control.api_docs.openapi import openapi
from recovery_ops.control.core.api.requests import ApiView
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON
from tests.support.api_client import Program
from tests.support.fleet import today_fleet
from tests.support.html import Shown
from tests.support.isolated import rolled_back
from tests.support.pages import signed_in, text_of

DOCUMENT = openapi(api_urls.urlpatterns)
OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]
HOSTILE: list[Any] = [
    None,
    [],
    "text",
    {},
    {"reason": "x" * 600},
    {"reason": ["a list"], "unknown": 1},
    {"reason": "a long enough reason", "expires_in_s": 1e308, "settings": {"max_retries": [[]]}},
    {"reason": "a long enough reason", "document": {"rules": [None, 1, {"scope": 7}]}, "title": "\0", "start": "x"},
    {"reason": "a long enough reason \ud800", "document": 1, "title": "t", "start": "9999-12-31T23:59:59Z", "end": "x"},
    {"reason": "a long enough reason", "document": {}, "start": "0001-01-01T00:00:00Z", "end": "0001-01-02T00:00:00Z"},
]


def address(path: str) -> str:
    return (
        path.replace("{name}", "search_web")
        .replace("{operation}", "search_web")
        .replace("{number}", "1")
        .replace("{version}", "1")
    )


def test_every_address_of_the_api_is_described() -> None:
    views = [
        pattern.name
        for pattern in api_urls.urlpatterns
        if pattern.name and issubclass(getattr(pattern.callback, "view_class", object), ApiView)
    ]
    assert len(DOCUMENT["paths"]) == len(views) > 30
    ids = [said["operationId"] for methods in DOCUMENT["paths"].values() for said in methods.values()]
    assert len(ids) == len(set(ids))
    assert all(said["summary"] for methods in DOCUMENT["paths"].values() for said in methods.values())


def test_every_change_takes_a_reason_a_key_and_what_was_seen() -> None:
    for path, method in OPERATIONS:
        said = DOCUMENT["paths"][path][method]
        if method not in ("post", "put", "patch") or path.endswith(("/check", "/show")):
            continue
        body = said["requestBody"]["content"]["application/json"]["schema"]
        assert "reason" in body["properties"], path
        assert "dry_run" in body["properties"], path
        assert {"Idempotency-Key", "If-Match"} <= {one["name"] for one in said["parameters"]}, path


def test_reason_is_required_where_every_action_needs_one() -> None:
    def required(path: str, method: str) -> list[str]:
        body = DOCUMENT["paths"][f"/api/v1/{path}"][method]["requestBody"]
        found: list[str] = body["content"]["application/json"]["schema"]["required"]
        assert body["required"] or not found
        return found

    assert "reason" in required("breakers/{name}/trip", "post")
    assert "reason" in required("policies/masking", "put")
    assert "reason" not in required("breakers/{name}/reset", "post")
    assert "reason" not in required("fleet/pause", "post")


def test_field_has_the_type_that_its_operation_takes() -> None:
    types = {str: ("string",), bool: ("boolean",), float: ("number",), int: ("integer",), list: ("array",)}
    wrong = []
    for pattern in api_urls.urlpatterns:
        for method, takes in getattr(getattr(pattern.callback, "view_class", None), "takes", {}).items():
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
            full = f"/api/v1/{path}"
            body = DOCUMENT["paths"][full][method.lower()]["requestBody"]["content"]["application/json"]["schema"]
            for name, kind in takes.fields.items():
                said = body["properties"][name].get("type")
                if said is not None and kind in types and said not in types[kind]:
                    wrong.append((full, name, kind.__name__, said))
    assert wrong == []


@pytest.mark.usefixtures("known")
def test_what_it_offers_as_least_importance_is_taken() -> None:
    [body] = DOCUMENT["paths"]["/api/v1/shed"]["post"]["requestBody"]["content"].values()
    offered = body["schema"]["properties"]["least"]["enum"]
    asked_for = {least: {"reason": REASON, "confirm": "dev", "least": least} for least in offered}
    program = Program("act")
    assert {least: program.post("shed", asked_for[least])[0] for least in offered} == dict.fromkeys(offered, 200)


@pytest.mark.django_db
def test_it_is_served_to_anybody_and_read_by_people() -> None:
    assert Client().get("/api/v1/openapi.json").json() == json.loads(json.dumps(DOCUMENT))
    page = signed_in(Role.VIEWER).get("/docs/api")
    path = "/api/v1/breakers/{name}/trip"
    assert Shown(page).one("path", path).data["method"] == "POST"
    [body] = DOCUMENT["paths"][path]["post"]["requestBody"]["content"].values()
    assert body["schema"]["properties"]["reason"]["description"] in text_of(page)


@pytest.mark.quick
@pytest.mark.django_db
def test_whatever_is_sent_the_answer_is_a_document(subtests: pytest.Subtests) -> None:
    keys.forget_keys()
    today_fleet()
    _, token = keys.create_key("a", ["read", "act", "settings", "admin"], "dev")
    client = Client(headers={"authorization": f"Bearer {token}"})
    for path, method in OPERATIONS:
        with subtests.test(path=path, method=method), rolled_back():
            for body in [*map(json.dumps, HOSTILE), "{", "[" * 5000]:
                answer = client.generic(method.upper(), f"{address(path)}?limit=5", body, "application/json")
                assert answer.status_code < 500, body[:200]
                assert "json" in answer["Content-Type"]


@pytest.mark.quick
@pytest.mark.django_db
def test_nobody_without_a_key_is_answered(subtests: pytest.Subtests) -> None:
    for path, method in OPERATIONS:
        with subtests.test(path=path, method=method):
            answer = Client().generic(method.upper(), address(path), "{}", "application/json")
            is_open = DOCUMENT["paths"][path][method].get("security") == []
            assert answer.status_code == (200 if is_open else 401)
            assert is_open or answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.django_db
def test_a_method_that_is_not_taken_says_which_are() -> None:
    keys.forget_keys()
    answer = Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read', 'act'], 'dev')[1]}"}).delete(
        "/api/v1/status"
    )
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD, OPTIONS")


def if_match_patterns() -> set[str]:
    """What the document says of the header, over all operations."""
    said = [DOCUMENT["paths"][path][method]["parameters"] for path, method in OPERATIONS]
    return {one["schema"]["pattern"] for many in said for one in many if one["name"] == "If-Match"}


@pytest.mark.django_db
def test_an_etag_that_was_answered_may_be_sent_back_by_who_keeps_to_the_document() -> None:
    """Weak ones and those of 17 digits too: a client that validates could not send them."""
    today_fleet()
    keys.forget_keys()
    key, token = keys.create_key("docs", ["read", "act", "settings", "admin"], "dev")
    bearer = {"Authorization": f"Bearer {token}"}
    places = ("breakers", "breakers/search_web", "load", "policies/live", "quarantine", f"keys/{key.prefix}")
    given = [Client(headers=bearer).get(f"/api/v1/{place}").headers.get("ETag") for place in places]
    tags = [tag for tag in given if tag]
    assert any(tag.startswith("W/") for tag in tags)
    assert any(len(tag) > 12 for tag in tags)
    (pattern,) = if_match_patterns()
    assert [tag for tag in tags if not re.search(pattern, tag)] == []


@pytest.mark.django_db
@pytest.mark.parametrize("given", ['"0"', 'W/"0"', '"99999999999999999"', "*"])
def test_what_the_document_allows_as_if_match_is_understood(given: str) -> None:
    today_fleet()
    keys.forget_keys()
    (pattern,) = if_match_patterns()
    assert re.search(pattern, given)
    headers = {"Authorization": f"Bearer {keys.create_key('docs', ['read', 'act'], 'dev')[1]}", "If-Match": given}
    body = json.dumps({"reason": "a long enough reason", "dry_run": True})
    path = "/api/v1/breakers/search_web/reset"
    assert Client(headers=headers).post(path, body, content_type="application/json").status_code in (200, 409)


def test_every_scope_with_which_this_api_is_asked_is_named() -> None:
    said = DOCUMENT["components"]["securitySchemes"]["key"]["description"]
    assert [scope for scope in ("read", "act", "settings", "admin") if f"`{scope}`" not in said] == []
