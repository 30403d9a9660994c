"""A reset of many goes in steps: who is reset when, what halts it, who may go on, and that two schedulers are one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.breakers.models.overrides import Override, Reset
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.ramp_progress import seen_of
from recovery_ops.control.breakers.services import bulk
from recovery_ops.control.breakers.services import ramps as ramps_services
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.services import proposals
from recovery_ops.rules.enums import State, Trigger
from recovery_ops.rules.fleet.reset_ramp import Go, Member
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person, trip
from tests.support.concurrency import at_once, engine
from tests.support.ramps import FLEET, is_told, later, obey, opened_fleet, reopen, reset, seen, told
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, counted, heartbeat, moved

__all__ = ["engine"]  # the fixture

STOP = "stop, it gets worse again"


@pytest.fixture
def opened(db: None) -> None:
    opened_fleet()


def keep(after: float) -> list[ResetRamp]:
    return ramps_services.keep_ramps(now=NOW + timedelta(seconds=after))


def ramp() -> ResetRamp:
    return ResetRamp.objects.latest("number")


def reported(after: float) -> list[Member]:
    """What it has reset so far, as the rule sees it at this moment."""
    return [one.member for one in seen_of(ramp(), now=NOW + timedelta(seconds=after))]


# -- what goes in steps ------------------------------------------------------------------------------------------------
def test_a_breaker_that_many_opened_is_reset_on_one_first(opened: None) -> None:
    done = reset()
    assert isinstance(done.object, ResetRamp)
    assert ([count for count, _ in done.object.plan], done.object.total) == ([1, 5, 10], 10)
    assert len(told(1)) == 1
    # Who does not say who they are is reset with the last step.
    assert desired.document("dev", now=NOW)["resets"] == []


def test_one_instance_is_reset_at_once(opened: None) -> None:
    done = reset(scope=Scope(operation="search_web", instance="r-3"))
    assert isinstance(done.object, Reset)
    assert told(1) == ["r-3"]


def test_where_one_alone_is_open_all_are_reset_at_once(opened: None) -> None:
    obey(FLEET[1:], 0, after=0, then=0)
    done = reset(now=NOW + timedelta(seconds=1))
    assert (isinstance(done.object, Reset), told(1)) == (True, FLEET)


def test_each_step_waits_for_evidence_and_the_last_is_for_everybody(opened: None) -> None:
    reset()
    first = told(1)
    assert keep(5) == []
    assert (ramp().health, [one.has_applied for one in reported(5)]) == (Go.WAIT, [False])
    assert first[0] in ramp().said
    obey(first, 1, after=6, then=4)
    assert keep(10) == []
    assert (ramp().health, [one.is_closed for one in reported(10)]) == (Go.WAIT, [True])
    assert left_out(ramp().said, "20", "30 s") == []
    seen(37)
    assert len(keep(37)) == 1
    second = told(2)
    assert (len(second), set(first) & set(second)) == (4, set())
    obey(second, 2, after=40)
    assert len(keep(75)) == 1
    third = told(3)
    assert sorted([*first, *second, *third]) == FLEET
    assert is_told("r-new", 3)
    obey(third, 3, after=80)
    assert len(keep(115)) == 1
    assert (ramp().state, left_out(ramp().end_reason, "10")) == ("done", [])
    assert keep(120) == []


def test_calls_are_evidence_sooner_than_time(opened: None) -> None:
    reset()
    first = told(1)
    obey(first, 1, after=2, then=6)
    Story().tell(counted(25), at=later(7), instance=first[0]).store()
    assert len(keep(8)) == 1
    assert len(ramp().steps) == 2
    obey(second := told(2), 2, after=9, then=1)
    for instance in second:
        Story().tell(counted(25), at=later(11), instance=instance).store()
    assert keep(12) == [], "calls of the first step are no evidence of the second"
    Story().tell(counted(25), at=later(13), instance=first[0]).store()
    assert (len(keep(14)), len(ramp().steps)) == (1, 3)


def test_the_first_that_opens_again_halts_it_by_name(opened: None) -> None:
    reset()
    [first] = told(1)
    obey([first], 1, after=2)
    reopen(first, after=14)
    assert len(keep(16)) == 1
    halted = ramp()
    assert (halted.state, halted.culprits) == ("halted", [f"search_web on research/{first}"])
    assert left_out(halted.end_reason, f"search_web on research/{first}", "14 s") == []
    assert (keep(60), len(told(2))) == ([], 0)


def test_a_probe_that_was_out_is_no_reopening(opened: None) -> None:
    reset()
    [first] = told(1)
    obey([first], 1, after=2)
    fails = moved(State.OPEN, before=State.HALF_OPEN, trigger=Trigger.PROBE_FAILED)
    Story().tell(fails, at=later(3), instance=first).store()
    assert keep(4) == []
    assert (ramp().health, [one.is_closed for one in reported(4)]) == (Go.WAIT, [False])


def test_a_person_goes_on_and_what_had_opened_halts_it_no_more(opened: None) -> None:
    reset()
    [first] = told(1)
    obey([first], 1, after=2)
    reopen(first, after=14)
    keep(16)
    ramps_services.go_on(**asked(number=1, now=NOW + timedelta(seconds=20)))
    assert (ramp().state, len(told(2))) == ("running", 4)
    obey(told(2), 2, after=22)
    assert len(keep(60)) == 1
    assert len(ramp().steps) == 3


def test_a_person_who_cannot_wait_takes_the_next_step_now(opened: None) -> None:
    reset()
    ramps_services.go_on(**asked(number=1, now=NOW + timedelta(seconds=1)))
    assert (len(told(1)), len(told(2))) == (1, 4)


def test_a_cancelled_one_resets_nobody_else(opened: None) -> None:
    reset()
    obey(told(1), 1, after=2)
    ramps_services.cancel(**asked(number=1))
    assert (ramp().state, keep(60), len(told(2))) == ("cancelled", [], 0)
    with pytest.raises(CommandRejected) as refused:
        ramps_services.go_on(**asked(number=1))
    assert refused.value.code == "wrong_state"


def test_nobody_answers_and_it_halts_with_their_names(opened: None) -> None:
    reset()
    [first] = told(1)
    seen(601)
    keep(601)
    assert (ramp().state, ramp().culprits) == ("halted", [f"search_web on research/{first}"])
    assert left_out(ramp().end_reason, f"search_web on research/{first}", "10 min") == []


# -- what it meets -----------------------------------------------------------------------------------------------------
def held(instance: str) -> list[str]:
    document = desired.document("dev", service="research", instance=instance, now=NOW)
    return [one["id"] for one in document["overrides"]]


def test_a_trip_on_the_same_scope_ends_step_by_step(opened: None) -> None:
    override = trip().object
    story = Story()
    for instance in FLEET:
        story.tell(moved(State.FORCED_OPEN, before=State.OPEN), heartbeat(revision=1), at=0.5, instance=instance)
    story.store()
    reset()
    [first] = told(2)
    assert [one for one in FLEET if not held(one)] == [first]
    for _ in range(2):
        ramps_services.go_on(**asked(number=1))
    assert [one for one in FLEET if held(one)] == []
    override.refresh_from_db()
    assert (override.end_revision, override.end_reason) == (4, asked()["reason"])


def test_a_trip_that_comes_later_halts_it(opened: None) -> None:
    reset()
    held_by_ana = trip(now=NOW + timedelta(seconds=2), reason=STOP).object
    keep(5)
    assert (ramp().state, ramp().culprits) == ("halted", [held_by_ana.pk])
    assert left_out(ramp().end_reason, "ana", "forced_open", "search_web", STOP) == []


def test_scheduled_trip_halts_ramp_once_it_begins(opened: None) -> None:
    reset()
    trip(now=NOW + timedelta(seconds=2), starts_in_s=10.0, reason=STOP)
    keep(11)
    assert ramp().state == "running"
    keep(12)
    assert ramp().state == "halted"


def test_a_second_ramp_of_the_same_breaker_is_refused(opened: None) -> None:
    reset()
    with pytest.raises(CommandRejected) as refused:
        reset(reason="once more, to be sure")
    assert refused.value.code == "ramp_goes_on"
    assert AuditEntry.objects.filter(result="refused").count() == 1


def test_later_resets_make_the_steps_of_earlier_ones_needless(opened: None) -> None:
    reset()
    for _ in range(2):
        ramps_services.go_on(**asked(number=1))
    assert len(desired.read("dev").resets) == 3
    keep(1)
    ramps_services.cancel(**asked(number=1))
    reset()
    for _ in range(2):
        ramps_services.go_on(**asked(number=2))
    assert [one.revision for one in desired.read("dev").resets] == [4, 5, 6]


def test_many_breakers_are_one_ramp_with_a_result_for_each(opened: None) -> None:
    opened_fleet(("fetch", "calm"), fleet=FLEET[:2])
    keyed: Any = asked(key="k-1")
    results = bulk.each("reset", ["search_web", "fetch", "nothing"], keyed, where={})
    assert [(one.name, one.rejection and one.rejection.code) for one in results] == [
        ("search_web", None),
        ("fetch", None),
        ("nothing", "unknown_breaker"),
    ]
    found = ramp()
    assert (found.breakers, found.total, [count for count, _ in found.plan]) == (
        ["fetch", "search_web"],
        12,
        [1, 2, 6, 12],
    )
    assert Reset.objects.count() == 1
    again = bulk.each("reset", ["search_web", "fetch", "nothing"], keyed, where={})
    assert again[0].done is not None
    assert (again[0].done.was_already, ResetRamp.objects.count()) == (True, 1)
    for _ in range(3):
        ramps_services.go_on(**asked(number=1))
    assert sum(len(told(revision)) for revision in range(1, 5)) >= len(FLEET)
    assert not ramp().has_more


def test_many_that_are_asked_for_again_with_the_same_key_meet_no_change_but_their_own(opened: None) -> None:
    """The answer was lost: who asks again has the page of before, and their own reset is nobody's change."""
    opened_fleet(("fetch", "calm"), fleet=FLEET[:2])
    trip(scope=Scope(operation="calm"), by=person(name="bob"))
    keyed: Any = asked(key="k-1", seen=0)
    names = ["search_web", "fetch", "calm", "nothing"]
    first, again = (bulk.each("reset", names, keyed, where={}) for _ in range(2))
    for results in (first, again):
        codes = [one.rejection and one.rejection.code for one in results]
        assert codes == [None, None, "stale", "unknown_breaker"]
    assert again[0].done is not None
    assert (again[0].done.was_already, ResetRamp.objects.count()) == (True, 1)


