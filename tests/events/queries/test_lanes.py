"""Lanes of breaker states: what stood before, what moved, what nobody knows; and what most of the fleet was in."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from itertools import count, pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from events.moments import from_us, to_us
from events.queries import (
    RANK,
    Fleet,
    Lanes,
    MajoritySegment,
    Segment,
    fleet_lanes,
    majority,
    moves,
    rounded_out,
    segments,
)
from events.queries.breakers import standing_of
from events.queries.fleet import FORGOTTEN_AFTER, NAMELESS
from events.queries.lives import Life, presence_of
from recovery_ops.rules.enums import State, Trigger
from tests.support.stories import NOW, Story, ago, counted, heartbeat, moved

pytestmark = pytest.mark.django_db

HOUR: dict[str, Any] = {"start": ago(3600), "end": NOW, "now": NOW}
_environments = count(1)


def drawn(lane: list[Segment]) -> list[tuple[str, int, int | None]]:
    """Each segment as (state, seconds ago it began, seconds ago it ended)."""
    return [
        (
            one.state.value if one.state else "unknown",
            round((NOW - one.start).total_seconds()),
            None if one.end is None else round((NOW - one.end).total_seconds()),
        )
        for one in lane
    ]


def living(story: Story, *, until: float = 0, since: float = 7200, **who: Any) -> Story:
    """An instance that beats each 15 s."""
    at = since
    while at >= until:
        story.tell(heartbeat(), at=at, **who)
        at -= 15
    return story


def only_lane(lanes: Lanes) -> list[Segment]:
    [(_, instances)] = lanes.items()
    [lane] = instances.values()
    return lane


def test_moves_become_segments_that_tile_the_window() -> None:
    story = living(Story())
    story.tell(moved(State.OPEN), at=1800).tell(moved(State.HALF_OPEN, before=State.OPEN), at=1740)
    story.tell(moved(State.CLOSED, before=State.HALF_OPEN, trigger=Trigger.PROBE_SUCCEEDED), at=1739).store()
    lane = only_lane(segments("dev", **HOUR))
    assert drawn(lane) == [
        ("closed", 3600, 1800),
        ("open", 1800, 1740),
        ("half_open", 1740, 1739),
        ("closed", 1739, None),
    ]
    assert lane[1].cause is not None
    assert (lane[1].cause.failures, lane[1].cause.threshold) == (13, 0.5)
    assert lane[0].cause is None


def test_the_state_before_the_window_comes_from_the_newest_move_before_it() -> None:
    living(Story()).tell(moved(State.OPEN), at=5000).tell(moved(State.HALF_OPEN, before=State.OPEN), at=4000).store()
    lane = only_lane(segments("dev", **HOUR))
    assert drawn(lane) == [("half_open", 3600, None)]
    assert lane[0].cause is not None
    assert lane[0].cause.at == ago(4000)


def test_a_window_in_the_past_does_not_know_what_moved_after_it() -> None:
    living(Story()).tell(moved(State.OPEN), at=5000).tell(moved(State.CLOSED, before=State.OPEN), at=600).store()
    lane = only_lane(segments("dev", start=ago(4000), end=ago(2000), now=NOW))
    assert drawn(lane) == [("open", 4000, 2000)]


def test_what_a_first_move_left_is_the_state_before_it_even_if_its_own_move_is_lost() -> None:
    living(Story()).tell(moved(State.CLOSED, before=State.FORCED_OPEN), at=900).store()
    assert drawn(only_lane(segments("dev", **HOUR))) == [("forced_open", 3600, 900), ("closed", 900, None)]


def test_the_page_of_one_breaker_knows_why_the_state_before_the_window_began() -> None:
    story = living(Story()).tell(moved(State.OPEN), at=5000).tell(moved(State.CLOSED, before=State.OPEN), at=900)
    story.tell(moved(State.OPEN, breaker="other"), at=900).store()
    lane = only_lane(segments("dev", breaker="search_web", **HOUR))
    assert drawn(lane) == [("open", 3600, 900), ("closed", 900, None)]
    assert lane[0].cause is not None
    assert lane[0].cause.failures == 13


def test_a_breaker_that_never_moved_is_closed_since_its_instance_was_born() -> None:
    living(Story(), since=1200).tell(counted(4), at=30).store()
    assert drawn(only_lane(segments("dev", **HOUR))) == [("closed", 1200, None)]


def test_an_instance_that_fell_silent_is_unknown_from_the_moment_it_is_missed() -> None:
    living(Story(), until=600).tell(moved(State.OPEN), at=700).store()
    assert drawn(only_lane(segments("dev", **HOUR))) == [
        ("closed", 3600, 700),
        ("open", 700, 555),
        ("unknown", 555, None),
    ]


def test_a_silence_between_heartbeats_is_unknown_and_the_state_comes_back_after_it() -> None:
    story = living(Story(), since=3300, until=2400)
    living(story, since=1500).tell(moved(State.OPEN), at=2500).store()
    assert drawn(only_lane(segments("dev", **HOUR))) == [
        ("closed", 3300, 2500),
        ("open", 2500, 2355),
        ("unknown", 2355, 1500),
        ("open", 1500, None),
    ]


def test_more_heartbeats_than_may_be_read_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.queries.lives.HEARTBEATS_READ", 10)
    story = living(Story(), since=3300, until=2400)
    living(story, since=1500).tell(moved(State.OPEN), at=2500).store()
    assert drawn(only_lane(segments("dev", **HOUR))) == [("closed", 3300, 2500), ("open", 2500, None)]


def test_an_instance_that_said_it_stops_ends_its_lane() -> None:
    story = living(Story(), until=1500).tell(moved(State.OPEN), at=2000)
    story.tell(heartbeat("stopped"), at=1500).store()
    assert drawn(only_lane(segments("dev", **HOUR))) == [("closed", 3600, 2000), ("open", 2000, 1500)]


def test_an_instance_that_was_silent_for_a_day_before_the_window_is_not_missed() -> None:
    Story().tell(moved(State.OPEN), at=100_000).store()
    assert segments("dev", **HOUR) == {}


def test_facts_that_came_late_are_drawn_where_they_happened() -> None:
    story = living(Story(), since=300)
    story.tell(moved(State.OPEN), at=2000, received=290).tell(
        moved(State.CLOSED, before=State.OPEN), at=1000, received=290
    )
    story.store()
    lane = only_lane(segments("dev", **HOUR))
    assert drawn(lane)[1:] == [("closed", 1000, None)]
    assert drawn(lane)[0][:2] == ("open", 2000)


def test_instances_of_two_services_with_one_name_are_told_apart() -> None:
    story = Story()
    for service in ("research", "support"):
        story.tell(moved(State.OPEN), heartbeat(), at=10, service=service)
    story.store()
    assert set(segments("dev", **HOUR)["search_web"]) == {"research/a-1", "support/a-1"}


def test_other_environments_are_not_seen() -> None:
    Story("prod").tell(moved(State.OPEN), heartbeat(), at=10).store()
    assert segments("dev", **HOUR) == {}


def test_few_queries_are_asked() -> None:
    story = Story()
    for number in range(6):
        who: dict[str, Any] = {"instance": f"a-{number}"}
        living(story, since=7200, **who).tell(moved(State.OPEN), at=5000, **who)
        story.tell(moved(State.CLOSED, before=State.OPEN), at=100, **who)
    story.store()
    with CaptureQueriesContext(
        connection,
    ) as asked:
        segments("dev", breaker="search_web", **HOUR)
    assert len(asked) <= 7


@pytest.mark.parametrize("most", [2, 2_000])
def test_lanes_of_one_breaker_are_the_same_of_what_was_read_already(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(moves, "MOVES_READ", most)
    story = living(Story(), until=600).tell(heartbeat(), at=9 * 86_400, instance="r-8")
    living(story, instance="r-7", since=1500).tell(moved(State.OPEN), at=7000)
    story.tell(moved(State.CLOSED, before=State.OPEN), at=2000).tell(moved(State.OPEN), at=1000, instance="r-7")
    story.tell(moved(State.HALF_OPEN, before=State.OPEN), at=900, instance="r-7")
    story.tell(moved(State.OPEN), at=9 * 86_400, instance="r-8").store()
    for window in (HOUR, HOUR | {"start": ago(3000), "end": ago(950)}, HOUR | {"end": NOW + timedelta(minutes=5)}):
        alone = segments("dev", breaker="search_web", **window)
        read = moves.moves_within("dev", start=window["start"], end=window["end"], breaker="search_web")
        shared = standing_of("dev", "search_web", since=window["start"])
        assert segments("dev", breaker="search_web", standing=shared, moves=read, **window) == alone
        assert set(alone["search_web"]) == {"a-1", "r-7"}


def test_many_moves_are_summed_up_by_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOVES_READ", 10)
    story = living(Story())
    for at in range(3000, 2000, -50):
        story.tell(moved(State.OPEN), at=at).tell(moved(State.CLOSED, before=State.OPEN), at=at - 10)
    story.store()
    lanes = segments("dev", **HOUR)
    assert lanes.bin_s == 60
    assert [one.state for one in only_lane(lanes)] == [State.CLOSED, State.OPEN, State.CLOSED]
    assert only_lane(lanes)[1].length(NOW) <= timedelta(seconds=1120)


def test_sums_of_moves_draw_each_bin_as_the_worst_state_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lanes of three instances, one by one and of the sums: in every whole bin the same worst state."""
    story, chance = Story(), random.Random(4)
    for number in range(3):
        who: dict[str, Any] = {"instance": f"a-{number}"}
        living(story, since=7200, **who)
        before = State.CLOSED
        for at in sorted((chance.uniform(100, 3500) for _ in range(30)), reverse=True):
            after = chance.choice([state for state in State if state is not before])
            story.tell(moved(after, before=before), at=at, **who)
            before = after
    story.store()
    exact = segments("dev", **HOUR)
    monkeypatch.setattr(moves, "MOVES_READ", 10)
    with CaptureQueriesContext(connection) as asked:
        summed = segments("dev", **HOUR)
    assert (exact.bin_s, summed.bin_s) == (0, 60)
    assert len(asked) <= 7
    for name, lane in exact["search_web"].items():
        rounded = {to_us(one.start) // 60_000_000: one.state for one in summed["search_web"][name]}
        for minute in range(to_us(HOUR["start"]) // 60_000_000 + 1, to_us(NOW) // 60_000_000):
            span = (from_us(minute * 60_000_000), from_us((minute + 1) * 60_000_000))
            there = [one.state for one in lane if one.start < span[1] and one.until(NOW) > span[0]]
            shown = rounded[max(begin for begin in rounded if begin <= minute)]
            assert shown is max(there, key=RANK.__getitem__), (name, minute)


def test_too_many_segments_are_rounded_out_to_bins_of_the_worst_state() -> None:
    story = living(Story())
    for at in range(3000, 2000, -100):
        story.tell(moved(State.OPEN), at=at).tell(moved(State.CLOSED, before=State.OPEN), at=at - 10)
    story.store()
    exact = segments("dev", **HOUR)
    coarse = rounded_out(exact, 10)
    assert (exact.count, exact.bin_s) == (21, 0)
    assert coarse.count <= 10
    assert coarse.bin_s > 0
    assert State.OPEN in {one.state for one in only_lane(coarse)}
    assert segments("dev", limit=10, **HOUR).bin_s == coarse.bin_s


def without_causes(fleet: Fleet) -> dict[str, list[MajoritySegment]]:
    return {breaker: [replace(one, cause=None) for one in lane] for breaker, lane in fleet.items()}


STATES = st.sampled_from(list(State))
MOVES = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2), STATES), max_size=25)


