"""Who is asked when: the chain's clock stands while somebody has the question, goes on, and starts anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.notifications.escalation_levels import (
    ChainStep,
    Turn,
    clock_at,
    due_steps,
    parse_steps,
    standstills,
    steps_document,
)

STEPS = tuple(ChainStep(after_s=minutes * 60.0, channel=number) for number, minutes in enumerate((0, 15, 30)))
MINUTE = 60.0


@pytest.mark.parametrize(
    ("turns", "at_min", "due", "runs"),
    [
        ([(0, "opened")], 0, [0], True),
        ([(0, "opened")], 15, [0, 1], True),
        ([(0, "opened"), (5, "acknowledge")], 40, [], False),
        ([(0, "opened"), (5, "acknowledge"), (35, "expired")], 44, [0], True),
        ([(0, "opened"), (5, "acknowledge"), (35, "expired")], 45, [0, 1], True),
        ([(0, "opened"), (5, "snooze"), (65, "returned")], 76, [0, 1], True),
        ([(0, "opened"), (5, "snooze"), (6, "acknowledge"), (36, "expired")], 45, [0], True),
        ([(0, "opened"), (20, "escalate")], 21, [0], True),
        ([(0, "opened"), (5, "resolve")], 60, [], False),
        ([(0, "opened"), (5, "resolve"), (50, "reopen")], 55, [0], True),
        ([(0, "opened"), (5, "note"), (6, "assign")], 15, [0, 1], True),
        ([(0, "opened"), (30, "default")], 40, [0, 1, 2], True),
        ([], 40, [], False),
    ],
)
def test_the_clock(turns: list[tuple[float, str]], at_min: float, due: list[int], runs: bool) -> None:
    clock = clock_at([Turn(at * MINUTE, verb) for at, verb in turns], at_min * MINUTE)
    assert (due_steps(STEPS, clock), clock.is_running) == (due, runs)


@pytest.mark.parametrize(
    ("turns", "stood"),
    [
        ([(0, "opened")], []),
        ([(0, "opened"), (5, "acknowledge")], [(1, 5, None)]),
        ([(0, "opened"), (5, "acknowledge"), (6, "note"), (35, "expired")], [(1, 5, 35)]),
        ([(0, "opened"), (5, "snooze"), (6, "acknowledge"), (9, "resolve")], [(1, 5, 6), (2, 6, 9)]),
        ([(0, "opened"), (5, "acknowledge"), (7, "step")], [(1, 5, 7)]),
        ([(0, "opened"), (5, "acknowledge"), (20, "escalate"), (22, "acknowledge")], [(3, 22, None)]),
        ([(0, "opened"), (5, "acknowledge"), (6, "resolve"), (50, "reopen")], []),
    ],
)
def test_when_the_clock_of_this_round_stood(
    turns: list[tuple[float, str]], stood: list[tuple[int, float, float | None]]
) -> None:
    assert standstills([Turn(at, verb) for at, verb in turns]) == stood


def test_a_later_step_is_asked_at_once_and_the_ones_between_are_not() -> None:
    turns = [Turn(0, "opened"), Turn(60, "acknowledge"), Turn(120, "step", to_s=30 * MINUTE)]
    clock = clock_at(turns, 120)
    assert (due_steps(STEPS, clock), clock.is_running) == ([0, 2], True)
    assert clock.passes(STEPS[1])
    again = clock_at([*turns, Turn(180, "escalate")], 180 + 15 * MINUTE)
    assert due_steps(STEPS, again) == [0, 1], "another round passes over nothing"


def test_what_was_asked_of_the_chain_before_takes_its_successor_nowhere() -> None:
    """A step at once is a matter of the chain that it was asked of, not of one set up since; the question waits on."""
    asked = Turn(2 * MINUTE, "step", to_s=30 * MINUTE)
    for turns in ([Turn(0, "opened"), asked], [Turn(0, "opened"), Turn(60, "acknowledge"), asked]):
        clock = clock_at(turns, 20 * MINUTE, begins=10 * MINUTE)
        assert (due_steps(STEPS, clock), clock.ran_s, clock.passed_over) == ([0], 10 * MINUTE, ())


def test_a_step_asked_at_once_makes_nobody_wait_longer() -> None:
    turns = [Turn(0, "opened"), Turn(2 * MINUTE, "step", to_s=30 * MINUTE)]
    clock = clock_at(turns, 5 * MINUTE)
    assert (clock.ran_s, clock.waited_s) == (33 * MINUTE, 5 * MINUTE)
    assert clock_at([*turns, Turn(6 * MINUTE, "escalate")], 7 * MINUTE).waited_s == MINUTE


def test_every_round_has_a_number_and_an_eta() -> None:
    clock = clock_at([Turn(0, "opened"), Turn(60, "escalate")], 120)
    assert (clock.round, clock.ran_s) == (2, 60)
    assert clock.eta(STEPS[1], 120) == 60 + 15 * MINUTE
    assert clock_at([Turn(0, "opened"), Turn(60, "snooze")], 120).eta(STEPS[1], 120) is None


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.sampled_from(["opened", "acknowledge", "expired", "snooze", "returned"])))
)
def test_the_clock_never_runs_faster_than_time(turns: list[tuple[float, str]]) -> None:
    story = [Turn(at, verb) for at, verb in sorted(turns)]
    clock = clock_at(story, 2e5)
    assert 0 <= clock.ran_s <= 2e5


def test_steps_are_read_back_in_order() -> None:
    given_: list[dict[str, Any]] = [{"after_s": 900, "channel": 2, "person": "li"}, {"after_s": 0, "channel": 1}]
    steps, problems = parse_steps(given_)
    assert not problems
    assert [(step.after_s, step.channel, step.person) for step in steps] == [(0.0, 1, ""), (900.0, 2, "li")]
    assert parse_steps(steps_document(steps)) == (steps, [])


@pytest.mark.parametrize(
    ("given_", "path"),
    [
        ("now", "steps"),
        ([], "steps"),
        ([{"after_s": 0, "channel": 1}] * 21, "steps"),
        (["li"], "steps[0]"),
        ([{"after_s": -1, "channel": 1}], "steps[0]"),
        ([{"after_s": True, "channel": 1}], "steps[0]"),
        ([{"after_s": 1e9, "channel": 1}], "steps[0]"),
        ([{"after_s": 0}], "steps[0]"),
        ([{"after_s": 0, "channel": "pager"}], "steps[0]"),
        ([{"after_s": 0, "channel": 1, "person": 4}], "steps[0]"),
    ],
)
def test_what_is_no_step_is_said(given_: object, path: str) -> None:
    steps, problems = parse_steps(given_)
    assert (steps, [one.path for one in problems]) == ((), [path])