def test_many_that_were_reset_one_by_one_are_no_ramp_when_asked_for_again(opened: None) -> None:
    opened_fleet(("fetch",), fleet=FLEET[:1])
    names, where = ["fetch", "search_web"], {"instance": "r-0"}
    obey(["r-0"], 0, after=0, then=0)
    keyed: Any = asked(key="k-1", now=NOW + timedelta(seconds=1))
    first = bulk.each("reset", names, keyed, where=where)
    assert [isinstance(one.done and one.done.object, Reset) for one in first] == [True, True]
    reopen("r-0", after=0.5)
    again = bulk.each("reset", names, keyed, where=where)
    assert [one.done and one.done.was_already for one in again] == [True, True]
    assert ResetRamp.objects.count() == 0


def test_the_same_key_begins_one_ramp(opened: None) -> None:
    first, second = reset(key="one click"), reset(key="one click")
    assert (second.was_already, second.object.pk) == (True, first.object.pk)


def test_trying_it_writes_nothing(opened: None) -> None:
    done = reset(dry_run=True)
    assert (done.object.total, done.is_dry_run, ResetRamp.objects.count(), Reset.objects.count()) == (10, True, 0, 0)


def test_its_numbers_are_those_of_the_policy(opened: None) -> None:
    document = {"reset_ramp": {"first_instances": 3, "second_share": 0.4, "third_share": 0.8, "least_time_s": 5}}
    made = proposals.propose(**asked(by=person(Role.EDITOR, "eva"), title="bolder", document=document)).object
    proposals.release_proposal(**asked(number=made.number))
    found = reset().object
    assert ([count for count, _ in found.plan], found.limits.least_time_s) == ([3, 4, 8, 10], 5.0)


