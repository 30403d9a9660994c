"""The quorum rule at work on a fleet: trips the rest with its evidence, prolongs, gives back, and yields to people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from events.models import Agent
from events.moments import to_us
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.models.quorum import QuorumWatch
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.breakers.services.quorum import keep_quorum
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.services import proposals
from recovery_ops.rules.enums import State, Trigger
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person, trip
from tests.support.api_client import Program
from tests.support.concurrency import at_once, engine
from tests.support.fleet import seen_now
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, heartbeat, moved

__all__ = ["engine"]  # the fixture

FLEET = [f"r-{number}" for number in range(10)]
SAID = {"operation": "search_*", "share": 0.5, "minimum_count": 5, "hold_s": 30, "expires_s": 300}
RULED = {"quorum": [SAID]}


@pytest.fixture
def ruled(db: None) -> None:
    set_up()


def set_up(opened: int = 6) -> None:
    story = Story()
    for number, instance in enumerate(FLEET):
        story.tell(heartbeat(), moved(State.CLOSED), at=90, instance=instance)
        if number < opened:
            story.tell(moved(State.OPEN), at=60 - number, instance=instance)
        story.tell(heartbeat(), at=1, instance=instance)
    story.store()
    policy(RULED)


def policy(document: dict[str, Any]) -> None:
    made = proposals.propose(**asked(by=person(Role.EDITOR, "eva"), title="quorum", document=document)).object
    proposals.release_proposal(**asked(number=made.number))


def keep(after: float) -> int:
    """One look so many seconds from now, at which everybody is alive."""
    moment = NOW + timedelta(seconds=after)
    Agent.objects.update(last_seen_us=to_us(moment))
    return keep_quorum("dev", now=moment)


def tripped() -> Override:
    """The rule has held for as long as it has to."""
    assert [keep(0), keep(29), keep(31)] == [0, 0, 1]
    return Override.objects.get(ended_at=None)


def held(instance: str) -> bool:
    document = desired.document("dev", service="research", instance=instance, now=NOW)
    return bool(document["overrides"])


def close(*instances: str, after: float) -> None:
    for instance in instances:
        closed = moved(State.CLOSED, before=State.HALF_OPEN, trigger=Trigger.PROBE_SUCCEEDED)
        Story().tell(closed, at=-after, instance=instance).store()


def test_without_a_rule_nothing_is_ever_tripped(known: None) -> None:
    set_up(10)
    policy({"quorum": []})
    assert [keep(0), keep(60), Override.objects.count(), QuorumWatch.objects.count()] == [0, 0, 0, 0]


def test_the_rest_is_tripped_with_the_evidence_as_reason_and_an_end(ruled: None) -> None:
    found = tripped()
    assert (found.mode, found.scope, found.rule, found.by) == (
        "forced_open",
        Scope(operation="search_web"),
        "quorum",
        "quorum",
    )
    assert all(word in found.reason for word in ("6 of 10", "14:25:18 UTC", "50 %", "5"))
    assert (found.expires_at - found.starts_at).total_seconds() == 300
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.actor_kind, entry.revision) == ("breaker.trip", "system", found.revision)
    assert entry.after["opened"] == [f"research/{one}" for one in FLEET[:6]]
    assert verify_chain("dev").is_whole


def test_those_that_opened_it_go_on_by_their_own_rules(ruled: None) -> None:
    tripped()
    assert [one for one in FLEET if held(one)] == FLEET[6:]
    assert held("r-new")


def test_a_moment_of_trouble_trips_nobody(ruled: None) -> None:
    assert keep(0) == 0
    close("r-0", "r-1", after=10)
    assert [keep(12), keep(40), keep(80)] == [0, 0, 0]
    Story().tell(moved(State.OPEN), at=-82, instance="r-0").store()
    assert [keep(84), keep(100), keep(115)] == [0, 0, 1]


def test_a_scheduler_that_was_away_begins_anew(ruled: None) -> None:
    assert [keep(0), keep(300), keep(320), keep(331)] == [0, 0, 0, 1]


def test_it_is_prolonged_while_they_have_it_open(ruled: None) -> None:
    found = tripped()
    for instance in FLEET[6:]:
        Story().tell(moved(State.FORCED_OPEN), at=-33, instance=instance).store()
    assert [keep(100), keep(190), keep(192)] == [0, 1, 0]
    found.refresh_from_db()
    entry = AuditEntry.objects.latest("number")
    assert (found.expires_at, entry.verb) == (NOW + timedelta(seconds=490), "breaker.extend")
    assert found.revision == entry.revision == current_revision("dev")


def test_it_is_given_back_when_their_probes_succeed(ruled: None) -> None:
    found = tripped()
    close("r-0", "r-1", "r-2", after=60)
    assert keep(62) == 0, "half of a quorum is no reason to let go"
    close("r-3", after=64)
    assert [keep(66), keep(90), keep(97)] == [0, 0, 1]
    found.refresh_from_db()
    assert (found.ended_by, found.is_ended_by_person) == ("quorum", False)
    assert "2 of 10" in found.end_reason
    assert not held("r-9")


def test_where_nobody_is_left_to_tell_it_ends_by_its_time(ruled: None) -> None:
    found = tripped()
    Agent.objects.filter(instance__in=FLEET[:6]).update(status="stopped")
    assert [keep(200), keep(300)] == [0, 0]
    overrides_services.end_expired("dev", now=found.expires_at)
    found.refresh_from_db()
    assert found.end_reason == "expired"


def test_a_person_who_ends_it_is_not_overruled(ruled: None) -> None:
    found = tripped()
    overrides_services.release(**asked(override_id=found.pk, now=NOW + timedelta(seconds=40)))
    assert [keep(45 + 20 * step) for step in range(14)] == [0] * 14
    assert keep(341) == 1


@pytest.mark.parametrize(
    "scope", [Scope(operation="search_web"), Scope(operation="search_*"), Scope(), Scope(service="research")]
)
def test_where_a_person_holds_it_the_rule_stays_away(ruled: None, scope: Scope) -> None:
    overrides_services.disable(**asked(scope=scope, ahead=True))
    assert [keep(0), keep(31), keep(60)] == [0, 0, 0]
    assert Override.objects.get().mode == "disabled"


def test_a_person_who_comes_later_goes_first(ruled: None) -> None:
    found = tripped()
    overrides_services.disable(**asked(scope=Scope(service="research"), now=NOW + timedelta(seconds=40)))
    assert keep(42) == 1
    found.refresh_from_db()
    assert (found.ended_by, found.is_ended_by_person) == ("quorum", False)
    assert " ana " in found.end_reason


def test_a_trip_by_a_person_takes_its_place_and_holds_everybody(ruled: None) -> None:
    tripped()
    trip(now=NOW + timedelta(seconds=40))
    assert all(held(one) for one in FLEET)
    assert keep(42) == 0


def test_a_narrower_override_of_a_person_is_no_hindrance(ruled: None) -> None:
    trip(scope=Scope(operation="search_web", instance="r-9"))
    assert [keep(0), keep(31)] == [0, 1]


def test_a_rule_that_is_taken_back_releases(ruled: None) -> None:
    tripped()
    policy({"quorum": []})
    assert keep(40) == 1
    assert not Override.objects.filter(ended_at=None).exists()


def test_what_nobody_has_open_is_not_remembered(ruled: None) -> None:
    keep(0)
    assert QuorumWatch.objects.get().opened == 6
    close(*FLEET[:6], after=5)
    keep(6)
    assert not QuorumWatch.objects.exists()


# -- on the page and by the API ---------------------------------------------------------------------------------------
@pytest.mark.usefixtures("ruled", "now")
def test_the_page_of_the_breaker_says_how_far_it_is() -> None:
    page = signed_in().get("/breakers/search_web")
    told = page.context["quorum"]
    assert told in text_of(page)
    assert all(word in told for word in ("6 of 10", "5 of 10", "50 %", "30 s"))
    policy({"quorum": []})
    assert signed_in().get("/breakers/search_web").context["quorum"] == ""


@pytest.mark.usefixtures("ruled", "now")
def test_the_page_says_whom_the_trip_lets_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tripped()
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(seconds=32))
    page = signed_in().get("/breakers/search_web")
    assert page.context["override"].by == "quorum"
    assert page.context["quorum"] in text_of(page)
    assert all(word in page.context["quorum"] for word in ("6 instances", "6 of 10"))
    let_out = {}
    for instance in ("r-1", "r-9"):
        answer = signed_in().get(f"/explain?operation=search_web&service=research&instance={instance}")
        [claim] = answer.context["found"].overrides
        assert claim.why in text_of(answer)
        let_out[instance] = (claim.is_let_out, claim.wins)
    assert let_out == {"r-1": (True, False), "r-9": (False, True)}


def test_a_program_reads_the_same(ruled: None) -> None:
    seen_now()
    status, found = Program("read").get("breakers/search_web")
    assert (status, found["breaker"]["quorum"]["needed"], found["breaker"]["quorum"]["opened"]) == (200, 5, 6)


def test_of_many_schedulers_one_trips_one_prolongs_and_one_releases(engine: Callable[[], None]) -> None:
    set_up()
    assert keep(0) == 0
    assert sorted(map(str, at_once(engine, lambda _: keep(31)))) == ["0"] * 5 + ["1"]
    assert (Override.objects.count(), current_revision("dev")) == (1, 2)
    for instance in FLEET[6:]:
        Story().tell(moved(State.FORCED_OPEN), at=-33, instance=instance).store()
    assert sorted(map(str, at_once(engine, lambda _: keep(190)))) == ["0"] * 5 + ["1"]
    close(*FLEET[:6], after=200)
    assert keep(201) == 0
    assert sorted(map(str, at_once(engine, lambda _: keep(232)))) == ["0"] * 5 + ["1"]
    assert (Override.objects.filter(ended_at=None).count(), current_revision("dev")) == (0, 4)
    assert verify_chain("dev").is_whole


def test_a_window_that_is_to_begin_later_does_not_hold_the_rule_back(ruled: None) -> None:
    window = trip(starts_in_s=72_000.0, reason="the provider is upgraded tonight").object
    assert [keep(0), keep(31)] == [0, 1]
    held = Override.objects.live("dev").exclude(pk=window.pk).get()
    assert (held.rule, held.starts_at < window.starts_at) == ("quorum", True)
