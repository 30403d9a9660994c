"""What each instance does now, beside a slow recount of its events; every limit at its border."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events import queries
from events.queries import waits, workload
from events.queries.counted import calls_through, counted, in_flight
from events.queries.waits import runs_waiting
from events.queries.workload import Workload, workloads
from recovery_ops.rules.enums import Category, DelaySource, RunStatus
from recovery_ops.rules.events import CallsCounted, DesiredStateApplied, RetryScheduled, RunFinished, RunStarted
from tests.support.busy_hours import INSTANCES, busy_hours, of_kind, store
from tests.support.stories import NOW, Story, ago, heartbeat
from tests.support.stories import counted as calls

pytestmark = pytest.mark.django_db
QUARTER_S = 900.0


def of_fleet(environment: str = "dev") -> dict[str, Workload]:
    """By the name of the instance."""
    agents = queries.fleet(environment, now=NOW)
    found = workloads(environment, agents, now=NOW)
    return {one.instance: found.by_agent[one.id] for one in agents}


def test_workload_equals_a_slow_recount() -> None:
    told = busy_hours(7)
    store("other", busy_hours(8))
    store("dev", told)
    found = of_fleet()
    begun, over = of_kind(told, RunStarted), {one.run for one, _ in of_kind(told, RunFinished)}
    for _, instance in INSTANCES:
        mine = [
            event for one, event in of_kind(told, CallsCounted) if one.instance == instance and one.ago_s < QUARTER_S
        ]
        open_runs = [one.run for one, _ in begun if one.instance == instance and one.run not in over]
        one = found.get(instance)
        if one is None or not mine:
            continue
        tokens = sum((event.input_tokens or 0) + (event.output_tokens or 0) for event in mine)
        assert one.current_run == open_runs[-1], instance
        assert one.calls == sum(event.calls for event in mine)
        assert one.attempts == sum(event.attempts for event in mine)
        assert one.successes == sum(event.successes for event in mine)
        assert one.tokens_per_min == pytest.approx(tokens / 15)
    assert len([one for one in found.values() if one.calls]) >= 4


Run = tuple[str, float, float | None]
"""Its name, when it began, and when it ended: seconds ago."""
RUNS: dict[str, tuple[str | None, dict[str, Any] | None, list[Run]]] = {
    # what → the run that goes on, the heartbeat of 100 s ago, the runs
    "the newest": ("b", {}, [("a", 60, None), ("b", 40, None), ("c", 50, None)]),
    "the newest that has not ended": ("c", {}, [("a", 60, None), ("b", 40, 30), ("c", 50, None)]),
    "none that ended": ("", {}, [("a", 60, 20), ("b", 40, 30)]),
    "before the process": ("", {"uptime_s": 50.0}, [("a", 150.001, None)]),
    "with the process": ("a", {"uptime_s": 50.0, "runs_in_flight": 1}, [("a", 150, None)]),
    "denied": ("", {}, [("a", 100.001, None)]),
    "denied, another after it": ("b", {}, [("a", 110, None), ("b", 90, None)]),
    "begun at the heartbeat": ("a", {}, [("a", 100, None)]),
    "ended since it was counted": ("", {"runs_in_flight": 1}, [("a", 120, 90)]),
    "ended as it was counted": ("", {"runs_in_flight": 1}, [("a", 120, 100)]),
    "ended before one was counted": (None, {"runs_in_flight": 1}, [("a", 120, 100.001)]),
    "one of two ended since": (None, {"runs_in_flight": 2}, [("a", 120, 90)]),
    "no heartbeat, one goes on": ("a", None, [("a", 60, None)]),
    "no heartbeat, none goes on": (None, None, [("a", 60, 50)]),
    "a day ago": ("a", {"uptime_s": 200_000.0, "runs_in_flight": 1}, [("a", 86_400, None)]),
    "more than a day ago": (None, {"uptime_s": 200_000.0, "runs_in_flight": 1}, [("a", 86_400.001, None)]),
}


@pytest.mark.parametrize("what", RUNS)
def test_current_run_is_newest_that_goes_on(what: str) -> None:
    expected, beat, runs = RUNS[what]
    story = Story().tell(DesiredStateApplied(revision=1, config_hash="x"), at=5)
    if beat is not None:
        story.tell(heartbeat(**({"uptime_s": 86_000.0} | beat)), at=100)
    for run, began, ended in runs:
        story.tell(RunStarted(), at=began, run=run)
        if ended is not None:
            story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=1.0), at=ended, run=run)
    story.store()
    assert of_fleet()["a-1"].current_run == expected


COUNTED: dict[str, tuple[Workload, bool, float, list[tuple[float, CallsCounted]]]] = {
    # what → what it does, whether it sends heartbeats, for how long it is known, its counts
    "idle": (Workload(current_run="", calls=0, attempts=0, successes=0, tokens_per_min=0.0), True, 30, []),
    "too young to be idle": (Workload(current_run=""), True, 29.999, []),
    "without heartbeats": (Workload(), False, 600, []),
    "by its life": (
        Workload(current_run="", calls=5, attempts=9, successes=5, tokens_per_min=60.0),
        True,
        120,
        [
            (100, calls(2, attempts=6, input_tokens=50, output_tokens=40)),
            (60, calls(3, input_tokens=10, output_tokens=20)),
        ],
    ),
    "by a count longer than its life": (
        Workload(current_run="", calls=2, attempts=2, successes=1, tokens_per_min=30.0),
        True,
        20,
        [(10, calls(1, interval_s=5.0)), (5, calls(1, successes=0, interval_s=40.0, output_tokens=20))],
    ),
    "without tokens": (Workload(current_run="", calls=4, attempts=4, successes=4), True, 60, [(5, calls(4))]),
    "a quarter of an hour ago": (
        Workload(current_run="", calls=1, attempts=1, successes=1),
        True,
        1000,
        [(900.001, calls(7)), (900, calls(1))],
    ),
}


@pytest.mark.parametrize("what", COUNTED)
def test_counts_are_of_a_known_time(what: str) -> None:
    expected, has_beats, known_s, counts = COUNTED[what]
    fact = heartbeat() if has_beats else DesiredStateApplied(revision=1, config_hash="x")
    story = Story().tell(fact, at=known_s, received=known_s)
    story.tell(fact, at=1)
    for at, event in counts:
        story.tell(event, at=at, received=min(at, known_s))
    story.store()
    assert of_fleet()["a-1"] == expected


@pytest.mark.parametrize(("rate", "attempts", "successes"), [(0.25, 8, 2), (1.0, 2, 3), (None, 0, 0), (0.0, 4, 0)])
def test_success_rate_is_a_share(rate: float | None, attempts: int, successes: int) -> None:
    assert Workload(attempts=attempts, successes=successes).success_rate == rate


def test_of_too_many_counts_the_newest_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "READ", 3)
    story = Story().tell(heartbeat(), at=880)
    for place, at in enumerate((300, 100, 400, 200)):
        story.tell(calls(10**place, input_tokens=30), at=at)
    story.store()
    agents = queries.fleet("dev", now=NOW)
    found = workloads("dev", agents, now=NOW)
    assert found.is_cut
    assert ago(400) < found.since <= ago(300)
    [one] = found.by_agent.values()
    assert one.calls == 1011
    assert one.tokens_per_min == pytest.approx(18.0, rel=1e-3)
    monkeypatch.setattr(workload, "READ", 5)
    assert not workloads("dev", agents, now=NOW).is_cut


@pytest.mark.parametrize(("began", "expected"), [(50, None), (20, "last"), (19, "last")])
def test_run_whose_end_may_be_unread_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch, began: float, expected: str | None
) -> None:
    monkeypatch.setattr(workload, "READ", 2)
    story = Story().tell(DesiredStateApplied(revision=1, config_hash="x"), at=90)
    story.tell(RunStarted(), at=began, run="last")
    for at in (10, 20, 30):
        story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=1.0), at=at, run=f"run-{at}", instance="a-2")
    story.store()
    assert of_fleet()["a-1"].current_run == expected


def retry(delay_s: float, category: Category = Category.RATE_LIMITED) -> RetryScheduled:
    return RetryScheduled(
        operation="search_web", attempt=1, delay_s=delay_s, delay_source=DelaySource.BACKOFF, category=category
    )


def test_runs_wait_until_their_delay_is_over() -> None:
    story = Story().tell(heartbeat(), at=1).tell(heartbeat(), at=1, instance="a-2")
    story.tell(retry(60.001), at=60, run="waits").tell(retry(60), at=60, run="is over")
    story.tell(retry(300), at=200, run="waits longest").tell(retry(300), at=100, run="waits too")
    story.tell(retry(300, Category.TIMEOUT), at=70, run="has no shortage")
    story.tell(retry(900), at=300, run="tried again").tell(retry(1), at=50, run="tried again")
    story.tell(retry(1), at=310, run="waits again").tell(retry(900), at=150, run="waits again")
    story.tell(retry(300), at=100, run="of another", instance="a-2").tell(retry(300), at=100)
    story.tell(retry(30_000), at=21_600.001, run="long ago").store()
    Story("other").tell(retry(900), at=400, run="elsewhere").store()
    mine = [one.id for one in queries.fleet("dev", now=NOW) if one.instance == "a-1"]
    found = runs_waiting("dev", mine, now=NOW)
    assert (found.runs, found.longest, found.since, found.is_cut) == (4, "waits longest", ago(200), False)


@pytest.mark.parametrize(("oldest", "most", "is_cut"), [(599, 3, True), (601, 3, False), (599, 4, False)])
def test_waits_are_cut_below_ten_minutes(
    oldest: float, most: int, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "READ", most)
    story = Story()
    for place, at in enumerate((oldest, 10, 20)):
        story.tell(retry(900), at=at, run=f"run-{place}")
    story.store()
    assert runs_waiting("dev", [], now=NOW).is_cut is is_cut


def test_counted_calls_equal_a_slow_recount() -> None:
    told = busy_hours(7)
    store("other", busy_hours(8))
    store("dev", told)
    agents = {one.id: one.instance for one in queries.fleet("dev", now=NOW)}
    some = [number for number, instance in agents.items() if instance in ("a-1", "b-1")]
    start_s = 1800.0
    mine = [(one, event) for one, event in of_kind(told, CallsCounted) if one.ago_s <= start_s]
    expected: dict[tuple[str, str], list[int]] = {}
    for one, event in mine:
        if one.instance in ("a-1", "b-1"):
            sums = expected.setdefault((one.instance, event.operation), [0, 0, 0])
            sums[0] += event.calls
            sums[1] += event.rejected
            sums[2] += sum(event.failures.values())
    window: dict[str, Any] = {"start": NOW - timedelta(seconds=start_s), "end": NOW}
    found = counted("dev", some, **window)
    assert {
        (agents[whose.agent_id], whose.operation): [one.calls, one.rejected, one.failures]
        for whose, one in found.items()
    } == expected
    through = calls_through("dev", some, **window)
    made: dict[tuple[str, str], int] = dict.fromkeys(expected, 0)
    for one, event in mine:
        if one.instance in ("a-1", "b-1"):
            made[one.instance, event.operation] += max(0, event.calls - event.rejected)
    assert {(agents[number], name): count for (number, name), count in through.items()} == made
    under_way: dict[tuple[str, str, str], int] = {}
    for one, event in of_kind(told, CallsCounted):  # the oldest first
        if one.ago_s < 15:
            under_way[one.instance, event.operation, one.source] = event.in_flight
    by_breaker: dict[str, int] = {}
    for (_, operation, _), count in under_way.items():
        by_breaker[operation] = by_breaker.get(operation, 0) + count
    assert in_flight("dev", now=NOW) == by_breaker
    assert in_flight("dev", now=NOW, breaker="search_web") == {"search_web": by_breaker["search_web"]}