def test_every_step_stands_in_the_audit_log(opened: None) -> None:
    reset()
    obey(told(1), 1, after=2)
    keep(60)
    rows = AuditEntry.objects.order_by("number").values_list("verb", "actor_name", "object", "revision")
    assert list(rows) == [
        ("breaker.reset", "ana", "search_web", 1),
        ("breaker.reset", "reset ramp", "search_web", 2),
        ("ramp.step", "reset ramp", "reset 1", 2),
    ]
    assert verify_chain("dev").is_whole


def test_who_may_not_reset_may_not_go_on(opened: None) -> None:
    reset()
    for act in (ramps_services.go_on, ramps_services.cancel):
        with pytest.raises(CommandRejected) as refused:
            act(**asked(number=1, by=person(Role.VIEWER)))
        assert refused.value.status == 403


# -- two at once -------------------------------------------------------------------------------------------------------
def test_of_many_schedulers_one_takes_the_step(engine: Callable[[], None]) -> None:
    opened_fleet()
    reset()
    obey(told(1), 1, after=2)
    results = at_once(engine, lambda _: len(keep(60)))
    assert sorted(map(str, results)) == ["0"] * 5 + ["1"]
    assert (len(ramp().steps), current_revision("dev"), len(told(2))) == (2, 2, 4)
    assert verify_chain("dev").is_whole


def test_the_override_lets_out_by_name_what_it_spares(opened: None) -> None:
    override = trip().object
    Override.objects.filter(pk=override.pk).update(spares={"instances": [["research", "r-2"]]})
    assert (held("r-2"), held("r-3")) == ([], [override.pk])
