"""Windows by time: what was counted before a breaker was switched to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.rules.policy.model import FAIL_CLOSED
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.sliding_window import Reading, Window

BY_COUNT = replace(FAIL_CLOSED, consecutive_failures=0, sliding_window_size=10_000)
BY_TIME = replace(BY_COUNT, sliding_window_type="time_based", sliding_window_size=60)


def counted(window: Window, successes: int) -> None:
    for _ in range(successes):
        window.successes.add()


def by_time(window: Window, now: float, size: int = 60) -> Reading:
    return window.read(now, size=size, is_time_based=True)


@pytest.mark.parametrize("has_failed_before", [True, False])
def test_old_successes_do_not_hide_failures(has_failed_before: bool) -> None:
    one = Breaker("search", BY_COUNT)
    one.sweep(0.0)
    if has_failed_before:
        one.fail(0.0, Category.TIMEOUT)
    counted(one.window, 10_000)
    one.sweep(0.9)
    one.configure(BY_TIME)
    facts = [fact for _ in range(10) for fact in one.fail(600.0, Category.TIMEOUT)]
    assert [(fact.trigger, fact.calls, fact.failures) for fact in facts] == [(Trigger.FAILURE_RATE, 10, 10)]  # type: ignore[attr-defined]  # its own facts


def test_recent_successes_stay_in_the_window() -> None:
    one = Breaker("search", BY_COUNT)
    one.sweep(0.0)
    counted(one.window, 90)
    one.sweep(30.0)
    counted(one.window, 10)
    one.configure(BY_TIME)
    for _ in range(10):
        one.fail(59.0, Category.TIMEOUT)
    assert one.state is State.CLOSED
    assert (one.reading(59.0).calls, one.reading(60.0).calls, one.reading(95.0).calls) == (110, 20, 10)


def test_successes_before_a_fresh_window_are_forgotten() -> None:
    one = Breaker("search", BY_COUNT)
    one.sweep(0.0)
    counted(one.window, 100)
    one.reset(1.0)
    one.configure(BY_TIME)
    assert one.reading(1.0).calls == 0


@given(st.lists(st.tuples(st.sampled_from(["counted", "noted", "failed"]), st.sampled_from([0.0, 0.3, 1.0, 7.0]))))
def test_swept_window_is_the_listed_window(outcomes: list[tuple[str, float]]) -> None:
    window, now, listed = Window(), 100.0, []
    for how, pause_s in outcomes:
        now += pause_s
        window.book(now)
        listed.append((int(now), how))
        if how == "counted":
            window.successes.add()
        elif how == "noted":
            window.note_success(now)
        else:
            window.note_failure(now)
        for size in (1, 10, 60):
            recent = [one for second, one in listed if second > int(now) - size]
            reading = by_time(window, now, size)
            assert (reading.calls, reading.failures) == (len(recent), recent.count("failed"))


def test_long_windows_are_nearly_exact() -> None:
    window = Window()
    for second in range(20_000):
        window.note_success(float(second))
    for size in (60, 128, 500, 1000, 3000, 10_000):
        calls = by_time(window, 19_999.0, size).calls
        assert size * (1 if size <= 128 else 1 - 1 / 128) <= calls <= size
    assert len(window._seconds) <= 1024


def test_overlapping_parts_keep_their_seconds() -> None:
    window = Window()
    for now in (100.0, 70.0, 85.0, 70.0):
        window.note_success(now)
    assert [by_time(window, 100.0, size).calls for size in (1, 16, 31)] == [1, 2, 4]


@pytest.mark.parametrize("is_time_based", [False, True])
def test_slow_calls_count_until_a_fresh_window(is_time_based: bool) -> None:
    window = Window()
    window.note_success(1.0, is_slow=True)
    window.note_failure(1.0, is_slow=True)
    window.note_failure(1.0)
    read = window.read(1.0, size=10, is_time_based=is_time_based)
    assert (read.calls, read.failures, read.slow) == (3, 2, 2)
    window.clear()
    window.note_success(1.0)
    fresh = window.read(1.0, size=10, is_time_based=is_time_based)
    assert (fresh.calls, fresh.failures, fresh.slow) == (1, 0, 0)
