"""Who reports, what each breaker is in across the fleet, and the moves that brought it there."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.models import Fact
from events.queries import breaker, breakers, fleet, instance_states, transitions
from events.queries import counted as counting
from events.queries.breakers import providers_of, standing_of
from events.queries.counted import in_flight
from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.rules.events import BreakerRejected, DesiredStateApplied, DesiredStateRejected
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

pytestmark = pytest.mark.django_db


def test_the_fleet_says_who_can_be_reached() -> None:
    story = Story().tell(heartbeat(), at=10, instance="lives").tell(heartbeat(), at=46, instance="silent")
    story.tell(heartbeat("stopped"), at=10, instance="stopped").tell(
        heartbeat(), at=90_000, instance="forgotten"
    ).store()
    assert [(row.instance, row.is_reachable) for row in fleet("dev", now=NOW)] == [("lives", True), ("silent", False)]
    everyone = fleet("dev", now=NOW, include_stopped=True)
    assert [(row.instance, row.is_reachable) for row in everyone] == [
        ("lives", True),
        ("silent", False),
        ("stopped", False),
    ]


def test_an_instance_says_what_it_obeys_and_how_its_outbox_stands() -> None:
    beat = heartbeat("draining", revision=41, config_hash="abc", outbox_pending=3, breakers_open=2, runs_in_flight=5)
    applied = DesiredStateApplied(revision=41, config_hash="abc", clamped=("max_retries",))
    refused = DesiredStateRejected(revision=42, config_hash="def", reason="no such setting", kept_revision=41)
    Story().tell(applied, at=60).tell(refused, at=30).tell(beat, at=10).store()
    [row] = fleet("dev", now=NOW)
    assert (row.status, row.revision, row.config_hash, row.applied_at) == ("draining", 41, "abc", ago(60))
    assert (row.rejected_revision, row.rejected_reason, row.clamped) == (42, "no such setting", ("max_retries",))
    assert (row.outbox_pending, row.breakers_open, row.runs_in_flight, row.heartbeat_age_s) == (3, 2, 5, 10.0)


def test_a_refusal_is_over_when_something_was_applied_after_it() -> None:
    refused = DesiredStateRejected(revision=42, config_hash="def", reason="no", kept_revision=41)
    Story().tell(refused, at=30).tell(DesiredStateApplied(revision=43, config_hash="x"), at=20).store()
    assert fleet("dev", now=NOW)[0].rejected_revision is None


def storm() -> Story:
    """Three instances, two of them open, one of those silent; and a quiet breaker."""
    story = Story()
    for name, at in (("a-0", 5), ("a-1", 5), ("a-2", 5), ("a-3", 300)):
        story.tell(heartbeat(), counted(1, operation="quiet"), at=at, instance=name)
    story.tell(moved(State.OPEN), at=200, instance="a-0")
    story.tell(moved(State.FORCED_OPEN, trigger=Trigger.OPERATOR_TRIP, failure_rate=None), at=100, instance="a-1")
    story.tell(moved(State.CLOSED), at=400, instance="a-2").tell(moved(State.OPEN), at=320, instance="a-3")
    return story


def test_breakers_come_worst_first_with_counts_of_those_that_can_be_asked() -> None:
    storm().store()
    bad, quiet = breakers("dev", now=NOW)
    assert (bad.name, bad.worst, bad.since) == ("search_web", State.FORCED_OPEN, ago(100))
    assert bad.counts == {State.FORCED_OPEN: 1, State.OPEN: 1, State.CLOSED: 1}
    assert (bad.unknown, bad.instances, bad.is_flowing) == (1, 4, False)
    assert (bad.failure_rate, bad.threshold, bad.last_category) == (0.65, 0.5, Category.OVERLOADED)
    assert (quiet.name, quiet.worst, quiet.is_flowing, quiet.since) == ("quiet", State.CLOSED, True, None)


def test_one_breaker_is_the_same_alone_as_in_the_list() -> None:
    storm().store()
    for row in breakers("dev", now=NOW):
        shared = standing_of("dev", row.name, since=NOW)
        assert breaker("dev", row.name, now=NOW) == breaker("dev", row.name, now=NOW, standing=shared) == row
        states = instance_states("dev", row.name, now=NOW)
        assert instance_states("dev", row.name, now=NOW, standing=shared) == states


def test_who_is_long_gone_is_not_read_and_its_breaker_is_known_all_the_same() -> None:
    Story().tell(heartbeat(), moved(State.OPEN), at=9 * 86_400, instance="gone").store()
    assert standing_of("dev", "search_web", since=NOW) == []
    row = breaker("dev", "search_web", now=NOW)
    assert row is not None
    assert (row.instances, breaker("dev", "never", now=NOW)) == (0, None)


def test_rates_are_of_the_last_whole_minute_and_the_one_that_runs() -> None:
    story = Story().tell(heartbeat(), moved(State.CLOSED), at=300)
    for at in (5, 40, 70, 200):  # the last is too old to count
        story.tell(counted(130, attempts=100), failed(), failed(), at=at)
    refused = BreakerRejected(operation="search_web", breaker="search_web", state=State.OPEN, count=26)
    story.tell(refused, at=5).store()
    [row] = breakers("dev", now=NOW)
    minutes = 1 + 18 / 60
    assert row.calls_per_min == pytest.approx(3 * 130 / minutes)
    assert row.failures_per_min == pytest.approx(6 / minutes)
    assert row.rejected_per_min == pytest.approx(26 / minutes)
    assert row.failure_rate == pytest.approx(6 / 300)
    assert (row.operations, row.services) == (("search_web",), ("research",))


def test_a_breaker_that_is_quiet_has_no_rate_rather_than_zero() -> None:
    Story().tell(heartbeat(), moved(State.CLOSED), at=5).store()
    assert breakers("dev", now=NOW)[0].failure_rate is None


def test_a_breaker_nobody_can_be_asked_about_is_in_no_state() -> None:
    Story().tell(heartbeat(), moved(State.OPEN), at=100).store()
    [row] = breakers("dev", now=NOW)
    assert (row.worst, row.counts, row.unknown) == (None, {}, 1)


def test_one_breaker_is_found_by_name_also_after_its_instances_are_gone() -> None:
    storm().store()
    row = breaker("dev", "search_web", now=NOW)
    assert row == breakers("dev", now=NOW)[0]
    assert breaker("dev", "never heard of", now=NOW) is None
    Story("old").tell(moved(State.OPEN), at=200_000).store()
    gone = breaker("old", "search_web", now=NOW)
    assert gone is not None
    assert (gone.instances, gone.worst) == (0, None)


def test_calls_of_an_operation_count_for_the_breaker_it_shares() -> None:
    story = Story().tell(heartbeat(), moved(State.CLOSED, breaker="helios"), at=5)
    story.tell(counted(13, operation="model:large", breaker="helios"), at=5)
    story.tell(counted(13, operation="model:small", breaker="helios"), at=5).store()
    [row] = breakers("dev", now=NOW)
    assert row.calls_per_min == pytest.approx(26 / 1.3)
    assert row.operations == ("helios", "model:large", "model:small")


def test_instances_of_a_breaker_come_with_what_they_last_said() -> None:
    storm().store()
    states = instance_states("dev", "search_web", now=NOW)
    assert [(one.agent.instance, one.state, one.reported_state) for one in states] == [
        ("a-3", None, State.OPEN),
        ("a-1", State.FORCED_OPEN, State.FORCED_OPEN),
        ("a-0", State.OPEN, State.OPEN),
        ("a-2", State.CLOSED, State.CLOSED),
    ]
    assert (states[2].failures, states[2].since, states[2].trigger) == (13, ago(200), Trigger.FAILURE_RATE)


def test_moves_come_newest_first_with_their_evidence() -> None:
    story = storm().tell(moved(State.OPEN, breaker="other"), at=50)
    story.store()
    found = transitions("dev", start=ago(250), end=NOW, breaker="search_web")
    assert [(one.instance, one.state) for one in found] == [("a-1", State.FORCED_OPEN), ("a-0", State.OPEN)]
    assert (found[1].at, found[1].failures, found[1].calls, found[1].last_category) == (
        ago(200),
        13,
        20,
        Category.OVERLOADED,
    )
    assert len(transitions("dev", start=ago(250), end=NOW)) == 3
    assert len(transitions("dev", start=ago(250), end=NOW, limit=1)) == 1


def test_evidence_that_makes_no_sense_is_left_out() -> None:
    storm().store()
    Fact.objects.filter(event="breaker_state_changed").update(
        attributes={
            "recovery.breaker.trigger": "made up",
            "recovery.breaker.calls": "many",
            "recovery.breaker.failure_rate": None,
            "recovery.breaker.last_category": 7,
        }
    )
    [newest, *_] = transitions("dev", start=ago(250), end=NOW)
    assert (newest.trigger, newest.calls, newest.failure_rate, newest.last_category) == (None, None, None, None)


def test_few_queries_are_asked() -> None:
    storm().store()
    for question, most in (
        (lambda: breakers("dev", now=NOW), 3),
        (lambda: breaker("dev", "search_web", now=NOW), 2),
        (lambda: instance_states("dev", "quiet", now=NOW), 1),
    ):
        with CaptureQueriesContext(connection) as asked:
            question()
        assert len(asked) <= most


def test_the_first_to_probe_is_told_of_one_breaker_as_in_the_list_of_all() -> None:
    story = Story().tell(heartbeat(), at=5, instance="a-0").tell(heartbeat(), at=5, instance="a-1")
    story.tell(moved(State.OPEN, wait_s=60.0), at=20, instance="a-0")
    story.tell(moved(State.HALF_OPEN, before=State.FORCED_OPEN, wait_s=25.0), at=10, instance="a-1").store()
    [row] = breakers("dev", now=NOW)
    one = breaker("dev", "search_web", now=NOW)
    assert row.next_probe == ago(-15)
    assert one is not None
    assert one.next_probe == row.next_probe


def test_calls_under_way_are_what_each_instance_counted_last(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story().tell(counted(1, in_flight=7), at=16).tell(counted(1, in_flight=5), at=14)
    story.tell(counted(1, in_flight=4), at=3).tell(counted(1, in_flight=2), at=3, source="background")
    story.tell(counted(1, "other"), at=3, instance="a-2").store()
    assert in_flight("dev", now=NOW) == {"search_web": 6, "other": 0}
    assert in_flight("dev", now=NOW, breaker="other") == {"other": 0}
    monkeypatch.setattr(counting, "COUNTS_READ", 3)
    assert in_flight("dev", now=NOW) is None, "what was not read is not said to be nothing"


def test_providers_are_those_of_the_last_day() -> None:
    story = Story().tell(failed(provider="helios"), at=80_000).tell(counted(1, provider="sol"), at=5)
    story.tell(failed(operation="old", provider="helios"), at=200_000).tell(counted(1, "quiet"), at=5).store()
    assert providers_of("dev", now=NOW) == {"search_web": ("helios", "sol")}
