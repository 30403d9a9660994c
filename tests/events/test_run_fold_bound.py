"""A fold of a run: the same in any order, bounded in its instances, and what it says of steps and ends."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.runs.fold import INSTANCES_KEPT, Life, RunFold

ORIGIN = [0, "", 0, ""]


def fold_of(agents: list[int]) -> RunFold:
    fold = RunFold(first_us=1, last_us=1, origin=ORIGIN)
    for agent in agents:
        fold.life_of(str(agent)).join(Life(start_us=agent))
    return fold


@given(st.lists(st.integers(1, 300), min_size=100, max_size=200, unique=True), st.integers(1, 99))
def test_instances_kept_are_the_least(agents: list[int], cut: int) -> None:
    first, second = fold_of(agents[:cut]), fold_of(agents[cut:])
    first.join(second)
    kept = sorted(agents)[:INSTANCES_KEPT]
    assert {int(agent): life.start_us for agent, life in first.lives.items()} == {agent: agent for agent in kept}


def early() -> RunFold:
    return RunFold(
        first_us=10,
        last_us=50,
        origin=[10, "a", 1, "research", "1"],
        caller=[12, "a", "main_agent", True],
        title=[11, "a", "first"],
        started_us=10,
        begun=[10, "a", 1, "research"],
        end=[50, "a", "failed", []],
        lives={"1": Life(start_us=10, start_clock=10, end_us=50, end_clock=50)},
        failures={"timeout": 2},
        failed_us=40,
        retries=1,
        waited_us=5,
        questions=1,
        derived=1,
        steps={"1": [20, 40], "3": [30, 30]},
        waits={"pay": [40, "a", 70, "timeout"]},
        stood_in={"pay": [41, "a", "cache"]},
        gave_up={"pay": [45, "a"]},
        models={"large": [20, "a"]},
    )


def late() -> RunFold:
    return RunFold(
        first_us=15,
        last_us=90,
        origin=[15, "b", 2, "billing", "2"],
        caller=[16, "b", "batch", False],
        title=[17, "b", "second"],
        started_us=15,
        begun=[60, "b", 2, "billing"],
        end=[90, "b", "succeeded", []],
        lives={"1": Life(start_us=60, start_clock=60, end_us=90, end_clock=90)},
        failures={"timeout": 1, "network": 3},
        failed_us=35,
        retries=2,
        waited_us=7,
        questions=2,
        derived=3,
        steps={"1": [35, 38], "3": [25, 80]},
        waits={"pay": [70, "b", 0, "network"]},
        stood_in={"pay": [71, "b", "default"]},
        gave_up={"pay": [44, "b"]},
        models={"large": [19, "b"]},
    )


@pytest.mark.parametrize("is_late_first", [False, True])
def test_joined_folds_add_and_keep_first_and_last(is_late_first: bool) -> None:
    found, other = (late(), early()) if is_late_first else (early(), late())
    found.join(deepcopy(other))
    assert (found.first_us, found.last_us, found.started_us, found.failed_us) == (10, 90, 10, 40)
    assert (found.origin[1], found.caller, found.title) == ("a", [12, "a", "main_agent", True], [11, "a", "first"])
    assert (found.begun, found.end) == ([60, "b", 2, "billing"], [90, "b", "succeeded", []])
    assert found.lives == {"1": Life(start_us=60, start_clock=60, end_us=90, end_clock=90)}
    assert found.failures == {"timeout": 3, "network": 3}
    assert (found.retries, found.waited_us, found.questions, found.derived) == (3, 12, 3, 4)
    assert found.steps == {"1": [20, 40], "3": [25, 80]}
    assert (found.waits["pay"][2], found.stood_in["pay"][2]) == (0, "default")
    assert (found.gave_up["pay"], found.models["large"]) == ([44, "b"], [19, "b"])
    assert (found.holder, found.status, found.ended_us, found.level) == (1, "succeeded", 90, 3)


@pytest.mark.parametrize(
    ("steps", "level"),
    [
        ({"1": [20, 20], "3": [49, 70]}, 3),
        ({"1": [20, 20], "3": [50, 70]}, 1),
        ({"2": [20, 20], "4": [50, 50]}, 2),
        ({"1": [20, 20], "5": [60, 60]}, 5),
        ({}, 0),
    ],
)
def test_question_or_degradation_at_the_end_does_not_count(steps: dict[str, list[int]], level: int) -> None:
    fold = RunFold(first_us=1, last_us=50, origin=ORIGIN, end=[50, "a", "failed", []], steps=steps)
    assert fold.level == level


@pytest.mark.parametrize(
    ("until_us", "end_us", "waited_us"), [(70, 50, 10), (70, 70, 30), (70, 90, 30), (70, None, 30), (0, 50, 30)]
)
def test_wait_that_an_end_cuts_short_counts_in_part(until_us: int, end_us: int | None, waited_us: int) -> None:
    end = None if end_us is None else [end_us, "a", "failed", []]
    fold = RunFold(first_us=1, last_us=99, origin=ORIGIN, end=end, waited_us=30)
    fold.waits = {"pay": [40, "a", until_us, "timeout"]}
    assert fold.net_waited_us == waited_us


@pytest.mark.parametrize(
    ("life", "has_ended"),
    [
        (Life(start_clock=7, end_clock=7, end_us=9), True),
        (Life(start_clock=8, end_clock=7, end_us=9), False),
        (Life(start_clock=7, end_clock=8), False),
        (Life(start_clock=8, end_clock=7, end_us=9, start_number=3, end_number=4), False),
        (Life(start_clock=8, end_clock=7, end_us=9, start_number=3, end_number=4, is_clock_wrong=True), True),
        (Life(start_clock=8, end_clock=7, end_us=9, start_number=4, end_number=4, is_clock_wrong=True), False),
    ],
)
def test_end_at_the_moment_of_the_start_is_its_end(life: Life, has_ended: bool) -> None:
    assert life.has_ended is has_ended
