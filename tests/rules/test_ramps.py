"""A reset of many: how large the steps are, and what lets the next one come, or halts it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.fleet.reset_ramp import Go, Member, judge, steps_of
from recovery_ops.rules.policy.fleet_settings import RampBounds

BOUNDS = RampBounds(least_calls=20, least_time_s=30, patience_s=600)


def member(name: str = "search on research/r-1", **said: Any) -> Member:
    return Member(name=name, **{"since_reset_s": 40.0, "closed_for_s": 40.0} | said)


@pytest.mark.parametrize(
    ("total", "steps"),
    [
        (0, ()),
        (1, (1,)),
        (2, (1, 2)),
        (3, (1, 2, 3)),
        (10, (1, 5, 10)),
        (40, (1, 4, 20, 40)),
        (1000, (1, 100, 500, 1000)),
    ],
)
def test_one_then_a_tenth_then_half_then_all(total: int, steps: tuple[int, ...]) -> None:
    assert steps_of(total) == steps


@given(
    st.integers(0, 5000),
    st.integers(1, 50),
    st.floats(0, 1, allow_nan=False),
    st.floats(0, 1, allow_nan=False),
)
def test_steps_rise_and_end_with_everybody(total: int, first: int, second: float, third: float) -> None:
    steps = steps_of(total, RampBounds(first_instances=first, second_share=second, third_share=third))
    assert list(steps) == sorted(set(steps))
    assert (steps[-1] if steps else 0) == total
    assert len(steps) <= 4
    assert all(step > 0 for step in steps)


WELL = member()
OPENED = member("search on research/r-3", is_closed=False, closed_for_s=0, opened_after_s=12.0)
LATER = member("search on research/r-2", is_closed=False, closed_for_s=0, opened_after_s=15.0)
AWAY = member("search on research/r-4", is_reachable=False, has_applied=False, is_closed=False, closed_for_s=0)
DEAF = member("search on research/r-5", has_applied=False, is_closed=False, closed_for_s=0)
OPEN = member("search on research/r-6", is_closed=False, closed_for_s=0)
FRESH = member("search on research/r-7", closed_for_s=5)
BUSY = member("search on research/r-8", closed_for_s=5, calls=20)


@pytest.mark.parametrize(
    ("members", "in_step_s", "go", "says"),
    [
        ([WELL], 40, Go.STEP, "stays closed."),
        ([BUSY], 5, Go.STEP, "stays closed"),
        ([FRESH], 5, Go.WAIT, "research/r-7 needs 20 calls or 30 s closed"),
        ([WELL, FRESH], 5, Go.WAIT, "1 of 2 stay closed"),
        ([DEAF], 5, Go.WAIT, "research/r-5 pending"),
        ([OPEN], 5, Go.WAIT, "research/r-6 not closed"),
        ([WELL, AWAY], 40, Go.STEP, "1 unreachable"),
        ([AWAY], 40, Go.WAIT, "unreachable"),
        ([], 40, Go.WAIT, "unreachable"),
        ([WELL, OPENED], 40, Go.HALT, "research/r-3 reopened 12 s after its reset."),
        ([LATER, OPENED, FRESH], 5, Go.HALT, "research/r-3 reopened 12 s after its reset, and 1 more."),
        ([WELL, DEAF], 601, Go.HALT, "No evidence in 10 min: search on research/r-5 pending"),
        ([], 601, Go.HALT, "no reset breaker is left"),
        ([AWAY], 601, Go.HALT, "research/r-4 unreachable"),
    ],
)
def test_what_a_step_came_to(members: list[Member], in_step_s: float, go: Go, says: str) -> None:
    opinion = judge(members, step=1, steps=3, in_step_s=in_step_s, bounds=BOUNDS)
    assert opinion.go is go
    assert says in opinion.sentence


def test_who_halted_it_is_named() -> None:
    opinion = judge([WELL, LATER, OPENED], step=1, steps=3, in_step_s=40, bounds=BOUNDS)
    assert opinion.culprits == ("search on research/r-2", "search on research/r-3")


def test_the_last_step_is_done_and_not_followed() -> None:
    assert judge([WELL], step=3, steps=3, in_step_s=40, bounds=BOUNDS).go is Go.DONE


MEMBERS = st.lists(
    st.builds(
        Member,
        name=st.sampled_from(["a", "b", "c", "d", "e", "f"]),
        since_reset_s=st.floats(0, 900),
        is_reachable=st.booleans(),
        has_applied=st.booleans(),
        is_closed=st.booleans(),
        closed_for_s=st.floats(0, 900),
        opened_after_s=st.one_of(st.none(), st.floats(0, 900)),
        calls=st.integers(0, 50),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)


@given(MEMBERS, st.floats(0, 2000), st.integers(1, 4))
def test_no_step_without_evidence_and_none_after_a_reopening(
    members: list[Member], in_step_s: float, step: int
) -> None:
    opinion = judge(members, step=step, steps=4, in_step_s=in_step_s, bounds=BOUNDS)
    if any(one.opened_after_s is not None for one in members):
        assert opinion.go is Go.HALT
    if opinion.go in (Go.STEP, Go.DONE):
        reachable = [one for one in members if one.is_reachable]
        assert reachable
        assert all(one.stays_closed(BOUNDS) for one in reachable)
        assert (opinion.go is Go.DONE) == (step == 4)
    assert opinion == judge(members[::-1], step=step, steps=4, in_step_s=in_step_s, bounds=BOUNDS)


def test_patience_lasts_up_to_its_bound() -> None:
    bounds, silent = RampBounds(), Member(name="a", since_reset_s=1.0, is_reachable=False)
    for over_s, go in ((0.0, Go.WAIT), (0.1, Go.HALT)):
        assert judge([silent], step=1, steps=2, in_step_s=bounds.patience_s + over_s, bounds=bounds).go is go
