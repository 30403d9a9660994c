"""Policies by the machines' door: what a program reads, drafts, releases and rolls back, and what only people may."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.services import review
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, asked, person
from tests.support.api_client import Program
from tests.support.pages import signed_in
from tests.support.told import untold

pytestmark = pytest.mark.django_db

WHY = {"reason": REASON}
DOUBT = "is nine not a little much?"


@pytest.fixture(autouse=True)
def fresh() -> None:
    keys.forget_keys()


def document(retries: int = 5) -> dict[str, Any]:
    rule = {"id": "search_web", "scope": {"operation": "search_web"}, "settings": {"max_retries": retries}}
    return {**document_of(BUILT_IN), "rules": [rule]}


def drafted(program: Program, retries: int = 5) -> int:
    body = WHY | {"title": "more patience", "document": document(retries)}
    status, found = program.post("policies/proposals", body)
    assert status == 201
    return int(found["proposal"]["number"])


def test_from_draft_to_release_and_back() -> None:
    program = Program()
    number = drafted(program)
    for verb, state in (("submit", "in_review"), ("return", "draft")):
        assert program.post(f"policies/proposals/{number}/{verb}", WHY)[1]["proposal"]["state"] == state
    status, done = program.post(f"policies/proposals/{number}/release", WHY)
    assert (status, done["revision"], done["policy"]["version"], done["policy"]["proposal"]) == (200, 1, 1, number)
    _, live = program.get("policies")
    assert (live["policy"]["version"], live["document"]) == ("1", document())
    _, back = program.post("policies/releases/0/roll-back", WHY)
    assert (back["revision"], back["policy"]["returns_to"]) == (2, 0)
    assert [one["version"] for one in program.get("policies/releases")[1]["releases"]] == [2, 1]
    assert program.get("policies/releases/1")[1]["document"] == document()


def test_a_proposal_tells_what_changes_what_to_ask_and_what_was_said() -> None:
    program = Program()
    number = drafted(program, 9)
    program.post(f"policies/proposals/{number}/comment", {"reason": DOUBT})
    _, found = program.get(f"policies/proposals/{number}")
    assert [(one["path"], one["before"], one["after"]) for one in found["changes"]] == [
        ("rules.search_web.scope.operation", None, "search_web"),
        ("rules.search_web.settings.max_retries", None, 9),
    ]
    assert all(untold(one["words"], one["path"], one["after"]) == [] for one in found["changes"])
    assert [one["code"] for one in found["findings"]] == ["long_wait", "retry_storm"]
    assert [(one["verb"], one["text"]) for one in found["notes"]] == [
        ("draft", REASON),
        ("comment", DOUBT),
    ]


def test_the_step_is_the_etag_and_a_late_one_is_a_conflict() -> None:
    program = Program()
    number = drafted(program)
    path = f"policies/proposals/{number}"
    _, token = keys.create_key("reader", ["read"], "dev")
    reader = Client(headers={"authorization": f"Bearer {token}"})
    tag = reader.get(f"/api/v1/{path}")["ETag"]
    assert tag == '"1"'
    assert reader.get(f"/api/v1/{path}", headers={"if-none-match": tag}).status_code == 304
    program.post(f"{path}/submit", WHY)
    assert reader.get(f"/api/v1/{path}", headers={"if-none-match": tag}).status_code == 200
    status, problem = program.post(f"{path}/release", WHY, If_Match=tag)
    assert (status, problem["code"]) == (409, "stale")
    assert program.post(f"{path}/release", WHY, If_Match='"2"')[0] == 200


def test_a_key_stands_for_one_document() -> None:
    program = Program()
    body = {"title": "Try less", "document": document_of(BUILT_IN), **WHY}
    assert program.post("policies/proposals", body, idempotency_key="one push")[0] == 201
    assert program.post("policies/proposals", body, idempotency_key="one push")[1]["was_already"]
    other = body | {"document": document_of(BUILT_IN) | {"rules": [{"scope": {"operation": "search_web"}}]}}
    status, problem = program.post("policies/proposals", other, idempotency_key="one push")
    assert (status, problem["code"]) == (409, "key_used")
    assert "revision" not in problem["detail"]


def test_a_document_is_checked_without_being_kept() -> None:
    program = Program("read")
    status, found = program.post("policies/check", {"document": {"rules": [{"settings": {"max_retries": 99}}]}})
    assert (status, found["is_valid"]) == (200, False)
    [fault] = found["problems"]
    assert (fault["path"], untold(fault["message"], 0, 20)) == ("rules[0].settings.max_retries", [])
    _, sound = program.post("policies/check", {"document": {**document_of(BUILT_IN), "retry_tabel": []}})
    assert (sound["is_valid"], [one["path"] for one in sound["findings"]]) == (True, ["retry_tabel"])
    assert [one["path"] for one in sound["changes"]] == ["retry_tabel"]


def test_a_fault_of_a_proposed_document_is_told_by_its_path() -> None:
    status, problem = Program().post("policies/proposals", WHY | {"title": "a", "document": {"rules": 1}})
    assert (status, set(problem["fields"])) == (400, {"rules"})


def test_the_schema_is_for_everybody() -> None:
    answer = Client().get("/api/v1/policies/schema")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/schema+json")
    assert answer.json()["type"] == "object"


def test_a_key_neither_approves_nor_breaks_glass_nor_sets_rules() -> None:
    program = Program()
    review.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    number = drafted(program)
    program.post(f"policies/proposals/{number}/submit", WHY)
    for path, body in (
        (f"policies/proposals/{number}/approve", WHY),
        (f"policies/proposals/{number}/release", WHY | {"break_glass": True}),
    ):
        status, problem = program.post(path, body)
        assert (status, problem["code"]) == (403, "forbidden")
    client = signed_in(Role.OPERATOR)
    answer = client.put("/api/v1/rules", json.dumps(WHY | {"is_review_needed": False}), "application/json")
    assert answer.status_code == 403
    assert not PolicyRelease.objects.exists()


def test_an_approver_approves_by_the_api_too() -> None:
    review.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    program = Program()
    number = drafted(program)
    program.post(f"policies/proposals/{number}/submit", WHY)
    answer = signed_in(Role.APPROVER).post(
        f"/api/v1/policies/proposals/{number}/approve", json.dumps(WHY), "application/json"
    )
    assert answer.json()["proposal"]["state"] == "approved"
    status, done = program.post(f"policies/proposals/{number}/release", WHY)
    assert (status, done["policy"]["is_break_glass"]) == (200, False)


@pytest.mark.parametrize("text", ["tomorrow", "2026-11-22T04:00:00", "2026-13-40T04:00:00Z", ""])
def test_a_date_needs_a_zone(text: str) -> None:
    program = Program()
    status, problem = program.post(f"policies/proposals/{drafted(program)}/schedule", WHY | {"go_live_at": text})
    assert (status, set(problem["fields"])) == (400, {"go_live_at"})


@pytest.mark.parametrize("path", ["policies/proposals/7", "policies/releases/7", f"policies/releases/{'9' * 30}"])
def test_what_is_not_there_is_404(path: str) -> None:
    assert Program("read").get(path)[0] == 404


def test_lists_are_read_page_by_page() -> None:
    program = Program()
    for retries in (1, 2, 3):
        drafted(program, retries)
    _, first = program.get("policies/proposals", limit="2")
    assert ([one["number"] for one in first["proposals"]], bool(first["next"])) == ([3, 2], True)
    _, second = program.get(first["next"].removeprefix("/api/v1/"))
    assert ([one["number"] for one in second["proposals"]], second["next"]) == ([1], None)
    program.post("policies/proposals/2/reject", WHY)
    assert [one["number"] for one in program.get("policies/proposals")[1]["proposals"]] == [3, 1]
    assert len(program.get("policies/proposals", state="all")[1]["proposals"]) == 3