@given(moves=MOVES, until=st.integers(0, 3000), start=st.integers(60, 4000), length=st.integers(1, 4000))
def test_lanes_tile_the_window_whatever_happened(
    moves: list[tuple[int, int, State]], until: int, start: int, length: int
) -> None:
    story = Story(f"e{next(_environments)}")
    for number in range(3):
        story.tell(heartbeat(), at=6000, instance=f"a-{number}")
        story.tell(heartbeat(), moved(State.CLOSED), at=until, instance=f"a-{number}")
    for at, number, state in moves:
        story.tell(moved(state), at=at, instance=f"a-{number}")
    story.store()
    lanes = segments(story.environment, start=ago(start), end=ago(start - length), now=NOW)
    assert set(lanes["search_web"]) == {"a-0", "a-1", "a-2"}
    for lane in lanes["search_web"].values():
        assert lane[0].start == lanes.start
        assert lane[-1].until(lanes.end) == lanes.end
        assert all(one.end == other.start and one.state is not other.state for one, other in pairwise(lane))
        assert sum((one.length(lanes.end) for one in lane), timedelta()) == lanes.end - lanes.start
    for most in majority(lanes).values():
        assert (most[0].start, most[-1].end) == (lanes.start, lanes.end)
        assert all(one.end == other.start and one.state is not other.state for one, other in pairwise(most))
        assert all(one.known + one.unknown == 3 for one in most)
    quick = fleet_lanes(story.environment, start=ago(start), end=ago(start - length), now=NOW)
    assert without_causes(quick) == without_causes(majority(lanes))
    for lane in rounded_out(lanes, 4)["search_web"].values():
        assert (lane[0].start, lane[-1].until(lanes.end)) == (lanes.start, lanes.end)
        assert all(one.end == other.start and one.state is not other.state for one, other in pairwise(lane))


