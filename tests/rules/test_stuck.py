"""When a breaker is stuck: the table, and what must never be said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.enums import BREAKER_COUNTS, Category
from recovery_ops.rules.fleet.stuck_breakers import Kind, Seen, findings
from recovery_ops.rules.policy.fleet_settings import StuckBounds
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings

BOUNDS = StuckBounds(half_open_s=300, idle_open_s=900, uncounted_failures=20, uncounted_share=0.5)
ALL_FAIL = {Category.INVALID_REQUEST: 30}
RATE_ALONE = Settings(consecutive_failures=0).over(FAIL_CLOSED)
RARE = Settings(sliding_window_type="time_based", sliding_window_size=60).over(RATE_ALONE)


def kinds(seen: Seen, settings: Settings = FAIL_CLOSED) -> list[str]:
    return [one.kind.value for one in findings(seen, BOUNDS, settings)]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"closed": 3}, []),
        ({"half_open": 1, "half_open_for_s": 299}, []),
        ({"half_open": 1, "half_open_for_s": 300}, ["half_open_too_long"]),
        ({"half_open": 0, "half_open_for_s": 999}, []),
        ({"open": 2, "open_for_s": 3600}, []),
        ({"open": 2, "open_for_s": 3600, "idle_s": 899}, []),
        ({"open": 2, "open_for_s": 899, "idle_s": 3600}, []),
        ({"open": 2, "open_for_s": 900, "idle_s": 900}, ["open_without_traffic"]),
        ({"closed": 3, "attempts": 30, "failures": ALL_FAIL}, ["failures_not_counted"]),
        ({"closed": 3, "attempts": 30, "failures": ALL_FAIL, "idle_s": 300}, []),
        ({"closed": 3, "attempts": 61, "failures": ALL_FAIL}, []),
        ({"closed": 3, "attempts": 60, "failures": ALL_FAIL}, ["failures_not_counted"]),
        ({"closed": 3, "attempts": 20, "failures": {Category.INVALID_REQUEST: 20}}, ["failures_not_counted"]),
        ({"closed": 3, "attempts": 19, "failures": {Category.INVALID_REQUEST: 19}}, []),
        ({"closed": 3, "attempts": 0, "failures": ALL_FAIL}, []),
        ({"closed": 2, "open": 1, "attempts": 30, "failures": ALL_FAIL}, []),
        ({"closed": 3, "attempts": 30, "failures": {Category.TIMEOUT: 30}}, []),
        (
            {"half_open": 1, "half_open_for_s": 400, "open": 1, "open_for_s": 1000, "idle_s": 950},
            ["half_open_too_long", "open_without_traffic"],
        ),
    ],
)
def test_what_is_stuck_and_what_is_not(said: dict[str, Any], found: list[str]) -> None:
    assert kinds(Seen(**said)) == found


TIMEOUTS = Seen(closed=3, attempts=30, failures={Category.TIMEOUT: 30})


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (Settings(failure_rate_threshold=0).over(RATE_ALONE), "no failure threshold"),
        (Settings(minimum_number_of_calls=50).over(RATE_ALONE), "20 calls, but minimum_number_of_calls is 50"),
        (RARE, "about 0.7 calls per 60 s window, but minimum_number_of_calls is 10"),
    ],
)
def test_a_limit_that_is_never_reached_is_told(settings: Settings, why: str) -> None:
    [one] = findings(TIMEOUTS, BOUNDS, settings)
    assert why in one.sentence
    assert one.advice


@pytest.mark.parametrize("settings", [FAIL_CLOSED, RATE_ALONE, Settings(minimum_number_of_calls=1).over(RARE)])
def test_a_limit_that_can_be_reached_is_not(settings: Settings) -> None:
    assert kinds(Seen(closed=1, attempts=900, failures={Category.TIMEOUT: 900}), settings) == []


def test_the_sentence_names_what_does_not_count() -> None:
    seen = Seen(closed=3, attempts=150, failures={Category.RATE_LIMITED: 120, Category.INVALID_REQUEST: 20})
    [one] = findings(seen, BOUNDS)
    said = ("140 of 150", "15m 00s", "120 rate_limited, 20 invalid_request")
    assert [part for part in said if part not in one.sentence] == []


def test_failures_that_were_told_before_their_attempts_were_counted_are_not_made_fewer() -> None:
    [one] = findings(Seen(closed=1, attempts=30, window_s=1040.0, failures={Category.RATE_LIMITED: 35}), BOUNDS)
    said = ("35 failures, 30 attempts", "17m 20s", "35 rate_limited")
    assert [part for part in said if part not in one.sentence] == []


def test_why_it_stays_half_open_depends_on_who_calls() -> None:
    [silent] = findings(Seen(half_open=2, half_open_for_s=720, idle_s=950), BOUNDS)
    assert [part for part in ("2 instances", "12 min", "no calls") if part not in silent.sentence] == []
    [busy] = findings(Seen(half_open=1, half_open_for_s=720), BOUNDS)
    assert "probes neither succeed nor fail" in busy.sentence


@given(
    st.builds(
        Seen,
        half_open=st.integers(0, 3),
        half_open_for_s=st.floats(0, 4000),
        open=st.integers(0, 3),
        open_for_s=st.floats(0, 4000),
        closed=st.integers(0, 3),
        idle_s=st.one_of(st.none(), st.floats(0, 4000)),
        attempts=st.integers(0, 200),
        failures=st.dictionaries(st.sampled_from(list(Category)), st.integers(0, 100), max_size=4),
    )
)
def test_each_kind_at_most_once_and_only_with_its_evidence(seen: Seen) -> None:
    found = kinds(seen)
    assert len(found) == len(set(found))
    if Kind.HALF_OPEN in found:
        assert seen.half_open
    if Kind.IDLE_OPEN in found:
        assert seen.open
        assert seen.idle_s is not None
    if Kind.UNCOUNTED in found:
        assert not seen.open
        assert not any(seen.failures.get(one) for one in BREAKER_COUNTS)
