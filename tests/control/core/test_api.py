"""The machines' door: who is let in, what is answered, and that every error is a document that says what to do."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client

from events import keys
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services.overrides import release
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.events import DesiredStateApplied
from recovery_ops.rules.policy.scope import Scope
from tests.support.actions import REASON, asked, person, trip
from tests.support.api_client import Program
from tests.support.fleet import seen_now, today_fleet
from tests.support.stories import Story
from tests.support.told import untold

pytestmark = pytest.mark.usefixtures("reporting")

READS = ["status", "fleet", "breakers", "breakers/search_web", "policies/operations/search_web", "audit", "resets"]
TRIP = "breakers/search_web/trip"


@pytest.fixture
def reporting(db: None) -> None:
    """Three instances have reported within the last seconds of the real clock, which the API goes by."""
    keys.forget_keys()
    today_fleet()


# -- looking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", READS)
def test_each_reading_is_about_the_environment_of_the_key(path: str) -> None:
    status, found = Program("read").get(path)
    assert (status, found["environment"]) == (200, "dev")


def test_a_breaker_says_what_is_wanted_what_is_and_who_obeys() -> None:
    held = trip(expires_in_s=3600, now=None).object
    Story().tell(DesiredStateApplied(revision=1, config_hash=""), at=0, instance="r-1").store()
    seen_now()
    status, found = Program("read").get("breakers/search_web")
    assert status == 200
    assert [one["id"] for one in found["breaker"]["overrides"]] == [held.pk]
    assert found["breaker"]["counts"] == {"closed": 3}
    assert [one["instance"] for one in found["instances"]] == ["r-0", "r-1", "r-2"]
    assert found["applying"]["total"] == 3
    assert found["applying"]["applied"] == ["research/r-1"]
    assert found["applying"]["pending"] == ["research/r-0", "research/r-2"]


def test_status_counts_the_overrides_in_force_only() -> None:
    held = trip(expires_in_s=3600, now=None).object
    program = Program()
    assert program.get("status")[1]["overrides"] == 1
    release(**asked(now=None, override_id=held.pk))
    assert program.get("status")[1]["overrides"] == 0


def test_a_breaker_that_nobody_reported_is_404_unless_somebody_rules_it() -> None:
    program = Program("read")
    status, problem = program.get("breakers/serch_web")
    assert (status, problem["code"]) == (404, "unknown_breaker")
    trip(scope=Scope(operation="serch_web"), ahead=True, now=None)
    status, found = program.get("breakers/serch_web")
    assert (status, found["breaker"]["instances"], len(found["breaker"]["overrides"])) == (200, 0, 1)


def test_the_audit_log_is_read_page_by_page() -> None:
    for number in range(3):
        trip(reason=f"for the reason number {number}", now=None)
    program = Program("read")
    _, first = program.get("audit", limit="2")
    assert [one["number"] for one in first["entries"]] == [3, 2]
    _, second = program.get(first["next"].removeprefix("/api/v1/"))
    assert ([one["number"] for one in second["entries"]], second["next"]) == ([1], None)
    assert second["entries"][0]["actor"] == {"kind": "person", "name": "ana", "id": ""}
    assert program.get("audit", operation="other")[1]["entries"] == []


@pytest.mark.parametrize(
    ("path", "params"),
    [("audit", {"limit": "0"}), ("audit", {"limit": "501"}), ("breakers/search_web", {"revision": "-1"})],
)
def test_a_number_that_is_none_is_told_by_its_name(path: str, params: dict[str, str]) -> None:
    status, problem = Program("read").get(path, **params)
    assert (status, problem["code"], set(problem["fields"])) == (400, "invalid", set(params))


# -- doing ------------------------------------------------------------------------------------------------------------


def test_trip_extend_release_and_reset() -> None:
    program = Program()
    _, tripped = program.post(TRIP, {"reason": REASON, "expires_in_s": 600})
    assert (tripped["revision"], tripped["override"]["mode"], tripped["impact"]["instances"]) == (1, "forced_open", 3)
    _, extended = program.post("breakers/search_web/extend", {"reason": REASON, "expires_in_s": 7200})
    assert (extended["revision"], extended["override"]["id"]) == (2, tripped["override"]["id"])
    _, released = program.post("breakers/search_web/release", {"reason": REASON})
    assert (released["revision"], released["override"]["ended_by"]) == (3, "deployer")
    _, reset = program.post("breakers/search_web/reset", {"reason": REASON})
    assert (reset["revision"], reset["reset"]["scope"]) == (4, {"operation": "search_web"})
    entry = AuditEntry.objects.latest("number")
    assert (entry.actor_kind, entry.actor_id, entry.channel) == ("key", program.key.prefix, "api")


@pytest.mark.parametrize(("verb", "mode"), [("disable", "disabled"), ("observe", "metrics_only")])
def test_disable_and_observe(verb: str, mode: str) -> None:
    status, done = Program().post(f"breakers/search_web/{verb}", {"reason": REASON, "instance": "r-1"})
    assert (status, done["override"]["mode"]) == (200, mode)
    assert done["override"]["scope"] == {"operation": "search_web", "instance": "r-1"}


def test_a_name_may_have_slashes() -> None:
    status, done = Program().post("breakers/models/large%2Fv2/trip", {"reason": REASON, "ahead": True})
    assert (status, done["override"]["scope"]) == (200, {"operation": "models/large/v2"})


def test_the_policy_of_an_operation_is_patched_and_read_back() -> None:
    program, path = Program(), "policies/operations/search_web"
    status, done = program.patch(path, {"reason": REASON, "settings": {"max_retries": 5, "base_delay_s": 0.25}})
    assert (status, done["policy"]["version"]) == (200, 1)
    program.patch(path, {"reason": REASON, "settings": {"base_delay_s": None}})
    _, found = program.get(path)
    assert (found["settings"], found["effective"]["max_retries"], found["revision"]) == ({"max_retries": 5}, 5, 2)
    assert (found["winning_rules"], found["policy"]["version"]) == (["search_web"], "2")


def test_a_dry_run_by_body_or_by_address_writes_nothing() -> None:
    for path, body in ((TRIP, {"dry_run": True}), (f"{TRIP}?dry_run=true", {}), (f"{TRIP}?dry_run=1", {})):
        status, done = Program().post(path, {"reason": REASON, **body})
        assert (status, done["dry_run"], done["revision"]) == (200, True, 1)
        assert (done["impact"]["instances"], bool(done["impact"]["consequence"])) == (3, True)
    assert not Override.objects.exists()


def test_the_same_key_is_the_same_click() -> None:
    program = Program()
    _, first = program.post(TRIP, {"reason": REASON}, idempotency_key="one click")
    _, second = program.post(TRIP, {"reason": REASON}, idempotency_key="one click")
    assert (first["was_already"], second["was_already"]) == (False, True)
    assert first["override"] == second["override"]
    status, problem = program.post("breakers/search_web/reset", {"reason": REASON}, idempotency_key="one click")
    assert (status, problem["code"]) == (409, "key_used")


@pytest.mark.parametrize(
    "path", ["breakers", "breakers/search_web", "overrides", "shed", "policies/operations/search_web"]
)
def test_the_revision_looked_at_is_the_etag_to_give_back(path: str) -> None:
    program = Program()
    trip(expires_in_s=3600, now=None)
    tag = program.raw(path)["ETag"]
    assert tag == 'W/"1"'
    assert program.raw(path, if_none_match=tag).status_code == 200, "facts move without a revision"
    assert program.post("breakers/search_web/observe", {"reason": REASON}, if_match=tag)[0] == 200
    status, problem = program.post("breakers/search_web/disable", {"reason": REASON}, if_match=tag)
    assert (status, problem["code"]) == (409, "stale")


@pytest.mark.parametrize("other", [{"expires_in_s": 7200}, {"reason": "quite another reason"}])
def test_a_key_with_another_body_is_refused(other: dict[str, Any]) -> None:
    program = Program()
    program.post(TRIP, {"reason": REASON}, idempotency_key="one click")
    status, problem = program.post(TRIP, {"reason": REASON, **other}, idempotency_key="one click")
    assert (status, problem["code"]) == (409, "key_used")
    assert REASON in problem["detail"]
    extend = "breakers/search_web/extend"
    assert program.post(extend, {"reason": REASON, "expires_in_s": 7200}, idempotency_key="longer")[0] == 200
    assert program.post(extend, {"reason": REASON, "expires_in_s": 7200}, idempotency_key="longer")[1]["was_already"]
    assert program.post(extend, {"reason": REASON, "expires_in_s": 9000}, idempotency_key="longer")[0] == 409


@pytest.mark.parametrize("seen", ["0", '"0"', 'W/"0"'])
def test_who_looked_too_early_is_told_what_changed(seen: str) -> None:
    trip(reason="helios answers 529 everywhere", now=None)
    status, problem = Program().post(TRIP, {"reason": REASON}, if_match=seen)
    assert (status, problem["code"]) == (409, "stale")
    assert untold(problem["detail"], "ana", "search_web") == []
    [change] = problem["changes"]
    assert (change["verb"], change["revision"], change["actor"]["name"]) == ("breaker.trip", 1, "ana")


@pytest.mark.parametrize("seen", ["1", "*"])
def test_who_saw_the_newest_or_did_not_look_goes_on(seen: str) -> None:
    trip(reason="helios answers 529 everywhere", now=None)
    assert Program().post(TRIP, {"reason": REASON}, if_match=seen)[0] == 200


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        (TRIP, {}, {"reason"}),
        (TRIP, {"reason": "short"}, {"reason"}),
        (TRIP, {"reason": 5}, {"reason"}),
        (TRIP, {"reason": REASON, "expires_in": 60}, {"expires_in"}),
        (TRIP, {"reason": REASON, "expires_in_s": "60"}, {"expires_in_s"}),
        (TRIP, {"reason": REASON, "expires_in_s": True}, {"expires_in_s"}),
        (TRIP, {"reason": REASON, "expires_in_s": 10, "service": ""}, {"expires_in_s", "service"}),
        (TRIP, {"reason": REASON, "ahead": "yes"}, {"ahead"}),
        ("breakers/search_web/extend", {"reason": REASON}, {"expires_in_s"}),
        ("breakers/search_web/release", {"reason": REASON, "override_id": 5}, {"override_id"}),
    ],
)
def test_each_fault_of_a_body_is_told_by_its_field(path: str, body: Any, fields: set[str]) -> None:
    status, problem = Program().post(path, body)
    assert (status, problem["code"], set(problem["fields"])) == (400, "invalid", fields)
    assert not Override.objects.exists()


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "5", "{", '{"reason": NaN}', '{"reason": "\\ud800 is half a letter"}']
)
def test_what_is_no_object_is_400(body: str) -> None:
    status, problem = Program().post(TRIP, body)
    assert status == 400, problem


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"settings": {}}, {"settings"}),
        ({"settings": 5}, {"settings"}),
        ({"settings": {"max_retries": 99, "colour": "red"}}, {"max_retries", "colour"}),
        ({"settings": {"max_retries": 5}, "service": "x" * 300}, {"service"}),
    ],
)
def test_each_fault_of_a_policy_is_told_by_its_setting(body: Any, fields: set[str]) -> None:
    status, problem = Program().patch("policies/operations/search_web", {"reason": REASON, **body})
    assert (status, set(problem["fields"])) == (400, fields)


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("breakers/serch_web/trip", {}, "unknown_breaker"),
        (TRIP, {"service": "billing"}, "unknown_scope"),
        ("breakers/search_web/release", {}, "nothing_held"),
        ("breakers/search_web/release", {"override_id": "ov-nothing"}, "unknown_override"),
        ("nothing/here", {}, "not_found"),
    ],
)
def test_what_is_not_there_is_404_and_says_what_to_do(path: str, body: Any, code: str) -> None:
    status, problem = Program().post(path, {"reason": REASON, **body})
    assert (status, problem["code"]) == (404, code)


def test_an_unknown_verb_is_no_action() -> None:
    assert Program().post("breakers/search_web/explode", {"reason": REASON})[0] == 405
    assert not Override.objects.exists()


def test_a_key_does_only_what_its_scopes_say() -> None:
    assert Program("act").get("status")[0] == 403
    status, problem = Program("read").post(TRIP, {"reason": REASON})
    assert (status, problem["code"]) == (403, "forbidden")
    assert untold(problem["detail"], "act") == [], "the scope that it has not"
    status, problem = Program("act").post(TRIP, {"reason": REASON, "expires_in_s": 90_000})
    assert (status, set(problem["fields"])) == (400, {"expires_in_s"})


def test_a_key_rules_its_own_environment_alone() -> None:
    body = {"reason": REASON, "confirm": "search_web"}
    status, problem = Program(environment="prod").post(TRIP, body)
    assert (status, problem["code"]) == (404, "unknown_breaker")
    assert not Override.objects.exists()


def to_repeat(problem: dict[str, Any]) -> str:
    """The name that has to be repeated: the only one that the fault of `confirm` tells."""
    assert set(problem["fields"]) == {"confirm"}
    [word] = re.findall(r"\b(dev|prod|search_web)\b", problem["fields"]["confirm"])
    return str(word)


@pytest.mark.parametrize("asked", ["prod", "nowhere", "dev&environment=prod", "prod&environment=dev"])
def test_key_that_names_another_environment_is_refused(asked: str) -> None:
    program = Program("read", "act", "desired")
    for address in ("status", "breakers/search_web", "audit", "desired"):
        status, problem = program.get(f"{address}?environment={asked}")
        assert (status, problem["code"]) == (400, "invalid"), address
    status, problem = program.post(f"{TRIP}?environment={asked}", {"reason": REASON})
    assert (status, set(problem["fields"])) == (400, {"environment"})
    assert not Override.objects.exists()


def test_key_that_names_its_own_environment_is_answered() -> None:
    assert Program("read").get("status?environment=dev")[0] == 200


def test_what_reaches_everybody_has_to_be_confirmed_by_its_name() -> None:
    program = Program()
    status, problem = program.post("breakers/*/trip", {"reason": REASON})
    assert (status, to_repeat(problem)) == (400, "dev")
    assert program.post("breakers/*/trip", {"reason": REASON, "dry_run": True})[0] == 200
    assert program.post("breakers/*/trip", {"reason": REASON, "confirm": "*"})[0] == 400
    assert program.post("breakers/*/trip", {"reason": REASON, "service": "research"})[0] == 200
    assert program.post("breakers/*/trip", {"reason": REASON, "confirm": "dev"})[0] == 200
    prod = Program(environment="prod")
    ahead = {"reason": REASON, "ahead": True}
    assert to_repeat(prod.post(TRIP, ahead)[1]) == "search_web"
    many = {**ahead, "verb": "trip", "names": ["search_web", "fetch"]}
    assert to_repeat(prod.post("breakers", many)[1]) == "prod"
    assert prod.post("breakers", many | {"confirm": "prod"})[1]["refused"] == 0


@pytest.mark.parametrize(
    ("environment", "name", "where", "word"),
    [
        ("dev", "**", {}, "dev"),
        ("dev", "?*", {"service": "**", "group": "*?"}, "dev"),
        ("prod", "search_web", {"service": "research"}, "search_web"),
        ("prod", "*", {"service": "r*"}, "prod"),
        ("prod", "**", {"service": "*?"}, "prod"),
    ],
)
def test_nobody_comes_by_the_confirmation(environment: str, name: str, where: dict[str, str], word: str) -> None:
    program = Program(environment=environment)
    status, problem = program.post(f"breakers/{quote(name)}/trip", {"reason": REASON, "ahead": True, **where})
    assert (status, to_repeat(problem)) == (400, word)


def test_an_answer_says_what_it_assumed() -> None:
    assert Program().post(TRIP, {"reason": REASON})[1]["assumed"] == {"expires_in_s": 3600}
    assert "assumed" not in Program().post(TRIP, {"reason": REASON, "expires_in_s": 600})[1]


@pytest.mark.parametrize("header", [None, "Bearer nonsense", "Basic YTpi", "Bearer"])
def test_without_a_key_or_a_session_nobody_is_let_in(header: str | None) -> None:
    client = Client(headers={} if header is None else {"authorization": header})
    answer = client.get("/api/v1/status")
    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")
    assert answer["WWW-Authenticate"] == "Bearer"


def test_a_store_that_is_away_is_503_and_worth_another_try() -> None:
    program = Program("read")
    program.get("status")

    def away(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        raise OperationalError("the database went away")

    with connection.execute_wrapper(away):
        status, problem = program.get("status")
    assert (status, problem["code"]) == (503, "away")
    assert "went away" not in problem["detail"], "the driver's words are not repeated"


# -- people -----------------------------------------------------------------------------------------------------------


def signed_in(role: str, environment: str = "dev", *, checks_csrf: bool = False) -> Client:
    ana = User.objects.create_user("ana", first_name="Ana", last_name="Lima")
    RoleGrant.objects.create(user=ana, environment=environment, role=role)
    client = Client(enforce_csrf_checks=checks_csrf, headers={"user-agent": "a browser", "x-request-id": "abc-1"})
    client.force_login(ana)
    return client


def test_a_person_with_a_session_does_what_their_role_says() -> None:
    client = signed_in("operator")
    assert client.get("/api/v1/status").json()["environment"] == "dev"
    answer = client.post(f"/api/v1/{TRIP}", {"reason": REASON}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    entry = AuditEntry.objects.latest("number")
    assert (entry.actor_kind, entry.actor_name, entry.channel) == ("person", "Ana Lima", "api")
    assert (entry.ip, entry.user_agent, entry.request_id) == ("127.0.0.1", "a browser", "abc-1")
    assert Override.objects.get().by_user == User.objects.get()


def test_a_viewer_is_refused_and_that_is_written_down() -> None:
    answer = signed_in("viewer").post(f"/api/v1/{TRIP}", {"reason": REASON}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert AuditEntry.objects.get().result == "refused"


def test_an_environment_without_a_role_is_closed() -> None:
    client = signed_in("admin", "prod")
    for address in ("/api/v1/status?environment=dev", "/api/v1/status?environment=nowhere"):
        answer = client.get(address)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_foreign_page_cannot_act_with_somebodys_session() -> None:
    client = signed_in("operator", checks_csrf=True)
    answer = client.post(f"/api/v1/{TRIP}", {"reason": REASON}, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (403, "application/problem+json")
    assert not Override.objects.exists()


def test_ours_and_theirs_are_the_same_action() -> None:
    trip(by=person(), reason=REASON, now=None)
    _, again = Program().post(TRIP, {"reason": REASON})
    assert again["was_already"]
