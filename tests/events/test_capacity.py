"""One outage is one event: found as it goes on, in late facts too, the same from every order, and never twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from events.capacity import following
from events.capacity.asking import capacity_event
from events.capacity.detection import look, look_back
from events.capacity.following import follow_runs
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_anew, read_reach
from events.moments import to_us
from events.tasks import look_back_for_outages, look_for_outages
from recovery_ops.rules.enums import Category, DelaySource, RunStatus, State
from recovery_ops.rules.events import AttemptSucceeded, Escalated, FallbackActivated, RetryScheduled, RunFinished
from tests.support.capacity import HELIOS, storm
from tests.support.examples import examples
from tests.support.query_steps import steps
from tests.support.stories import NOW, Story, failed, moved

pytestmark = pytest.mark.django_db


_environments = count(1)


def found(environment: str = "dev") -> list[tuple[str, int, int]]:
    """Each event that stands by itself: whose, and how many seconds ago it began and was last hot."""
    now_us = int(NOW.timestamp() * 1e6)
    return [
        (str(event), round((now_us - event.started_us) / 1e6), round((now_us - event.last_us) / 1e6))
        for event in CapacityEvent.objects.filter(environment=environment, merged_into=None).order_by(
            "started_us", "provider", "model", "operation"
        )
    ]


def test_an_overload_is_one_event_however_often_one_looks() -> None:
    storm(Story(), since=300, until=60).store()
    assert look("dev", NOW) == 1
    assert found() == [("helios large", 300, 60)]
    assert look("dev", NOW) == 0
    assert look_back("dev", NOW) == 0
    assert found() == [("helios large", 300, 60)]


def test_it_grows_while_it_goes_on_and_keeps_its_name() -> None:
    storm(Story(), since=300, until=200).store()
    look("dev", NOW)
    [first] = CapacityEvent.objects.all()
    storm(Story(), since=195, until=0).store()
    assert look("dev", NOW) == 1
    [same] = CapacityEvent.objects.all()
    assert same.pk == first.pk
    assert found() == [("helios large", 300, 0)]


def test_each_backend_has_its_own_and_an_unnamed_one_goes_by_its_operation() -> None:
    storm(Story(), since=300, until=100).store()
    storm(Story(), since=250, until=150, provider="", model="", operation="search_web").store()
    storm(Story(), since=240, until=140, provider="other", model="").store()
    look("dev", NOW)
    assert {name for name, *_ in found()} == {"helios large", "search_web", "other"}


def test_one_run_alone_and_mistakes_of_callers_are_no_outage() -> None:
    story = Story()
    for at in range(100):
        story.tell(failed(Category.OVERLOADED, **HELIOS), at=at, run="only")
        story.tell(failed(Category.INVALID_REQUEST, **HELIOS), at=at, instance=f"a-{at % 3}", run=f"run-{at % 3}")
    story.store()
    look("dev", NOW)
    assert found() == []


def test_facts_of_another_environment_stay_there() -> None:
    storm(Story("staging"), since=300, until=100).store()
    look("dev", NOW)
    assert found() == []


def test_late_facts_make_an_event_and_close_the_gap_between_two() -> None:
    storm(Story(), since=7200, until=7000).store()
    storm(Story(), since=6200, until=6000).store()
    look("dev", NOW)
    assert found() == []
    assert look_back("dev", NOW) == 2
    ends = CapacityEvent.objects.order_by("started_us").values_list("pk", flat=True)
    assert found() == [("helios large", 7200, 7000), ("helios large", 6200, 6000)]
    storm(Story(), since=6995, until=6205).store()
    look_back("dev", NOW)
    assert found() == [("helios large", 7200, 6000)]
    assert CapacityEvent.objects.get(pk=ends[1]).merged_into_id == ends[0]


def test_an_hour_is_read_again_only_when_facts_came() -> None:
    storm(Story(), since=7200, until=7000).store()
    look_back("dev", NOW)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        look_back("dev", NOW)
    assert not [one for one in asked.captured_queries if "events_fact" in one["sql"]]


def test_what_it_reached() -> None:
    story = storm(Story(), since=300, until=240, retry_after_s=20.0, status_code=529)
    story.tell(
        failed(Category.RATE_LIMITED, operation="model:large", retry_after_s=45.0, **HELIOS), at=241, source="batch"
    )
    story.tell(moved(State.OPEN, breaker="model:large"), at=270)
    story.tell(FallbackActivated(operation="model:large", fallback="model:small", level=1), at=260)
    story.tell(FallbackActivated(operation="elsewhere", fallback="x", level=1), at=260)
    story.store()
    look("dev", NOW)
    assert read_reach("dev", NOW) == 1
    event = CapacityEvent.objects.get()
    assert event.categories == {"overloaded": 13, "rate_limited": 1}
    assert (event.failures, event.foreground, event.runs, event.instances) == (14, 13, 3, 2)
    assert event.codes == {"529": 13, "": 1}, "nothing was answered where no status was told"
    assert event.services == {"research": 2}
    assert event.operations == {"model:large": 14}
    assert event.breakers == {"model:large": 1}
    assert event.fallbacks == 1
    assert event.longest_wait_s == 45.0
    assert event.peak_per_min in range(7, 14)
    assert not event.is_partial
    assert read_reach("dev", NOW) == 0, "what did not grow is not read again"


def move(to: State, *, at: float, instance: str = "a-1", breaker: str = "model:large") -> Story:
    return Story().tell(moved(to, breaker=breaker), at=at, instance=instance).store()


def moves() -> list[tuple[Any, ...]]:
    """Breaker, seconds since it opened, times open, half-open, closed, instances, not closed, seconds since its end."""
    row = capacity_event("dev", CapacityEvent.objects.earliest("pk").pk, now=NOW)
    assert row is not None
    return [
        (
            *(one.breaker, round((NOW - one.opened_at).total_seconds()), one.openings, one.half_openings),
            *(one.closings, one.instances, one.not_closed),
            None if one.closed_at is None else round((NOW - one.closed_at).total_seconds()),
        )
        for one in row.moves
    ]


def test_each_breaker_is_followed_from_its_opening_until_it_is_closed_in_every_instance() -> None:
    storm(Story(), since=300, until=240).store()
    for instance in ("a-0", "a-1"):
        move(State.OPEN, at=280, instance=instance)
    move(State.CLOSED, at=279, instance="a-7")
    move(State.OPEN, at=270, breaker="elsewhere")
    look("dev", NOW)
    read_reach("dev", NOW)
    assert moves() == [("model:large", 280, 2, 0, 0, 2, 2, None)], "one that only closed has not opened here"

    move(State.HALF_OPEN, at=230)
    move(State.OPEN, at=229)
    move(State.HALF_OPEN, at=220, instance="a-0")
    move(State.CLOSED, at=219, instance="a-0")
    follow_runs("dev", NOW)
    assert moves() == [("model:large", 280, 3, 2, 1, 2, 1, None)], "what happened after its last failure counts"
    follow_runs("dev", NOW + timedelta(seconds=11))
    assert moves() == [("model:large", 280, 3, 2, 1, 2, 1, None)], "looked at twice it is counted once"

    move(State.CLOSED, at=100)
    follow_runs("dev", NOW + timedelta(seconds=22))
    assert moves() == [("model:large", 280, 3, 2, 2, 2, 0, 100)]
    assert look_back("dev", NOW) == 0
    assert read_reach("dev", NOW) == 0, "what is known already is not read again"


def test_a_breaker_that_its_last_failure_opened_is_one_of_its_own() -> None:
    storm(Story(), since=300, until=240).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    assert CapacityEvent.objects.get().breakers == {}
    move(State.OPEN, at=239)
    follow_runs("dev", NOW)
    assert CapacityEvent.objects.get().breakers == {"model:large": 1}
    assert moves() == [("model:large", 239, 1, 0, 0, 1, 1, None)]

    move(State.OPEN, at=239, breaker="elsewhere")
    move(State.OPEN, at=200, instance="a-0")
    follow_runs("dev", NOW + timedelta(seconds=11))
    assert CapacityEvent.objects.get().breakers == {"model:large": 1}, "what opens long after it has another cause"


def test_flapping_makes_counts_higher_and_nothing_longer() -> None:
    storm(Story(), since=300, until=240).store()
    for second in range(290, 90, -2):
        move(State.OPEN, at=second)
        move(State.CLOSED, at=second - 1)
    look("dev", NOW)
    read_reach("dev", NOW)
    assert moves() == [("model:large", 290, 100, 0, 100, 1, 0, 91)]
    assert len(CapacityEvent.objects.get().moves) == 1


def test_what_moves_in_the_next_outage_is_that_ones() -> None:
    storm(Story(), since=2000, until=1900).store()
    storm(Story(), since=1000, until=900).store()
    move(State.OPEN, at=1950)
    move(State.CLOSED, at=1850)
    move(State.OPEN, at=950)
    look("dev", NOW)
    look_back("dev", NOW)
    read_reach("dev", NOW)
    assert moves() == [("model:large", 1950, 1, 0, 1, 1, 0, 1850)]


def test_a_closing_that_comes_late_and_alone_is_seen_by_the_thorough_look() -> None:
    storm(Story(), since=300, until=240).store()
    move(State.OPEN, at=280)
    look("dev", NOW)
    read_reach("dev", NOW)
    move(State.CLOSED, at=200)
    CapacityEvent.objects.update(follow_until_us=0)
    read_anew("dev", to_us(NOW - timedelta(hours=1)), to_us(NOW), is_thorough=True)
    read_reach("dev", NOW)
    assert moves() == [("model:large", 280, 1, 0, 1, 1, 0, 200)]


def test_of_a_flood_the_sums_are_read_and_the_newest_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.reach.READ_MOST", 10)
    storm(Story(), since=400, until=200).store()
    storm(Story(), since=400, until=200, provider="other").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    event = CapacityEvent.objects.get(provider="helios")
    assert event.is_partial
    assert (event.failures, event.foreground, event.categories) == (41, 41, {"overloaded": 41})
    assert event.operations == {"model:large": 41}
    assert event.peak_per_min == 12
    assert (event.runs, event.instances) == (3, 2)


def test_the_numbers_follow_an_event_that_goes_on() -> None:
    storm(Story(), since=100, until=50).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    storm(Story(), since=45, until=40).store()
    look("dev", NOW)
    assert read_reach("dev", NOW) == 0, "not for every failure"
    assert read_reach("dev", NOW + timedelta(minutes=3)) == 1, "and once more when it is over"
    assert CapacityEvent.objects.get().failures == 13


@pytest.mark.parametrize("tokens", [1e308, 1e17])
def test_run_with_impossible_tokens_is_followed(tokens: float) -> None:
    storm(Story(), since=300, until=0).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    for number in range(100):
        given: dict[str, Any] = {"input_tokens": tokens, "output_tokens": tokens, "cost_usd": tokens}
        end = RunFinished(status=RunStatus.FAILED, duration_s=9.0, **given)
        Story().tell(end, at=0, run=f"run-{number}").store()
    assert follow_runs("dev", NOW) == 1
    event = CapacityEvent.objects.get()
    assert event.tokens <= 2**63 - 1
    assert math.isfinite(event.cost_usd)


def waits(run: str, *, at: float, delay_s: float, operation: str = "model:large") -> Story:
    """A run schedules a retry."""
    given: dict[str, Any] = {"delay_source": DelaySource.BACKOFF, "category": Category.OVERLOADED, "attempt": 2}
    return Story().tell(RetryScheduled(operation=operation, delay_s=delay_s, **given), at=at, run=run).store()


def waiting(after_s: float = 0) -> int:
    """How many runs of the one event wait so long after now."""
    now = NOW + timedelta(seconds=after_s)
    follow_runs("dev", now)
    row = capacity_event("dev", CapacityEvent.objects.get(merged_into=None).pk, now=now)
    assert row is not None
    return row.waiting


def test_a_run_waits_whose_last_word_is_a_wait_that_is_not_over() -> None:
    storm(Story(), since=300, until=0).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    assert waiting() == 0, "failing is not waiting"
    waits("run-0", at=0, delay_s=60)
    waits("run-1", at=0, delay_s=600, operation="another")
    asking = Escalated(operation="model:large", queue="review", reason="overloaded", deadline_s=300)
    Story().tell(asking, at=1, run="run-2").store()
    assert waiting(10) == 1, "a question without a ticket is answered to nobody who waits"
    Story().tell(replace(asking, escalation_id="ticket-1"), at=0, run="run-2").store()
    assert waiting(20) == 2, "one for the next attempt, one for a person; for another operation is not for this one"
    assert waiting(100) == 1, "by its own word the wait is over, and the attempt after it too"
    Story().tell(AttemptSucceeded(operation="model:large", attempt=2), at=-110, run="run-2").store()
    assert waiting(120) == 0, "it went on"


def test_a_run_that_waits_long_after_the_event_is_followed_to_its_end() -> None:
    storm(Story(), since=300, until=0).store()
    waits("run-0", at=0, delay_s=4 * 3600)
    look("dev", NOW)
    read_reach("dev", NOW)
    assert waiting() == 1
    assert waiting(3 * 3600) == 1
    Story().tell(RunFinished(status=RunStatus.FAILED, duration_s=9.0), at=-3.1 * 3600, run="run-0").store()
    assert waiting(3.2 * 3600) == 0
    assert follow_runs("dev", NOW + timedelta(hours=5)) == 0, "nobody waits, and who ends later is not asked"


def test_following_the_runs_of_a_flood_asks_the_newest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RUNS_MOST", 2)
    storm(Story(), since=300, until=0).store()
    used = RunFinished(status=RunStatus.SUCCEEDED, duration_s=1.0, input_tokens=10)
    for number in range(3):
        Story().tell(used, at=0, run=f"run-{number}").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    with CaptureQueriesContext(connection) as asked:
        assert follow_runs("dev", NOW) == 1
    assert len(asked) <= 7
    row = capacity_event("dev", CapacityEvent.objects.get().pk, now=NOW)
    assert row is not None
    assert (row.spent.tokens_runs, row.tokens, row.cost_usd) == (2, 30, None)


@pytest.mark.parametrize("looks", [look, look_back])
def test_failures_that_come_late_within_an_event_are_counted(looks: Callable[..., int]) -> None:
    storm(Story(), since=580, until=400).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    before = CapacityEvent.objects.get()
    storm(Story(), since=498, until=450).store()
    looks("dev", NOW)
    assert read_reach("dev", NOW) == 1
    after = CapacityEvent.objects.get()
    assert (after.started_us, after.last_us) == (before.started_us, before.last_us)
    assert (before.failures, after.failures) == (37, 47)
    looks("dev", NOW)
    assert read_reach("dev", NOW) == 0


def test_the_tasks_do_it_for_every_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.tasks.timezone.now", lambda: NOW)
    storm(Story("dev"), since=300, until=100).store()
    storm(Story("prod"), since=7200, until=7000).store()
    assert look_for_outages() == 1
    assert look_back_for_outages() == 1
    assert found("prod") == [("helios large", 7200, 7000)]
    assert CapacityEvent.objects.get(environment="dev").failures > 0


_BURSTS = st.lists(st.tuples(st.integers(0, 5400), st.sampled_from(["large", "small"])), min_size=1, max_size=4)


@settings(max_examples=examples(8, 30), deadline=None)
@given(_BURSTS, st.data())
def test_any_order_of_arrival_ends_in_the_same_events(bursts: list[tuple[int, str]], data: st.DataObject) -> None:
    def told(environment: str, order: list[tuple[int, str]]) -> list[tuple[str, int, int]]:
        for start, model in order:
            storm(Story(environment), since=start + 40, until=start, model=model).store()
            look(environment, NOW)
            look_back(environment, NOW)
        return found(environment)

    number = next(_environments)
    shuffled = data.draw(st.permutations(bursts))
    assert told(f"one-{number}", bursts) == told(f"two-{number}", list(shuffled))


def test_a_flood_of_one_backend_hides_no_small_outage_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)
    storm(Story(), since=400, until=360, provider="other").store()
    storm(Story(), since=300, until=0, every=1.0).store()
    look("dev", NOW)
    assert found() == [("other large", 400, 360), ("helios large", 300, 0)]


def test_a_flood_is_read_at_its_ends_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)
    monkeypatch.setattr("events.capacity.hits.FLOOD_READ", 60)
    storm(Story(), since=58, until=19, every=0.1, breaker="one").store()
    storm(Story(), since=58, until=19, every=0.1, breaker="two").store()
    few = steps(lambda: look("dev", NOW), each=100)
    assert found() == [("helios large", 58, 19)]
    for number in range(1, 9):
        for breaker in ("one", "two"):
            storm(Story(), since=57.9 - number * 0.01, until=19.1, every=0.1, breaker=breaker).store()
    assert steps(lambda: look("dev", NOW), each=100) <= 1.5 * few
    assert found() == [("helios large", 58, 19)]


def test_a_flood_behind_many_breakers_asks_no_more_than_behind_one(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)
    storm(Story(), since=58, until=30, every=0.1, breaker="first").store()
    with CaptureQueriesContext(connection) as of_one:
        look("dev", NOW)
    for number in range(20):
        storm(Story(), since=57 - number, until=36 - number, every=0.5, breaker=f"breaker-{number}").store()
    with CaptureQueriesContext(connection) as of_many:
        look("dev", NOW)
    assert len(of_many) <= len(of_one)
    assert found() == [("helios large", 58, 17)]


def test_a_flood_that_stays_as_it_was_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)
    storm(Story(), since=300, until=120, every=0.5).store()
    look("dev", NOW)
    with CaptureQueriesContext(connection) as asked:
        look("dev", NOW)
    assert [one["sql"] for one in asked if "sequence_number" in one["sql"]] == []
    storm(Story(), since=119, until=90, every=0.5).store()
    look("dev", NOW)
    assert found() == [("helios large", 300, 90)]


def test_floods_that_do_not_fit_into_memory_are_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)
    monkeypatch.setattr("events.capacity.hits.HITS_KEPT", 50)
    storm(Story(), since=300, until=120, every=0.5).store()
    look("dev", NOW)
    with CaptureQueriesContext(connection) as asked:
        look("dev", NOW)
    read_first = [one["sql"] for one in asked if "sequence_number" in one["sql"] and " ASC" in one["sql"]]
    assert len(read_first) == 2, "of four minutes two fit"
    assert found() == [("helios large", 300, 120)]


def test_others_behind_the_same_breaker_at_both_ends_hide_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)
    monkeypatch.setattr("events.capacity.hits.FLOOD_READ", 40)
    for since, until in ((77, 70), (26, 19)):
        storm(Story(), since=since, until=until, every=0.1, breaker="shared", provider="other").store()
    storm(Story(), since=60, until=40, every=0.5, breaker="shared").store()
    look("dev", NOW)
    assert [one for one in found() if "helios" in one[0]] == [("helios large", 60, 40)]


def test_looking_back_a_flood_late_in_the_hour_hides_nothing_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)
    storm(Story(), since=6000, until=5960).store()
    storm(Story(), since=6000, until=5960, provider="other").store()
    storm(Story(), since=4800, until=4500, every=1.0).store()
    look_back("dev", NOW)
    assert found() == [("helios large", 6000, 5960), ("other large", 6000, 5960), ("helios large", 4800, 4500)]
