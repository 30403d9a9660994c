"""What is foreseen of a failure that stays: retries with their waits, why they end, and the rungs after them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.classification.classify import Failure, Signal, classify
from recovery_ops.rules.classification.context_overflow import overflow_of
from recovery_ops.rules.enums import Adjustment, Category, Evidence, Rung
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.call_context import CallContext, OperationState
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.forecast import WAITS_MOST, foresee
from tests.support.ladder_properties import failures, play

LADDER = (Rung.FALLBACK, Rung.DEGRADE, Rung.FAIL)
ASKS_FIRST = (Rung.ASK, Rung.FALLBACK, Rung.DEGRADE, Rung.FAIL)
ASKS_OF_BUGS = {"escalations": {"bug": {"queue": "code"}}}
NO_OTHER = {"rules": [{"id": "alone", "scope": {"operation": "search"}, "fallbacks": []}]}


def told(
    failure: Failure, *, is_foreground: bool = True, is_repeatable: bool = True, more: Any = None, **settings: Any
) -> Any:
    held = {"max_retries": 3, "base_delay_s": 1.0, "backoff_factor": 2.0, "delay_cap_s": 30.0, "jitter": 0.5}
    document = {
        "schema_version": 1,
        "defaults": {"operation": held | {"call_deadline_s": 60.0} | settings},
        "guards": {"step_floor_s": 1.0, "step_factor": 1.0},
        **(more or {}),
    }
    place = Place(operation="search", breaker="search", service="", instance="", group="")
    found = foresee(failure, parse_policy(document), place, is_foreground=is_foreground, is_repeatable=is_repeatable)
    return [(one.least_s, one.most_s) for one in found.waits], found.reason, found.rungs


def of(category: Category, **more: Any) -> Failure:
    return Failure(category, Evidence.HTTP_STATUS, **more)


@pytest.mark.parametrize(
    ("failure", "how", "waits", "reason", "rungs"),
    [
        (of(Category.TIMEOUT), {}, [(1.0, 1.5), (2.0, 3.0), (4.0, 6.0)], "attempts", LADDER),
        (of(Category.OVERLOADED, retry_after_s=9.0), {"max_retries": 1}, [(9.0, 9.5)], "attempts", LADDER),
        (of(Category.OVERLOADED), {"is_foreground": False}, [], "capacity_in_background", LADDER),
        (of(Category.RATE_LIMITED), {"retry_capacity_errors": False}, [], "capacity_not_retried", LADDER),
        (of(Category.TIMEOUT), {"is_repeatable": False}, [], "may_do_harm_twice", LADDER),
        (of(Category.TIMEOUT), {"call_deadline_s": 4.0}, [(1.0, 1.5), (2.0, 3.0)], "deadline", LADDER),
        (of(Category.AUTH), {}, [(0.0, 0.0)], "already_tried", LADDER),
        (of(Category.BUG), {}, [], "not_retryable", LADDER),
        (of(Category.BUG), {"fallback_allowed": False}, [], "not_retryable", (Rung.FAIL,)),
        (of(Category.UNKNOWN), {}, [], "not_retryable", ASKS_FIRST),
        (of(Category.PERMISSION), {}, [], "not_retryable", (*LADDER[:2], Rung.ASK, Rung.FAIL)),
        (of(Category.CONTEXT_OVERFLOW), {}, [], "overflow_not_fixable", LADDER),
        (of(Category.SERVER_ERROR, server_says_retry=False), {}, [], "server_said_no", LADDER),
        (of(Category.QUOTA_EXHAUSTED), {}, [], "not_retryable", ASKS_FIRST),
        (of(Category.BUG), {"more": ASKS_OF_BUGS}, [], "not_retryable", (*LADDER[:2], Rung.ASK, Rung.FAIL)),
        (of(Category.BUG), {"more": NO_OTHER}, [], "not_retryable", (Rung.DEGRADE, Rung.FAIL)),
        (of(Category.CANCELLED), {}, [], "cancelled", ()),
        (of(Category.TIMEOUT), {"is_foreground": False, "least_importance": "critical"}, [], "shed", LADDER),
    ],
)
def test_what_is_foreseen(failure: Failure, how: dict[str, Any], waits: list[Any], reason: str, rungs: Any) -> None:
    assert told(failure, **how) == (waits, reason, rungs)


def test_an_answer_that_is_made_smaller_is_asked_for_once() -> None:
    overflow = overflow_of(100_000, 128_000)
    waits, reason, _ = told(of(Category.CONTEXT_OVERFLOW, overflow=overflow))
    assert (waits, reason) == ([(0.0, 0.0)], "already_tried")


def test_twenty_retries_are_all_there_are() -> None:
    waits, reason, _ = told(of(Category.TIMEOUT), max_retries=WAITS_MOST, base_delay_s=0.5, delay_cap_s=0.5)
    assert (len(waits), reason) == (WAITS_MOST, "attempts")


def test_who_persists_is_told_the_first_of_many() -> None:
    failure = classify(Signal(status_code=503), now=0.0)
    waits, reason, _ = told(failure, persistent=True, persistent_cap_s=86_400.0)
    assert (len(waits), reason) == (WAITS_MOST, "")


AGAIN = (Category.TIMEOUT, Category.NETWORK, Category.SERVER_ERROR, Category.OVERLOADED, Category.AUTH)
"""What is retried: of all that may fail, little is."""


@given(
    failure=st.sampled_from(AGAIN).map(of) | failures(),
    is_foreground=st.booleans(),
    is_repeatable=st.booleans(),
    settings=st.fixed_dictionaries(
        {
            "max_retries": st.integers(0, 5),
            "max_retries_background": st.integers(0, 5),
            "base_delay_s": st.floats(0.01, 20),
            "retry_capacity_errors": st.booleans(),
            "call_deadline_s": st.sampled_from([1.0, 20.0, 300.0]),
        }
    ),
)
def test_the_ladder_does_what_is_foreseen(
    failure: Failure, is_foreground: bool, is_repeatable: bool, settings: dict[str, Any]
) -> None:
    """Nobody may decide a second time what the ladder decides."""
    held = {"jitter": 0.0, "consecutive_failures": 0, "minimum_number_of_calls": 20}
    policy = parse_policy({"schema_version": 1, "defaults": {"operation": held | settings}})
    place = Place(operation="search", breaker="search", service="", instance="", group="")
    told = foresee(failure, policy, place, is_foreground=is_foreground, is_repeatable=is_repeatable)
    own = policy.for_operation(place, kind="operation")
    call = CallContext(
        standing=OperationState("search", own, Breaker("search", own.settings)),
        source="main_agent" if is_foreground else "nightly",
        started_at=100.0,
        deadline_at=100.0 + (policy.guards.step_deadline_s(own.settings.call_deadline_s or 0.0) or 0.0),
        chance=lambda: 0.0,
        is_repeatable=is_repeatable,
        fixes=frozenset(Adjustment),
    )
    played = play(call, [failure], takes_s=0.0)
    made = [at for at, _ in played.of("search")]
    assert [after - before for before, after in pairwise(made)] == pytest.approx(
        [one.least_s for one in told.waits], abs=1e-4
    )
