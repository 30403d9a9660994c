"""Where an environment asks for two persons: what waits, for whom, and what becomes of it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops.control.access.services.keys import make_key
from recovery_ops.control.approvals.services import agree, end_unanswered, reject, review_glass
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.breakers.services.load_shedding import extend_shed, shed
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.approvals import requires_second_approver
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.permissions import may_of_key
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.notifications.detectors import approvals as second
from recovery_ops.control.notifications.triggers import Look, Occurrence
from recovery_ops.control.policies.services import policies
from recovery_ops.control.policies.services import review as review_services
from recovery_ops.rules.notifications.grouping import Phase
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, SEARCH, asked, person, small_fleet
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import sent, signed_in
from tests.support.sentences import left_out
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")

EVERY = Scope(operation="*")
ANA, TOM, EVA = person(), person(name="tom"), person(Role.EDITOR, "eva")
YES = "I have seen the provider's page, too"


@pytest.fixture
def two(known: None) -> None:
    """`dev` asks for two persons."""
    EnvironmentRules.objects.create(environment="dev", is_second_needed=True)


def trip_all(**changed: Any) -> Any:
    return overrides_services.trip(**asked(**{"scope": EVERY} | changed))


def pending(act: Any = trip_all, **changed: Any) -> ApprovalRequest:
    """What waits after somebody has asked for it."""
    with pytest.raises(ApprovalPending) as waits:
        act(**changed)
    return waits.value.request


def decide(action: Any, request: ApprovalRequest, by: Actor = TOM, **changed: Any) -> ApprovalRequest:
    found: ApprovalRequest = action(**asked(by=by, number=request.number, reason=YES) | changed).object
    return found


def rejection(action: Any, request: ApprovalRequest, by: Actor = TOM, **changed: Any) -> CommandRejected:
    with pytest.raises(CommandRejected) as refused:
        decide(action, request, by, **changed)
    return refused.value


def told() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("number").values_list("verb", "actor_name"))


def test_what_reaches_everybody_waits_and_is_done_under_both_names(two: None) -> None:
    request = pending()
    assert (request.state, current_revision("dev"), Override.objects.count()) == (ApprovalRequest.WAITING, 0, 0)
    assert decide(agree, request).state == ApprovalRequest.AGREED
    made = Override.objects.get()
    assert (made.scope, made.by, made.reason, made.revision) == (EVERY, "ana and tom", REASON, 1)
    assert told() == [("request.ask", "ana"), ("breaker.trip", "ana and tom"), ("request.agree", "tom")]
    entry = AuditEntry.objects.get(verb="breaker.trip")
    assert (entry.after["request"], entry.after["asked_by"], entry.revision) == (request.number, "ana", 1)
    assert verify_chain("dev").is_whole


def test_where_nobody_asked_for_two_nothing_waits() -> None:
    assert not requires_second_approver("dev")
    assert trip_all().revision == 1


def test_what_harms_few_waits_for_nobody(two: None) -> None:
    assert overrides_services.trip(**asked(scope=SEARCH)).revision == 1


def test_in_production_every_trip_waits(known: None) -> None:
    small_fleet(environment="prod-eu")
    EnvironmentRules.objects.create(environment="prod-eu", is_second_needed=True)
    by = person(environment="prod-eu")
    request = pending(environment="prod-eu", by=by, scope=Scope(operation="search_web", instance="r-0"))
    assert request.act == "trip"


def test_ending_and_resetting_never_wait(two: None) -> None:
    decide(agree, pending())
    held_id = Override.objects.get().pk
    assert overrides_services.release(**asked(override_id=held_id)).object.ended_at == NOW


def test_nobody_agrees_with_themselves(two: None) -> None:
    request = pending()
    assert (rejection(agree, request, ANA).code, rejection(agree, request, ANA).status) == ("own_work", 403)
    assert not Override.objects.exists()
    assert AuditEntry.objects.filter(verb="request.agree", result="refused").count() == 2


def test_nobody_agrees_with_a_key_that_they_made(two: None) -> None:
    maker = person(Role.ADMIN, "ada")
    made = make_key(**asked(by=maker, name="deployer", scopes=["act"], days=30)).object.key

    def may(permission: str, environment: str) -> bool:
        return may_of_key(["act"], "dev", permission, environment)

    key = Actor(name="deployer", kind="key", channel="api", may=may, key_prefix=made.prefix)
    request = pending(by=key)
    assert rejection(agree, request, maker).code == "own_work"
    assert rejection(agree, request, key).code == "forbidden"  # a key agrees to nothing
    assert decide(agree, request).state == ApprovalRequest.AGREED


def test_agreeing_takes_the_permission_of_the_act(two: None) -> None:
    request = pending(review_services.set_rules, **asked(by=person(Role.ADMIN, "ada"), is_second_needed=False))
    assert rejection(agree, request, TOM).code == "forbidden"
    assert requires_second_approver("dev")
    decide(agree, request, person(Role.ADMIN, "max"))
    assert not requires_second_approver("dev")


def test_agreeing_to_every_breaker_takes_a_fresh_sign_in(two: None) -> None:
    stale = Actor(name="tom", kind="person", channel="web", may=TOM.may, is_fresh=False)
    assert rejection(agree, pending(), stale).code == "sign_in_again"


def test_after_an_hour_it_is_over_and_that_is_written_down_once(two: None) -> None:
    request, late = pending(), NOW + timedelta(hours=1)
    assert rejection(agree, request, now=late).code == "decided"
    assert end_unanswered("dev", now=late - timedelta(microseconds=1)) == []
    assert [one.number for one in end_unanswered("dev", now=late + timedelta(minutes=5))] == [request.number]
    assert end_unanswered("dev", now=late + timedelta(minutes=5)) == []
    ended = ApprovalRequest.objects.get()
    assert (ended.state, ended.decided_at) == (ApprovalRequest.EXPIRED, late)
    assert AuditEntry.objects.filter(verb="request.expire").count() == 1


def test_it_is_rejected_or_taken_back_and_then_over(two: None) -> None:
    first, second = pending(), pending()
    assert decide(reject, first).state == ApprovalRequest.REJECTED
    assert decide(reject, second, ANA).state == ApprovalRequest.WITHDRAWN
    assert {rejection(agree, one).code for one in (first, second)} == {"decided"}
    assert not Override.objects.exists()


def test_second_decision_is_refused_and_repeat_is_not(two: None) -> None:
    max_ = person(name="max")
    for first in (agree, reject):
        request = pending(reason=f"{REASON}: {first.__name__}")
        decided = decide(first, request)
        again = first(**asked(by=TOM, number=request.number, reason=YES))
        assert (again.was_already, again.object.decided_by) == (True, "tom")
        for second_action in (agree, reject):
            late = rejection(second_action, request, max_)
            assert (late.code, late.status) == ("decided", 409)
        request.refresh_from_db()
        assert (request.state, request.decided_by) == (decided.state, "tom")


def test_what_can_no_longer_be_done_is_refused_and_goes_on_waiting(two: None) -> None:
    decide(agree, pending())
    made = Override.objects.get()
    longer = pending(overrides_services.extend, **asked(override_id=made.pk, expires_in_s=7200.0))
    overrides_services.release(**asked(override_id=made.pk))
    assert rejection(agree, longer).code == "ended"
    assert ApprovalRequest.objects.get(number=longer.number).state == ApprovalRequest.WAITING


def test_what_could_not_be_done_is_not_asked_of_anybody(two: None) -> None:
    with pytest.raises(CommandRejected) as refused:
        trip_all(confirm="")
    assert (refused.value.status, ApprovalRequest.objects.count()) == (400, 0)
    with pytest.raises(CommandRejected) as refused:
        trip_all(by=person(Role.RESPONDER, "rex"))
    assert (refused.value.status, ApprovalRequest.objects.count()) == (403, 0)


def test_a_dry_run_says_that_it_would_wait(two: None) -> None:
    done = trip_all(dry_run=True)
    assert (done.needs_approval, done.is_dry_run, ApprovalRequest.objects.exists()) == (True, True, False)


def test_asked_twice_with_one_key_it_waits_once(two: None) -> None:
    first = pending(key="k-1")
    assert pending(key="k-1").number == first.number
    decide(agree, first)
    assert pending(key="k-1").state == ApprovalRequest.AGREED
    assert ApprovalRequest.objects.count() == Override.objects.count() == 1


def test_the_glass_is_broken_by_an_editor_and_reviewed_by_somebody_else(two: None) -> None:
    with pytest.raises(CommandRejected) as refused:
        trip_all(break_glass=True)
    assert refused.value.status == 403
    assert trip_all(by=EVA, break_glass=True).revision == 1
    broken = ApprovalRequest.objects.get()
    assert (broken.state, broken.revision) == (ApprovalRequest.GLASS, 1)
    assert AuditEntry.objects.get(verb="breaker.trip", result="ok").after["break_glass"] is True
    assert ApprovalRequest.objects.for_people("dev") == [broken]
    assert rejection(review_glass, broken, EVA).code == "own_work"
    reviewed = decide(review_glass, broken)
    assert (reviewed.state, reviewed.revision) == (ApprovalRequest.REVIEWED, 1)
    assert ApprovalRequest.objects.for_people("dev") == []


def test_rule_switched_off_alone_waits_for_review(two: None) -> None:
    ada = person(Role.ADMIN, "ada")
    review_services.set_rules(**asked(by=ada, is_second_needed=False, break_glass=True))
    assert not requires_second_approver("dev")
    [broken] = ApprovalRequest.objects.for_people("dev")
    assert (broken.act, broken.state, broken.by) == ("set_rules", ApprovalRequest.GLASS, "ada")
    assert AuditEntry.objects.get(verb="environment.rules").after["break_glass"] is True
    assert rejection(review_glass, broken, ada).code == "own_work"
    client = signed_in()
    assert f"/requests/{broken.number}" in Shown(client.get("/requests")).links
    assert f"request-{broken.number}" in Shown(client.get("/")).values("key")
    assert offered(client.get(f"/requests/{broken.number}")) == ["review"]
    assert decide(review_glass, broken).state == ApprovalRequest.REVIEWED


def test_shedding_and_shedding_on_wait(two: None) -> None:
    decide(agree, pending(shed, **asked(confirm="dev", least="sheddable_plus")))
    shedding = LoadShed.objects.get()
    assert (shedding.least, shedding.by) == ("sheddable_plus", "ana and tom")
    longer = pending(extend_shed, **asked(expires_in_s=7200.0))
    decide(agree, longer)
    assert LoadShed.objects.get().expires_at == NOW + timedelta(hours=2)


def test_a_policy_needs_the_approval_of_somebody_else(two: None) -> None:
    assert review_services.is_review_needed("dev")
    with pytest.raises(CommandRejected) as refused:
        policies.set_operation_policy(**asked(operation="search_web", settings={"max_retries": 5}))
    assert refused.value.code == "review_needed"


def test_asking_for_two_takes_one_and_asking_for_less_takes_two() -> None:
    ada = person(Role.ADMIN, "ada")
    review_services.set_rules(**asked(by=ada, is_second_needed=True))
    assert requires_second_approver("dev")
    assert pending(review_services.set_rules, **asked(by=ada, is_second_needed=False)).act == "set_rules"
    assert requires_second_approver("dev")


@pytest.mark.usefixtures("now")
def test_of_several_each_is_held_by_itself() -> None:
    small_fleet(environment="prod")
    EnvironmentRules.objects.create(environment="prod", is_second_needed=True)
    client = signed_in(environment="prod")
    name = {"verb": "trip", "name": ["search_web"], "confirm": "prod", "seen": ""}
    shown = client.post("/bulk?environment=prod", sent(**name))
    weighed = shown.context["weighed"]
    answer = client.post("/bulk?environment=prod", sent(weighed=weighed, **name))
    [line] = answer.context["lines"]
    assert (ApprovalRequest.objects.get().number, ApprovalRequest.objects.get().state) == (1, ApprovalRequest.WAITING)
    assert (line.state, left_out(line.outcome, "1")) == ("half_open", [])
    assert left_out(answer.context["done_words"], "0", "1") == []
    assert not Override.objects.exists()


def offered(page: Any) -> list[str]:
    """What the page of a request lets its reader do with it."""
    buttons = [one.attributes for one in Shown(page).root.all() if one.tag == "button"]
    return [one["value"] for one in buttons if one.get("name") == "act"]


def test_programs_are_told_to_wait_and_a_person_agrees_on_the_page(two: None) -> None:
    keys.forget_keys()
    program = Program()
    code, answer = program.post("breakers/*/trip", {"reason": REASON, "confirm": "dev"})
    assert (code, answer["waits"], answer["request"]["state"]) == (202, True, "waiting")
    number = answer["request"]["number"]
    assert program.post(f"requests/{number}/agree", {"reason": YES})[0] == 403
    client = signed_in()
    assert f"request-{number}" in Shown(client.get("/")).values("key")
    assert offered(client.get(f"/requests/{number}")) == ["agree", "reject"]
    done = client.post(f"/requests/{number}", {"act": "agree", "reason": YES})
    assert (done.status_code, done["Location"]) == (303, f"/requests/{number}")
    assert program.get(f"requests/{number}")[1]["request"]["state"] == "agreed"
    assert program.get("requests", state="waiting")[1]["requests"] == []
    assert program.get("overrides")[1]["overrides"][0]["by"] == "deployer and ana"
    keys.forget_keys()


def test_a_person_asks_on_the_page_and_takes_it_back(two: None) -> None:
    client = signed_in()
    assert client.get("/breakers/*/trip").context["is_second_needed"]
    asked_for = client.post("/breakers/*/trip", sent(confirm="dev", seen=""))
    assert (asked_for.status_code, asked_for["Location"]) == (303, "/requests/1")
    assert offered(client.get("/requests/1")) == ["reject"], "one's own is taken back"
    assert client.post("/requests/1", {"act": "agree", "reason": YES}).status_code == 403
    assert client.post("/requests/1", {"act": "reject", "reason": YES}).status_code == 303
    assert ApprovalRequest.objects.get().state == ApprovalRequest.WITHDRAWN
    assert "/requests/1" in Shown(client.get("/requests")).links


def test_a_viewer_agrees_to_nothing(two: None) -> None:
    request = pending()
    client = signed_in(Role.VIEWER)
    assert client.post(f"/requests/{request.number}", {"act": "agree", "reason": YES}).status_code == 403
    assert client.get("/requests/77").status_code == 404
    assert not Override.objects.exists()


def test_a_stranger_is_shown_nothing(two: None) -> None:
    assert Client().get("/requests").status_code == 302


def test_a_request_of_elsewhere_is_not_there(two: None) -> None:
    small_fleet(environment="prod")
    EnvironmentRules.objects.create(environment="prod", is_second_needed=True)
    keys.forget_keys()
    elsewhere = Program(environment="prod")
    assert elsewhere.post("breakers/*/trip", {"reason": REASON, "confirm": "prod"})[0] == 202
    here, client = Program(), signed_in(Role.ADMIN)
    assert here.get("requests/1")[0] == client.get("/requests/1").status_code == 404
    assert client.post("/requests/1", {"act": "agree", "reason": YES}).status_code == 404
    for verb in ("agree", "reject", "review"):
        assert client.post(f"/api/v1/requests/1/{verb}", {"reason": YES}, "application/json").status_code == 404
    assert here.get("requests")[1]["requests"] == []
    assert ApprovalRequest.objects.get().state == ApprovalRequest.WAITING
    keys.forget_keys()


# -- who is told -------------------------------------------------------------------------------------------------------
def hear(*open_: str, later: timedelta = timedelta(0)) -> list[Occurrence]:
    """What a rule that asks for it finds, where these were told to go on."""
    asked_for = frozenset({"second_person"})
    return list(second.found(Look(environment="dev", now=NOW + later, asked=asked_for, open=frozenset(open_))))


def test_people_are_told_what_waits_and_when_it_does_not(two: None) -> None:
    request = pending()
    [waits] = hear()
    assert (waits.phase, waits.kind, waits.subject) == (Phase.BEGAN, "second_person", "request 1")
    assert left_out(waits.title, "ana", "trip", request.about) == []
    later = timedelta(hours=2)
    [over] = hear("request 1", later=later)
    assert (over.phase, over.kind, over.subject) == (Phase.ENDED, "second_person_done", "request 1")
    assert request.state_at(NOW + later) == ApprovalRequest.EXPIRED
    decide(agree, request)
    assert hear() == []
    [agreed] = hear("request 1")
    assert (agreed.phase, agreed.subject, agreed.text) == (Phase.ENDED, "request 1", YES)
    assert agreed.title != over.title


def test_people_are_told_what_was_done_alone(two: None) -> None:
    trip_all(by=EVA, break_glass=True)
    [alone] = hear()
    request = ApprovalRequest.objects.get()
    assert (alone.phase, alone.kind, alone.subject) == (Phase.BEGAN, "second_person", f"request {request.number}")
    assert (request.state, left_out(alone.title, "eva", "trip", request.about)) == (ApprovalRequest.GLASS, [])
    ApprovalRequest.objects.update(state=ApprovalRequest.WAITING, expires_at=NOW + timedelta(hours=1))
    assert hear()[0].title != alone.title, "it is not said to wait"


def test_nobody_is_asked_where_no_rule_asks(two: None, django_assert_num_queries: Any) -> None:
    pending()
    with django_assert_num_queries(0):
        assert list(second.found(Look(environment="dev", now=NOW))) == []


@pytest.mark.usefixtures("now")
def test_the_navigation_counts_what_waits(two: None) -> None:
    client, fragment = signed_in(), {"X-Fragment": "nav"}

    def counted() -> str:
        [found] = re.findall(
            r'id="count-requests"[^>]*>(.*?)</', client.get("/counts", headers=fragment).content.decode()
        )
        return str(found)

    assert counted() == ""
    pending()
    assert counted() != ""


def test_agreement_by_a_late_reader_is_refused(two: None) -> None:
    request = pending()
    refused = rejection(agree, request, seen=7)
    assert (refused.status, list(refused.fields)) == (409, ["seen"])
    assert not Override.objects.exists()
