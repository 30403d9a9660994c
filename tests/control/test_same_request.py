"""An idempotency key stands for one whole request: the same again is answered as before, another is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from events import keys
from recovery_ops.celery import app
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry, UsedKey
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.self_monitoring.retention import KEEP_USED_KEYS, sweep_used_keys
from recovery_ops.control.tasks import forget_used_keys
from tests.support.actions import REASON
from tests.support.api_client import Program
from tests.support.fleet import today_fleet
from tests.support.pages import sent, signed_in, text_of

pytestmark = pytest.mark.usefixtures("reporting")

WHY = {"reason": REASON}
TRIP = WHY | {"expires_in_s": 3600}
HOOK = WHY | {"name": "ops", "kind": "webhook", "address": "https://hooks.example.org/x", "secret": "a-signing-secret"}
BULK = WHY | {"verb": "trip", "names": ["search_web", "b-2"], "ahead": True}


@pytest.fixture
def reporting(db: None) -> None:
    keys.forget_keys()
    today_fleet()


@pytest.fixture
def program() -> Program:
    return Program("read", "act", "admin", "settings")


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("breakers/search_web/trip", TRIP, {"starts_in_s": 600}),
        ("breakers/search_web/trip", TRIP, {"expires_in_s": 7200}),
        ("breakers/search_web/trip", TRIP, {"ahead": True}),
        ("breakers/search_web/trip", TRIP, {"confirm": "search_web"}),
        ("breakers/search_web/trip", TRIP, {"service": "research"}),
        ("breakers/search_web/trip", TRIP, {"break_glass": True}),
        ("breakers/search_web/trip", TRIP, {"dry_run": True}),
        ("breakers/search_web/trip", TRIP, {"reason": "another reason than the first"}),
        ("breakers/search_web/observe", TRIP, {"starts_in_s": 600}),
        ("breakers/search_web/reset", WHY, {"dry_run": True}),
        ("breakers/search_web/probe", WHY, {"instance": "r-1"}),
        ("shed", TRIP | {"least": "critical", "confirm": "dev"}, {"starts_in_s": 600}),
        ("policies/proposals", WHY | {"title": "a title", "document": {}}, {"title": "another title"}),
        (
            "policies/proposals",
            WHY | {"title": "a title", "document": {}},
            {"document": {"defaults": {"operation": {"max_retries": 5}}}},
        ),
        ("feedback", WHY | {"operation": "search_web", "want": "retry_less"}, {"fingerprint": "f-1"}),
        ("keys", WHY | {"name": "billing", "scopes": ["ingest"]}, {"scopes": ["ingest", "desired"]}),
        ("keys", WHY | {"name": "billing", "scopes": ["ingest"]}, {"days": 10}),
        ("accounts", WHY | {"name": "li", "role": "viewer"}, {"role": "editor"}),
        ("notifications/channels", HOOK, {"is_on": False}),
        ("notifications/channels", HOOK, {"address": "https://hooks.example.org/y"}),
        ("quarantine/drop", WHY, {"lines": [1]}),
    ],
)
def test_a_key_that_comes_with_another_body_is_refused(
    program: Program, path: str, body: dict[str, Any], other: dict[str, Any]
) -> None:
    status, first = program.post(path, body, idempotency_key="k-1")
    assert status in (200, 201), first
    done = AuditEntry.objects.count()
    status, problem = program.post(path, body | other, idempotency_key="k-1")
    assert (status, problem["code"]) == (409, "key_used")
    assert REASON in problem["detail"]
    assert AuditEntry.objects.filter(result=AuditEntry.OK).count() <= done
    turned = dict(reversed(body.items()))
    status, again = program.post(path, turned, idempotency_key="k-1")
    assert (status, again["was_already"]) == (200, True), "the order of the fields is no matter"


def test_a_trial_uses_no_key(program: Program) -> None:
    path = "breakers/search_web/trip"
    assert program.post(path, TRIP | {"dry_run": True}, idempotency_key="k-1")[1]["dry_run"] is True
    assert program.post(path, TRIP, idempotency_key="k-1")[1]["was_already"] is False
    assert program.post(f"{path}?dry_run=true", TRIP, idempotency_key="k-1")[1]["code"] == "key_used"
    assert UsedKey.objects.count() == 1


def test_what_was_looked_at_is_no_part_of_what_is_wanted(program: Program) -> None:
    path = "breakers/search_web/trip"
    assert program.post(path, TRIP, idempotency_key="k-1", if_match='"0"')[0] == 200
    assert program.post(path, TRIP, idempotency_key="k-1", if_match='"1"')[1]["was_already"] is True


def test_a_key_of_one_address_is_not_good_at_another(program: Program) -> None:
    assert program.post("breakers/search_web/trip", TRIP | {"ahead": True}, idempotency_key="k-1")[0] == 200
    status, problem = program.post("breakers/other/trip", TRIP | {"ahead": True}, idempotency_key="k-1")
    assert (status, problem["code"]) == (409, "key_used")


def test_key_of_another_asker_is_refused(program: Program) -> None:
    path = "breakers/search_web/trip"
    assert program.post(path, TRIP, idempotency_key="k-1")[0] == 200
    status, problem = Program("read", "act").post(path, TRIP, idempotency_key="k-1")
    assert (status, problem.get("code")) == (409, "key_used")
    assert Override.objects.count() == 1


def test_of_many_each_is_told_that_the_key_was_for_another_list(program: Program) -> None:
    assert program.post("breakers", BULK, idempotency_key="k-1")[1]["refused"] == 0
    again = program.post("breakers", BULK, idempotency_key="k-1")[1]
    assert [one["done"]["was_already"] for one in again["results"]] == [True, True]
    other = program.post("breakers", BULK | {"names": ["search_web"]}, idempotency_key="k-1")[1]
    assert [one["problem"]["code"] for one in other["results"]] == ["key_used"]
    assert Override.objects.count() == 2


def test_what_waits_for_a_second_person_is_one_whole_request_too(program: Program) -> None:
    EnvironmentRules.objects.create(environment="dev", is_second_needed=True)
    every = TRIP | {"confirm": "dev"}
    assert program.post("breakers/*/trip", every, idempotency_key="k-1")[0] == 202
    assert program.post("breakers/*/trip", every, idempotency_key="k-1")[0] == 202
    status, problem = program.post("breakers/*/trip", every | {"starts_in_s": 600}, idempotency_key="k-1")
    assert (status, problem["code"]) == (409, "key_used")
    assert program.post("breakers/*/observe", every, idempotency_key="k-1")[1]["code"] == "key_used"
    assert ApprovalRequest.objects.count() == 1


def test_a_form_that_is_sent_again_with_another_beginning_is_refused() -> None:
    client = signed_in()
    assert client.post("/breakers/search_web/trip", sent()).status_code == 303
    assert client.post("/breakers/search_web/trip", sent(seen="1")).status_code == 303, "the same wish"
    answer = client.post("/breakers/search_web/trip", sent(starts_in_s="3600"))
    assert answer.status_code == 409
    assert "used for another change" in text_of(answer)
    assert Override.objects.count() == 1


def test_what_a_key_stood_for_is_forgotten_after_its_time(program: Program) -> None:
    path = "breakers/search_web/trip"
    assert program.post(path, TRIP, idempotency_key="k-1")[0] == 200
    [kept] = UsedKey.objects.all()
    assert (sweep_used_keys(kept.at + KEEP_USED_KEYS), UsedKey.objects.count()) == (0, 1)
    later = kept.at + KEEP_USED_KEYS + timedelta(seconds=1)
    assert (sweep_used_keys(later), sweep_used_keys(later), UsedKey.objects.count()) == (1, 0, 0)
    # Then the audit log alone tells: the same is answered as before, another reason is not.
    assert program.post(path, TRIP, idempotency_key="k-1")[1]["was_already"] is True
    assert program.post(path, TRIP | {"reason": "another reason"}, idempotency_key="k-1")[1]["code"] == "key_used"


def test_the_scheduler_forgets_used_keys() -> None:
    app.loader.import_default_modules()
    assert forget_used_keys.name in {one["task"] for one in settings.CELERY_BEAT_SCHEDULE.values()}