def test_the_majority_is_what_most_instances_are_in() -> None:
    story = Story()
    for number in range(5):
        living(story, instance=f"a-{number}")
    for number, at in ((0, 1000), (1, 900), (2, 800)):
        story.tell(moved(State.OPEN), at=at, instance=f"a-{number}")
    story.tell(moved(State.CLOSED), at=5000, instance="a-3").tell(moved(State.CLOSED), at=5000, instance="a-4").store()
    closed, opened = majority(segments("dev", **HOUR))["search_web"]
    assert (closed.state, closed.end, closed.most, closed.last) == (State.CLOSED, ago(800), 5, 3)
    assert (closed.worst, closed.worst_count) == (State.OPEN, 2)
    assert (opened.state, opened.last, opened.instances) == (State.OPEN, 3, 5)


def test_the_move_that_made_a_state_that_of_most_is_its_cause() -> None:
    story = Story()
    for number, at in ((0, 1000), (1, 900), (2, 800)):
        living(story, instance=f"a-{number}").tell(moved(State.OPEN), at=at, instance=f"a-{number}")
    story.store()
    for fleet in (majority(segments("dev", **HOUR)), fleet_lanes("dev", **HOUR)):
        assert [one.state for one in fleet["search_web"]] == [State.CLOSED, State.OPEN]
        cause = fleet["search_web"][1].cause
        assert cause is not None
        assert (cause.instance, cause.at, cause.failures) == ("a-1", ago(900), 13)


