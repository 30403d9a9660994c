"""Repeated calls of a run: counts by table and against a slow count, marks, and what follows at the limits."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.events import BudgetWarned, GuardTripped
from recovery_ops.rules.policy.settings import Problem
from recovery_ops.rules.repeated_calls import (
    LONGEST_COMPARED,
    MOST_COMPARED,
    Mark,
    RepeatedCalls,
    mark_of,
    mark_of_call,
)
from recovery_ops.rules.run_limits import DEFAULT_LIMITS, Effect, GuardLimits, RunGuards, parse_guards

GO_ON, WARN, STOP, ASK = Effect.GO_ON, Effect.CHANGE_APPROACH, Effect.STOP_RUN, Effect.ASK_A_PERSON
COUNTS = [
    ("aaaaa", [1, 2, 3, 4, 5]),
    ("ababababa", [1, 1, 2, 2, 3, 3, 4, 4, 5]),
    ("abbaab", [1, 1, 2, 2, 3, 3]),
    ("aabaa", [1, 2, 1, 3, 4]),
    ("abcabcabc", [1, 1, 1, 1, 1, 1, 1, 1, 1]),
    ("aaac", [1, 2, 3, 1]),
    ("aabca", [1, 2, 1, 1, 1]),
    ("abbbca", [1, 1, 2, 3, 1, 1]),
    ("abbbcb", [1, 1, 2, 3, 1, 4]),
    ("aa.aa", [1, 2, 1, 1, 2]),
    ("ab.ab", [1, 1, 1, 1, 1]),
    ("aaAaaA", [1, 2, 1, 1, 2, 1]),
    ("aAaAaA", [1, 1, 1, 1, 1, 1]),
    ("ababAbAb", [1, 1, 2, 2, 1, 2, 2, 3]),
    ("abbbAbb", [1, 1, 2, 3, 1, 4, 5]),
    ("abbaBb", [1, 1, 2, 2, 1, 1]),
]
"""Calls by a letter, in capitals where the result is another one, `.` for one without a mark; and the count of each."""


def mark(letter: str) -> Mark | None:
    return None if letter == "." else Mark(letter.lower().encode(), letter.encode())


@pytest.mark.parametrize(("calls", "counts"), COUNTS)
def test_counts_of_calls_by_table(calls: str, counts: list[int]) -> None:
    row = RepeatedCalls()
    assert [row.made(mark(one)) for one in calls] == counts
    assert row.most == max(count for one, count in zip(calls, counts, strict=True) if one != ".")


def slow_count(calls: str) -> int:
    """By the definition: the latest call in the longest end of at most two calls, each with one result."""
    end = ""
    for one in reversed(calls):
        if one == "." or len({*end, one}) > 2 or one.swapcase() in end:
            break
        end += one
    return max(1, end.count(calls[-1]))


@given(st.text(alphabet="abcABC.", min_size=1, max_size=60))
def test_any_series_counts_as_defined(calls: str) -> None:
    row = RepeatedCalls()
    assert [row.made(mark(one)) for one in calls] == [slow_count(calls[: end + 1]) for end in range(len(calls))]


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(2, 6))
def test_no_effect_where_no_call_comes_that_often(calls: list[int], limit: int) -> None:
    guards, limits = RunGuards(), GuardLimits(repeats_before_warning=limit, repeats_before_stop=limit)
    made = [one for place, one in enumerate(calls) if calls[:place].count(one) < limit - 1]
    assert {guards.call_made("t", Mark(bytes([one]), b""), limits).effect for one in made} <= {GO_ON}


def test_memory_of_a_run_has_a_bound() -> None:
    row = RepeatedCalls()
    for number in range(10_000):
        row.made(Mark(str(number % 97).encode(), b""))
    assert len(row._row) == 2


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Order:
    number: int
    items: list[str]


class Place(NamedTuple):
    row: int
    seat: int


class Title(str):
    __slots__ = ()


SAME: list[tuple[Any, Any]] = [
    (Place(1, 2), Place(1, 2)),
    (Title("x"), Title("x")),
    (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
    ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
    ([1, "x"], (1, "x")),
    ({1, 2, 3}, {3, 2, 1}),
    (Order(1, ["a"]), Order(1, ["a"])),
    (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ("\ud800", "\ud800"),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1, "1"),
    (1, True),
    (1, 1.0),
    (None, "None"),
    (b"a", "a"),
    (["ab"], ["a", "b"]),
    ([["a"], "b"], [["a", "b"]]),
    ({"a": "b"}, {"b": "a"}),
    ({"a": 1}, [["a", 1]]),
    (Colour.RED, Colour.BLUE),
    (Place(1, 2), Place(2, 1)),
    (Title("x"), Title("y")),
    (Order(1, ["a"]), Order(1, ["b"])),
    (Decimal("1.0"), Decimal("1.00")),
    ("x" * 999_000 + "a", "x" * 999_000 + "b"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_values_have_one_mark(one: Any, other: Any) -> None:
    assert mark_of(one) == mark_of(other) is not None


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_values_have_different_marks(one: Any, other: Any) -> None:
    assert mark_of(one) != mark_of(other)


def test_call_without_comparable_part_has_no_mark() -> None:
    assert mark_of_call(("search", object()), "found") is None
    assert mark_of_call(("search", "x"), object()) is None
    assert mark_of_call(("search", "x"), "found") is not None


def nested(depth: int) -> list[Any]:
    return [] if depth == 0 else [nested(depth - 1)]


class Unreadable:
    @property
    def __pydantic_fields__(self) -> Any:
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Unreadable(),
        {1: "a", "b": 2},
        nested(100),
        "x" * (LONGEST_COMPARED + 1),
        ["x" * 1000] * 1001,
        [0] * (MOST_COMPARED + 1),
        {str(number): number for number in range(MOST_COMPARED + 1)},
        10**5000,
    ],
    ids=["object", "unreadable", "mixed-keys", "deep", "long", "long-in-all", "many", "many-keys", "huge"],
)
def test_value_beyond_bounds_has_no_mark(value: Any) -> None:
    assert mark_of(value) is None


def test_cost_of_a_mark_has_a_bound() -> None:
    """However large the arguments are; the bound is far above what a mark takes, and far below what they would."""
    huge = ["x" * 1000] * 3_000_000
    began = time.perf_counter()
    assert mark_of(huge) is None
    assert time.perf_counter() - began < 1.0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_marks_are_equal_where_values_are(one: Any, other: Any) -> None:
    assert (mark_of(one) == mark_of(other)) == (repr(_sorted(one)) == repr(_sorted(other)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


EFFECTS = [
    ("stop", "aaaaa", [GO_ON, GO_ON, WARN, WARN, STOP]),
    ("ask", "aaaaaaa", [GO_ON, GO_ON, WARN, WARN, ASK, GO_ON, GO_ON]),
    ("warn", "aaaaaaa", [GO_ON, GO_ON, WARN, WARN, WARN, WARN, WARN]),
    ("stop", "ababababa", [GO_ON] * 4 + [WARN] * 4 + [STOP]),
    ("stop", "aabcaabc", [GO_ON] * 8),
    ("stop", "aAaAaAaAaA", [GO_ON] * 10),
]


@pytest.mark.parametrize(("action", "calls", "effects"), EFFECTS)
def test_effects_by_action_and_calls(action: str, calls: str, effects: list[Effect]) -> None:
    guards, limits = RunGuards(), GuardLimits(repeat_action=action)
    assert [guards.call_made("search", mark(one), limits).effect for one in calls] == effects


def test_warning_and_stop_are_recorded_once() -> None:
    guards = RunGuards()
    found = [event for _ in range(5) for event in guards.call_made("search", mark("a"), DEFAULT_LIMITS).events]
    assert found == [
        BudgetWarned(operation="search", budget="repeated_calls", spent=3, limit=3),
        GuardTripped(operation="search", guard="repeated_calls", count=5, limit=5),
    ]


@pytest.mark.parametrize("calls", ["aaabccc", "aaaAAA", "aaa.aaa"])
def test_new_row_warns_anew(calls: str) -> None:
    guards = RunGuards()
    found = [event for one in calls for event in guards.call_made("t", mark(one), DEFAULT_LIMITS).events]
    assert [type(event) for event in found] == [BudgetWarned, BudgetWarned]


def test_live_limits_apply_to_the_row_under_way() -> None:
    guards = RunGuards()
    assert guards.call_made("t", mark("a"), DEFAULT_LIMITS).effect is GO_ON
    assert guards.call_made("t", mark("a"), GuardLimits(repeats_before_stop=2)).effect is STOP


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"repeats_before_warning": 1}, "guards.repeats_before_warning"),
        ({"repeats_before_stop": 10_001}, "guards.repeats_before_stop"),
        ({"repeat_action": "explode"}, "guards.repeat_action"),
        ({"repeat_action": 3}, "guards.repeat_action"),
    ],
)
def test_setting_out_of_bounds_is_refused_by_path(given: dict[str, Any], path: str) -> None:
    problems: list[Problem] = []
    assert parse_guards(given, "guards", problems) == DEFAULT_LIMITS
    assert [problem.path for problem in problems] == [path]


@pytest.mark.parametrize(("parts", "is_marked"), [(51, True), (52, False)])
def test_mark_ends_at_its_depth(parts: int, is_marked: bool) -> None:
    value: list[Any] = []
    for _ in range(parts - 1):
        value = [value]
    assert (mark_of(value) is not None) is is_marked


def test_longest_text_has_a_mark() -> None:
    assert mark_of("x" * LONGEST_COMPARED) is not None
