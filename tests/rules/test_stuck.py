"""When a breaker is stuck: the table, and what must never be said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.fleet_bounds import StuckBounds
from recovery_ops.rules.policy import FAIL_CLOSED, Knobs
from recovery_ops.rules.stuck import Kind, Seen, findings
from recovery_ops.rules.words import BREAKER_COUNTS, Category

BOUNDS = StuckBounds(half_open_s=300, idle_open_s=900, uncounted_failures=20, uncounted_share=0.5)
ALL_FAIL = {Category.INVALID_REQUEST: 30}
RATE_ALONE = Knobs(consecutive_failures=0).over(FAIL_CLOSED)
RARE = Knobs(sliding_window_type="time_based", sliding_window_size=60).over(RATE_ALONE)


def kinds(seen: Seen, knobs: Knobs = FAIL_CLOSED) -> list[str]:
    return [one.kind.value for one in findings(seen, BOUNDS, knobs)]


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
    ("knobs", "why"),
    [
        (Knobs(failure_rate_threshold=0).over(RATE_ALONE), "it has no limit for failures"),
        (Knobs(minimum_number_of_calls=50).over(RATE_ALONE), "its window holds 20 calls, and 50 are needed"),
        (RARE, "each instance makes about 0.7 calls in its window of 60 s, and 10 are needed"),
    ],
)
def test_a_limit_that_is_never_reached_is_told(knobs: Knobs, why: str) -> None:
    [one] = findings(TIMEOUTS, BOUNDS, knobs)
    assert why in one.sentence
    assert one.advice


@pytest.mark.parametrize("knobs", [FAIL_CLOSED, RATE_ALONE, Knobs(minimum_number_of_calls=1).over(RARE)])
def test_a_limit_that_can_be_reached_is_not(knobs: Knobs) -> None:
    assert kinds(Seen(closed=1, attempts=900, failures={Category.TIMEOUT: 900}), knobs) == []


def test_the_sentence_names_what_does_not_count() -> None:
    seen = Seen(closed=3, attempts=150, failures={Category.RATE_LIMITED: 120, Category.INVALID_REQUEST: 20})
    [one] = findings(seen, BOUNDS)
    assert one.sentence == (
        "140 of 150 attempts failed in the last 15m 00s, and none of these failures counts for the breaker: "
        "120 rate_limited, 20 invalid_request."
    )


def test_failures_that_were_told_before_their_attempts_were_counted_are_not_made_fewer() -> None:
    [one] = findings(Seen(closed=1, attempts=30, window_s=1040.0, failures={Category.RATE_LIMITED: 35}), BOUNDS)
    assert one.sentence == (
        "35 failures were told and 30 attempts counted so far in the last 17m 20s, and none of these failures "
        "counts for the breaker: 35 rate_limited."
    )


def test_why_it_stays_half_open_depends_on_who_calls() -> None:
    [silent] = findings(Seen(half_open=2, half_open_for_s=720, idle_s=950), BOUNDS)
    assert silent.sentence == "Half-open on 2 instances for 12 min: nobody calls it, so no probe is made."
    [busy] = findings(Seen(half_open=1, half_open_for_s=720), BOUNDS)
    assert "its probes neither succeed nor fail" in busy.sentence


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