def test_the_fleet_of_one_breaker() -> None:
    living(Story()).tell(moved(State.OPEN), moved(State.OPEN, breaker="other"), at=1000).store()
    assert list(fleet_lanes("dev", breaker="other", **HOUR)) == ["other"]


def test_many_moves_of_a_fleet_are_summed_up_by_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "LIGHT_MOVES_READ", 3)
    story = living(Story())
    for at in range(3000, 2000, -50):
        story.tell(moved(State.OPEN), at=at).tell(moved(State.CLOSED, before=State.OPEN), at=at - 10)
    story.store()
    fleet = fleet_lanes("dev", **HOUR)
    assert fleet.bin_s == 60
    assert [one.state for one in fleet["search_web"]] == [State.CLOSED, State.OPEN, State.CLOSED]


def test_a_draw_goes_to_the_worse_state_and_the_silent_have_no_say() -> None:
    story = Story()
    living(story, instance="a-0").tell(moved(State.OPEN), at=1000, instance="a-0")
    living(story, instance="a-1").tell(moved(State.CLOSED), at=5000, instance="a-1")
    for number in (2, 3, 4):
        living(story, instance=f"a-{number}", until=3000).tell(moved(State.CLOSED), at=5000, instance=f"a-{number}")
    story.store()
    last = majority(segments("dev", **HOUR))["search_web"][-1]
    assert (last.state, last.last, last.known, last.unknown) == (State.OPEN, 1, 2, 3)


def test_a_fleet_that_is_silent_is_in_no_state() -> None:
    living(Story(), until=1000).tell(moved(State.CLOSED), at=5000).store()
    last = majority(segments("dev", **HOUR))["search_web"][-1]
    assert (last.state, last.known, last.unknown) == (None, 0, 1)


DAY_US = FORGOTTEN_AFTER // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("instance", "stopped_us", "silence", "name", "ended_us"),
    [
        ("r-0", None, None, "r-0", None),
        ("", 70, None, NAMELESS, 70),
        ("r-0", None, (10, 10 + DAY_US), "r-0", None),
        ("r-0", None, (10, 11 + DAY_US), "r-0", 10 + DAY_US),
        ("r-0", 70, (10, 11 + DAY_US), "r-0", 70),
    ],
)
def test_presence_ends_with_word_or_day_of_silence(
    instance: str, stopped_us: int | None, silence: tuple[int, int] | None, name: str, ended_us: int | None
) -> None:
    life = Life(
        agent_id=1, service="research", instance=instance, born_us=5, ended_us=stopped_us, heartbeat_interval_s=10.0
    )
    life.silences.extend([(6, 7), silence] if silence else [])
    found = presence_of(life)
    assert (found.name, found.born_us, found.ended_us) == (name, 5, ended_us)
    assert found.silences == tuple(life.silences)
