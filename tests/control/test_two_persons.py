"""Where an environment asks for two persons: what waits, for whom, and what becomes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from events import keys
from recovery_ops.control import actions
from recovery_ops.control.actions import Refused
from recovery_ops.control.actions.holding import is_second_needed
from recovery_ops.control.actions.keys import make_key
from recovery_ops.control.actions.second import agree, end_unanswered, reject, review_glass
from recovery_ops.control.actions.shedding import extend_shed, shed
from recovery_ops.control.actors import Actor
from recovery_ops.control.audit import verify
from recovery_ops.control.desired import current_revision
from recovery_ops.control.models import AuditEntry, EnvironmentRules, HeldAct, LoadShed, Override
from recovery_ops.control.notify.finding import second
from recovery_ops.control.notify.triggers import Look, Occurrence
from recovery_ops.control.refusals import Held
from recovery_ops.control.roles import Role, may_of_key
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.telling import Phase
from tests.support.actions import REASON, SEARCH, asked, person, small_fleet
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import sent, signed_in, text_of
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
    return actions.trip(**asked(**{"scope": EVERY} | changed))


def held(act: Any = trip_all, **changed: Any) -> HeldAct:
    """What waits after somebody has asked for it."""
    with pytest.raises(Held) as waits:
        act(**changed)
    return waits.value.request


def decide(action: Any, request: HeldAct, by: Actor = TOM, **changed: Any) -> HeldAct:
    found: HeldAct = action(**asked(by=by, number=request.number, reason=YES) | changed).object
    return found


def refusal(action: Any, request: HeldAct, by: Actor = TOM, **changed: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        decide(action, request, by, **changed)
    return refused.value


def told() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("number").values_list("verb", "actor_name"))


def test_what_reaches_everybody_waits_and_is_done_under_both_names(two: None) -> None:
    request = held()
    assert (request.state, current_revision("dev"), Override.objects.count()) == (HeldAct.WAITING, 0, 0)
    assert decide(agree, request).state == HeldAct.AGREED
    made = Override.objects.get()
    assert (made.scope, made.by, made.reason, made.revision) == (EVERY, "ana and tom", REASON, 1)
    assert told() == [("request.ask", "ana"), ("breaker.trip", "ana and tom"), ("request.agree", "tom")]
    entry = AuditEntry.objects.get(verb="breaker.trip")
    assert (entry.after["request"], entry.after["asked_by"], entry.revision) == (request.number, "ana", 1)
    assert verify("dev").is_whole


def test_where_nobody_asked_for_two_nothing_waits() -> None:
    assert not is_second_needed("dev")
    assert trip_all().revision == 1


def test_what_harms_few_waits_for_nobody(two: None) -> None:
    assert actions.trip(**asked(scope=SEARCH)).revision == 1


def test_in_production_every_trip_waits(known: None) -> None:
    small_fleet(environment="prod-eu")
    EnvironmentRules.objects.create(environment="prod-eu", is_second_needed=True)
    by = person(environment="prod-eu")
    request = held(environment="prod-eu", by=by, scope=Scope(operation="search_web", instance="r-0"))
    assert request.act == "trip"


def test_ending_and_resetting_never_wait(two: None) -> None:
    decide(agree, held())
    held_id = Override.objects.get().pk
    assert actions.release(**asked(override_id=held_id)).object.ended_at == NOW


def test_nobody_agrees_with_themselves(two: None) -> None:
    request = held()
    assert (refusal(agree, request, ANA).code, refusal(agree, request, ANA).status) == ("own_work", 403)
    assert not Override.objects.exists()
    assert AuditEntry.objects.filter(verb="request.agree", result="refused").count() == 2


def test_nobody_agrees_with_a_key_that_they_made(two: None) -> None:
    maker = person(Role.ADMIN, "ada")
    made = make_key(**asked(by=maker, name="deployer", scopes=["act"], days=30)).object.key

    def may(permission: str, environment: str) -> bool:
        return may_of_key(["act"], "dev", permission, environment)

    key = Actor(name="deployer", kind="key", channel="api", may=may, key_prefix=made.prefix)
    request = held(by=key)
    assert refusal(agree, request, maker).code == "own_work"
    assert refusal(agree, request, key).code == "forbidden"  # a key agrees to nothing
    assert decide(agree, request).state == HeldAct.AGREED


def test_agreeing_takes_the_permission_of_the_act(two: None) -> None:
    request = held(actions.set_rules, **asked(by=person(Role.ADMIN, "ada"), is_second_needed=False))
    assert refusal(agree, request, TOM).code == "forbidden"
    assert is_second_needed("dev")
    decide(agree, request, person(Role.ADMIN, "max"))
    assert not is_second_needed("dev")


def test_agreeing_to_every_breaker_takes_a_fresh_sign_in(two: None) -> None:
    stale = Actor(name="tom", kind="person", channel="web", may=TOM.may, is_fresh=False)
    assert refusal(agree, held(), stale).code == "sign_in_again"


def test_after_an_hour_it_is_over_and_that_is_written_down_once(two: None) -> None:
    request, late = held(), NOW + timedelta(hours=1)
    assert refusal(agree, request, now=late).code == "decided"
    assert [one.number for one in end_unanswered("dev", now=late)] == [request.number]
    assert end_unanswered("dev", now=late) == []
    assert HeldAct.objects.get().state == HeldAct.EXPIRED
    assert AuditEntry.objects.filter(verb="request.expire").count() == 1


def test_it_is_rejected_or_taken_back_and_then_over(two: None) -> None:
    first, second = held(), held()
    assert decide(reject, first).state == HeldAct.REJECTED
    assert decide(reject, second, ANA).state == HeldAct.WITHDRAWN
    assert {refusal(agree, one).code for one in (first, second)} == {"decided"}
    assert not Override.objects.exists()


def test_what_can_no_longer_be_done_is_refused_and_goes_on_waiting(two: None) -> None:
    decide(agree, held())
    made = Override.objects.get()
    longer = held(actions.extend, **asked(override_id=made.pk, expires_in_s=7200.0))
    actions.release(**asked(override_id=made.pk))
    assert refusal(agree, longer).code == "ended"
    assert HeldAct.objects.get(number=longer.number).state == HeldAct.WAITING


def test_what_could_not_be_done_is_not_asked_of_anybody(two: None) -> None:
    with pytest.raises(Refused) as refused:
        trip_all(confirm="")
    assert (refused.value.status, HeldAct.objects.count()) == (400, 0)
    with pytest.raises(Refused) as refused:
        trip_all(by=person(Role.RESPONDER, "rex"))
    assert (refused.value.status, HeldAct.objects.count()) == (403, 0)


def test_a_dry_run_says_that_it_would_wait(two: None) -> None:
    done = trip_all(dry_run=True)
    assert (done.needs_second, done.is_dry_run, HeldAct.objects.exists()) == (True, True, False)


def test_asked_twice_with_one_key_it_waits_once(two: None) -> None:
    first = held(key="k-1")
    assert held(key="k-1").number == first.number
    decide(agree, first)
    assert held(key="k-1").state == HeldAct.AGREED
    assert HeldAct.objects.count() == Override.objects.count() == 1


def test_the_glass_is_broken_by_an_editor_and_reviewed_by_somebody_else(two: None) -> None:
    with pytest.raises(Refused) as refused:
        trip_all(break_glass=True)
    assert refused.value.status == 403
    assert trip_all(by=EVA, break_glass=True).revision == 1
    broken = HeldAct.objects.get()
    assert (broken.state, broken.revision) == (HeldAct.GLASS, 1)
    assert AuditEntry.objects.get(verb="breaker.trip", result="ok").after["break_glass"] is True
    assert HeldAct.objects.for_people("dev") == [broken]
    assert refusal(review_glass, broken, EVA).code == "own_work"
    assert decide(review_glass, broken).state == HeldAct.REVIEWED
    assert HeldAct.objects.for_people("dev") == []


def test_shedding_and_shedding_on_wait(two: None) -> None:
    decide(agree, held(shed, **asked(confirm="dev", least="sheddable_plus")))
    shedding = LoadShed.objects.get()
    assert (shedding.least, shedding.by) == ("sheddable_plus", "ana and tom")
    longer = held(extend_shed, **asked(expires_in_s=7200.0))
    decide(agree, longer)
    assert LoadShed.objects.get().expires_at == NOW + timedelta(hours=2)


def test_a_policy_needs_the_approval_of_somebody_else(two: None) -> None:
    assert actions.is_review_needed("dev")
    with pytest.raises(Refused) as refused:
        actions.set_operation_policy(**asked(operation="search_web", knobs={"max_retries": 5}))
    assert refused.value.code == "review_needed"


def test_asking_for_two_takes_one_and_asking_for_less_takes_two() -> None:
    ada = person(Role.ADMIN, "ada")
    actions.set_rules(**asked(by=ada, is_second_needed=True))
    assert is_second_needed("dev")
    assert held(actions.set_rules, **asked(by=ada, is_second_needed=False)).act == "set_rules"
    assert is_second_needed("dev")


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
    assert (HeldAct.objects.get().number, HeldAct.objects.get().state) == (1, HeldAct.WAITING)
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
    assert HeldAct.objects.get().state == HeldAct.WITHDRAWN
    assert "/requests/1" in Shown(client.get("/requests")).links


def test_a_viewer_agrees_to_nothing(two: None) -> None:
    request = held()
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
    assert HeldAct.objects.get().state == HeldAct.WAITING
    keys.forget_keys()


# -- who is told -------------------------------------------------------------------------------------------------------
def hear(*open_: str, later: timedelta = timedelta(0)) -> list[Occurrence]:
    """What a rule that asks for it finds, where these were told to go on."""
    asked_for = frozenset({"second_person"})
    return list(second.found(Look(environment="dev", now=NOW + later, asked=asked_for, open=frozenset(open_))))


def test_people_are_told_what_waits_and_when_it_does_not(two: None) -> None:
    request = held()
    [waits] = hear()
    assert (waits.phase, waits.kind, waits.subject) == (Phase.BEGAN, "second_person", "request 1")
    assert left_out(waits.title, "ana", "trip", request.about) == []
    later = timedelta(hours=2)
    [over] = hear("request 1", later=later)
    assert (over.phase, over.kind, over.subject) == (Phase.ENDED, "second_person_done", "request 1")
    assert request.state_at(NOW + later) == HeldAct.EXPIRED
    decide(agree, request)
    assert hear() == []
    [agreed] = hear("request 1")
    assert (agreed.phase, agreed.subject, agreed.text) == (Phase.ENDED, "request 1", YES)
    assert agreed.title != over.title


def test_people_are_told_what_was_done_alone(two: None) -> None:
    trip_all(by=EVA, break_glass=True)
    [alone] = hear()
    request = HeldAct.objects.get()
    assert (alone.phase, alone.kind, alone.subject) == (Phase.BEGAN, "second_person", f"request {request.number}")
    assert (request.state, left_out(alone.title, "eva", "trip", request.about)) == (HeldAct.GLASS, [])
    HeldAct.objects.update(state=HeldAct.WAITING, expires_at=NOW + timedelta(hours=1))
    assert hear()[0].title != alone.title, "it is not said to wait"


def test_nobody_is_asked_where_no_rule_asks(two: None, django_assert_num_queries: Any) -> None:
    held()
    with django_assert_num_queries(0):
        assert list(second.found(Look(environment="dev", now=NOW))) == []


@pytest.mark.usefixtures("now")
def test_the_navigation_counts_what_waits(two: None) -> None:
    client, fragment = signed_in(), {"X-Fragment": "nav"}
    assert "waiting:" not in text_of(client.get("/counts", headers=fragment))
    held()
    assert "waiting: 1" in text_of(client.get("/counts", headers=fragment))
