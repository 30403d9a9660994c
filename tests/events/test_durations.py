"""How long lanes were in each state: nothing is lost, nothing is made up, and what nobody knows is no share of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.rows import Lanes, Segment
from events.timelines.durations import TimeInState, time_in_state
from events.timelines.majority import majority
from events.timelines.states import times_table
from recovery_ops.rules.enums import State

END = datetime(2026, 11, 21, 14, 26, 18, tzinfo=UTC)
SPELLS = st.lists(st.tuples(st.sampled_from([*State, None]), st.integers(0, 90_000)), max_size=12)


def lane(spells: list[tuple[State | None, int]]) -> list[Segment]:
    """Spans of so many seconds each, the last of which goes on; it ends at `END`."""
    total = sum(seconds for _, seconds in spells)
    edges = [END - timedelta(seconds=total)]
    for _, seconds in spells:
        edges.append(edges[-1] + timedelta(seconds=seconds))
    return [
        Segment(
            service="research",
            instance="r-0",
            breaker="search_web",
            state=state,
            start=begin,
            end=None if until == END else until,
        )
        for (state, _), (begin, until) in zip(spells, pairwise(edges), strict=True)
    ]


@given(SPELLS)
def test_every_second_is_in_one_state_or_unknown(spells: list[tuple[State | None, int]]) -> None:
    found = time_in_state(lane(spells), end=END)
    assert found.known + found.unknown == timedelta(seconds=sum(seconds for _, seconds in spells))
    for state in State:
        spent = sum(seconds for one, seconds in spells if one is state)
        assert found.by_state.get(state, timedelta()) == timedelta(seconds=spent)
    assert all(found.by_state.values()), "a state in which nobody was is not told"


@given(SPELLS)
def test_shares_add_up_to_all_of_the_known_time(spells: list[tuple[State | None, int]]) -> None:
    found = time_in_state(lane(spells), end=END)
    shares = [found.share(state) for state in State]
    assert all(0 <= share <= 1 for share in shares)
    assert sum(shares) == pytest.approx(1 if found.known else 0)


@given(SPELLS, SPELLS)
def test_lanes_add_up_in_any_order(one: list[tuple[State | None, int]], other: list[tuple[State | None, int]]) -> None:
    first, second = (time_in_state(lane(spells), end=END) for spells in (one, other))
    assert first + second == second + first
    assert (first + second).known == first.known + second.known
    assert first + TimeInState() == first


@given(SPELLS.filter(lambda spells: sum(seconds for _, seconds in spells) > 0))
def test_the_table_has_the_seconds_of_every_lane(spells: list[tuple[State | None, int]]) -> None:
    found = time_in_state(lane(spells), end=END)
    table = times_table({"a": found, "b": found}, "Breaker")
    for name, times in (("all instances", 2), ("a", 1), ("b", 1)):
        rows = [row for row in table.rows if row[0] == name]
        assert sum(float(str(row[3])) for row in rows) == times * sum(seconds for _, seconds in spells)
        assert [row[4] for row in rows if row[1] == "unknown"] in ([], ["–"]), "what is unknown is no share"


def test_where_nobody_lived_there_is_nothing_to_count() -> None:
    lanes = Lanes(start=END - timedelta(hours=1), end=END)
    late = lane([(State.CLOSED, 600), (None, 300), (State.OPEN, 300)])
    lanes["search_web"] = {"r-0": late}
    [whole] = majority(lanes).values()
    found = time_in_state(whole, end=END)
    assert found.by_state == {State.OPEN: timedelta(minutes=5), State.CLOSED: timedelta(minutes=10)}
    assert found.unknown == timedelta(minutes=5)
    assert found.share(State.OPEN) == pytest.approx(1 / 3)
