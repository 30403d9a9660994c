"""A fleet whose moves are too many to be read: drawn from their sums, exact at the edges of the bins."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.moments import to_us
from events.queries import Fleet, fleet_bins, fleet_lanes
from recovery_ops.rules.enums import State
from tests.support.stories import NOW, Story, ago, heartbeat, moved

pytestmark = pytest.mark.django_db

DAY: dict[str, Any] = {"start": ago(86_400), "end": NOW, "now": NOW}
PATH = (State.CLOSED, State.OPEN, State.HALF_OPEN, State.CLOSED)


@pytest.fixture
def binned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_bins, "EXACT_MOVES", 0)


def outage(story: Story, instance: str, *, at: float, lasted: float, breaker: str = "search_web") -> None:
    """The breaker opened, tried and closed again."""
    for before, after, ago_s in zip(PATH, PATH[1:], (at, at - lasted / 2, at - lasted), strict=False):
        story.tell(moved(after, before=before, breaker=breaker), at=ago_s, instance=instance)


def drawn(fleet: Fleet, breaker: str = "search_web") -> list[tuple[str | None, int, int]]:
    """Each segment as (state, seconds ago it began, seconds ago it ended)."""
    return [
        (one.state, round((NOW - one.start).total_seconds()), round((NOW - one.end).total_seconds()))
        for one in fleet[breaker]
    ]


def alive(story: Story, *instances: str, since: float = 100_000) -> Story:
    for instance in instances:
        story.tell(heartbeat(), at=since, instance=instance).tell(heartbeat(), at=0, instance=instance)
    return story


def test_an_outage_of_a_minute_is_as_wide_as_its_bin(binned: None) -> None:
    story = alive(Story(), "a-1", "a-2", "a-3")
    for instance in ("a-1", "a-2"):
        outage(story, instance, at=6900, lasted=60)
    story.tell(moved(State.OPEN), at=200_000, instance="a-3").store()
    fleet = fleet_lanes("dev", **DAY)
    assert fleet.bin_s == 900
    start, middle, end = fleet["search_web"]
    assert (start.state, start.last, start.known, start.worst) == (State.CLOSED, 2, 3, State.OPEN)
    assert (middle.state, middle.most, middle.known) == (State.OPEN, 3, 3)
    assert middle.start <= ago(6900) < ago(6840) <= middle.end
    assert (middle.end - middle.start).total_seconds() == 900
    assert (end.state, end.last, end.worst, end.worst_count) == (State.CLOSED, 2, State.OPEN, 1)


def test_who_is_born_and_who_stops_is_counted_while_it_lives(binned: None) -> None:
    story = alive(Story(), "a-1").tell(heartbeat(), at=50_000, instance="a-2")
    story.tell(moved(State.OPEN), at=40_000, instance="a-2").tell(heartbeat("stopped"), at=20_000, instance="a-2")
    alive(story, "a-3", since=10_000).tell(moved(State.CLOSED, before=State.OPEN), at=300_000, instance="a-1")
    story.tell(moved(State.OPEN), at=5, instance="a-3").store()
    counts = [(one.state, one.last, one.known) for one in fleet_lanes("dev", **DAY)["search_web"]]
    assert counts[0][2] == 2  # a-1, and a-2 while it lived: at the end of this run
    assert counts[-1] == (State.OPEN, 1, 2)


def test_the_silent_are_not_known(binned: None) -> None:
    story = Story().tell(moved(State.OPEN), at=80_000).tell(heartbeat(), at=3000).store()
    del story
    last = fleet_lanes("dev", **DAY)["search_web"][-1]
    assert (last.state, last.known, last.unknown) == (None, 0, 1)


def test_at_the_edges_of_bins_it_says_what_each_move_says(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)
    story, names = Story(), [f"a-{number}" for number in range(5)]
    alive(story, *names)
    for name in names:
        at = 90_000.0
        while (at := at - chance.uniform(500, 9000)) > 1000:
            outage(story, name, at=at, lasted=chance.uniform(20, 900))
    story.store()
    exact = fleet_lanes("dev", **DAY)["search_web"]
    monkeypatch.setattr(fleet_bins, "EXACT_MOVES", 0)
    rounded = fleet_lanes("dev", **DAY)
    assert rounded.bin_s == 900
    assert rounded["search_web"][-1].last == exact[-1].last == 5
    assert {one.known + one.unknown for one in rounded["search_web"]} == {5}
    blocked = [one for one in exact if one.state in (State.OPEN, State.HALF_OPEN)]
    assert blocked
    for one in blocked:  # whatever blocked most of the fleet is drawn so, as widely as its bin
        shown = [lane for lane in rounded["search_web"] if lane.start <= one.start < lane.end]
        assert [lane.state for lane in shown] == [State.OPEN] or one.state is State.HALF_OPEN


def test_one_breaker_and_a_window_in_the_past(binned: None) -> None:
    story = alive(Story(), "a-1", since=200_000)
    outage(story, "a-1", at=120_000, lasted=3000)
    outage(story, "a-1", at=100_000, lasted=60, breaker="other")
    outage(story, "a-1", at=50_000, lasted=60)
    story.store()
    window: dict[str, Any] = {"start": ago(150_000), "end": ago(110_000), "now": NOW}
    fleet = fleet_lanes("dev", breaker="search_web", **window)
    assert list(fleet) == ["search_web"]
    assert [state for state, _, _ in drawn(fleet)] == list(PATH)
    assert to_us(fleet["search_web"][-1].end) == to_us(ago(110_000))
    long_ago: dict[str, Any] = {"start": ago(950_000), "end": ago(800_000), "now": NOW}
    assert fleet_lanes("dev", **long_ago).bin_s == 0


def test_few_moves_are_read_one_by_one() -> None:
    story = alive(Story(), "a-1")
    outage(story, "a-1", at=7000, lasted=60)
    story.store()
    with CaptureQueriesContext(connection) as asked:
        fleet = fleet_lanes("dev", **DAY)
    assert len(asked) <= 9
    assert [state for state, _, _ in drawn(fleet)] == list(PATH)
