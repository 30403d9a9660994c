"""A fallback is reached in time, a spent backend rests, and the error says what was called last and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime import Fallback, RecoveryExhausted, Response, RetryAfterActive, Settings, StopRun, attempt
from recovery_ops.runtime.testing import HttpError, Lab

KINDS = ["operation", "tool", "document", "sandbox", "model"]
SAFE: Any = {"idempotent": True}


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def silent(lab: Lab, *, patience_s: float = 120.0) -> Callable[[], str]:
    """A backend that never answers: it takes all the time that an attempt has."""

    def call() -> str:
        lab.clock.push(min(attempt().remaining_s or patience_s, patience_s))
        raise TimeoutError

    return call


@pytest.mark.parametrize("kind", KINDS)
def test_silent_backend_reaches_its_fallback(lab: Lab, kind: str) -> None:
    left: list[float | None] = []

    def cached() -> str:
        left.append(attempt().remaining_s)
        return "cached"

    said: Any = {"kind": kind}
    guarded = lab.recovery.guard("search", **said, fallback=cached, **SAFE)(silent(lab))
    with lab.recovery.run(source="main_agent"):
        assert guarded.outcome().attempts == 2
        assert guarded() == "cached"
    assert all(one is None or one >= 10.0 for one in left)
    assert not lab.waits


@pytest.mark.parametrize("run_s", [4.0, 9.0, 25.0])
@pytest.mark.parametrize("is_async", [False, True])
def test_short_run_keeps_time_for_fallback(lab: Lab, run_s: float, is_async: bool) -> None:
    async def slow() -> str:
        return silent(lab, patience_s=10.0)()

    async def cached_async() -> str:
        return "cached"

    def cached() -> str:
        return "cached"

    guard = lab.recovery.guard("search", kind="tool", fallback=cached_async if is_async else cached, **SAFE)
    guarded: Any = guard(slow) if is_async else guard(silent(lab))
    with lab.recovery.run(source="main_agent", timeout=run_s):
        assert (asyncio.run(guarded()) if is_async else guarded()) == "cached"


def test_every_fallback_has_its_share(lab: Lab) -> None:
    others = [Fallback(silent(lab), name=f"other-{number}") for number in range(2)]
    guarded = lab.recovery.guard("search", kind="tool", fallback=[*others, lambda: "last"], **SAFE)(silent(lab))
    assert guarded() == "last"


def test_slow_errors_leave_time_for_fallback(lab: Lab) -> None:
    def slow() -> str:
        lab.clock.push(9.0)
        raise HttpError(500)

    guarded = lab.recovery.guard("search", kind="tool", fallback=lambda: "cached", **SAFE)(slow)
    with lab.recovery.run(source="main_agent"):
        assert guarded.outcome().fallback is not None


def test_timeout_without_ready_fallback_is_retried(lab: Lab) -> None:
    fallback = Fallback(lab.script(500), name="cache")
    guarded = lab.recovery.guard("search", fallback=fallback, **SAFE)(lab.script(ValueError()))
    for _ in range(5):  # the fallback's breaker opens
        with pytest.raises(RecoveryExhausted):
            guarded()
    again = lab.recovery.guard("find", fallback=fallback, **SAFE)(lab.script(TimeoutError(), "found"))
    assert again() == "found"


def test_late_fallback_is_not_a_rung(lab: Lab) -> None:
    def slow() -> str:
        lab.clock.push(400.0)
        raise HttpError(500)

    guarded = lab.recovery.guard("search", fallback=lambda: "cached", **SAFE)(slow)
    with pytest.raises(RecoveryExhausted) as failed:
        guarded()
    assert (failed.value.steps, failed.value.attempts) == (("retry", "fail"), 1)


@pytest.mark.parametrize("source", ["main_agent", "titles"])
def test_long_retry_after_takes_fallback(lab: Lab, source: str) -> None:
    limited = HttpError(Response(429, {"retry-after": "100"}, None))
    guarded = lab.recovery.guard("search", fallback=lambda: "cached", **SAFE)(lab.script(limited))
    with lab.recovery.run(source=source):
        assert guarded() == "cached"
    assert not lab.waits


def test_short_retry_after_is_waited_for(lab: Lab) -> None:
    limited = HttpError(Response(429, {"retry-after": "9"}, None))
    guarded = lab.recovery.guard("search", fallback=lambda: "cached", **SAFE)(lab.script(limited, "found"))
    with lab.recovery.run(source="main_agent"):
        assert guarded() == "found"
    assert lab.waits == [9.0]


def test_policy_sets_longest_wait_before_fallback(lab: Lab) -> None:
    rule = {"id": "r", "scope": {}, "settings": {"max_wait_before_fallback_s": 0}}
    lab.recovery.apply(Desired(revision=1, policy=parse_policy({"rules": [rule]})))
    guarded = lab.recovery.guard("search", fallback=lambda: "cached", **SAFE)(lab.script(500, "found"))
    with lab.recovery.run(source="main_agent"):
        assert guarded() == "cached"


class TestRest:
    @pytest.mark.parametrize(
        "error", [402, Response(400, {}, {"error": {"message": "You have reached your specified API usage limits."}})]
    )
    def test_spent_quota_rests_primary(self, lab: Lab, error: Any) -> None:
        primary = lab.script(HttpError(error))
        guarded = lab.recovery.guard("search", fallback=lambda: "cached", **SAFE)(primary)
        assert [guarded() for _ in range(30)] == ["cached"] * 30
        assert len(primary.arguments) == 1
        lab.clock.push(900.0)
        guarded()
        assert len(primary.arguments) == 2

    def test_reset_by_operator_ends_rest(self, lab: Lab) -> None:
        primary = lab.script(402, "found")
        guarded = lab.recovery.guard("search", fallback=lambda: "cached", **SAFE)(primary)
        assert guarded() == "cached"
        lab.recovery.operations["search"].standing.gate.opens_at = None
        assert guarded() == "found"

    def test_person_with_money_ends_rest(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", fallback=lambda: "cached", ask_user=lambda question: True, **SAFE)(
            lab.script(402, "found")
        )
        with lab.recovery.run(source="main_agent"):
            assert guarded() == "found"

    def test_failed_fallback_leaves_primary_refused(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", fallback=lab.script(500), **SAFE)(lab.script(402))
        with pytest.raises(RecoveryExhausted):
            guarded()
        with pytest.raises(RetryAfterActive) as refused:
            guarded()
        assert refused.value.retry_at is not None


class TestExhausted:
    def test_category_is_that_of_the_last_error(self, lab: Lab) -> None:
        last = HttpError(500)
        guarded = lab.recovery.guard("search", fallback=lab.script(last))(lab.script(ValueError()))
        with pytest.raises(RecoveryExhausted) as failed:
            guarded()
        error = failed.value
        assert (error.last_error, error.category, error.attempts) == (last, Category.SERVER_ERROR, 2)
        assert error.failure is not None
        assert error.failure.category is Category.SERVER_ERROR

    def test_attempts_count_every_call(self, lab: Lab) -> None:
        others = [Fallback(lab.script(500), name="a", idempotent=True), Fallback(lab.script(404), name="b")]
        settings = Settings(max_retries=2, max_retries_background=2)
        guarded = lab.recovery.guard("search", fallback=others, settings=settings, **SAFE)(lab.script(500))
        with pytest.raises(RecoveryExhausted) as failed:
            guarded()
        assert (failed.value.attempts, failed.value.category) == (3 + 1 + 1, Category.NOT_FOUND)
        (fact,) = lab.events_of(events.Exhausted)
        assert (fact.attempts, fact.category) == (3, Category.SERVER_ERROR)

    def test_attempts_of_a_guarded_fallback_count(self, lab: Lab) -> None:
        inner = lab.recovery.guard("cache", max_retries=2, **SAFE)(lab.script(500))
        guarded = lab.recovery.guard("search", fallback=inner)(lab.script(ValueError()))
        with pytest.raises(RecoveryExhausted) as failed:
            guarded()
        assert failed.value.attempts == 1 + 3

    def test_refused_fallback_leaves_the_primarys_error(self, lab: Lab) -> None:
        fallback = Fallback(lab.script(500), name="cache")
        guarded = lab.recovery.guard("search", fallback=fallback)(lab.script(ValueError()))
        for category in [Category.SERVER_ERROR] * 5 + [Category.BUG]:
            with pytest.raises(RecoveryExhausted) as failed:
                guarded()
            assert failed.value.category is category

    def test_forbidden_fallback_does_not_stop_run(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", fallback=lab.script(403))(lab.script(ValueError()))
        with pytest.raises(RecoveryExhausted) as failed:
            guarded()
        assert failed.value.category is Category.PERMISSION

    def test_forbidden_primary_stops_run_after_failed_fallback(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", fallback=lab.script(500))(lab.script(403))
        with pytest.raises(StopRun) as stopped:
            guarded()
        assert stopped.value.category is Category.PERMISSION


class TestRetryBudget:
    def test_storm_is_bounded_to_its_budget(self, lab: Lab) -> None:
        """100 retries in 10 s without traffic; with it, a share of the calls."""
        storm = Settings(consecutive_failures=0, failure_rate_threshold=0.0, max_retries_background=1, base_delay_s=0.0)
        guarded = lab.recovery.guard("search", settings=storm, **SAFE)(lab.script(500))
        reasons = []
        for _ in range(200):
            with pytest.raises(RecoveryExhausted) as failed:
                guarded()
            reasons.append(failed.value.reason.value)
        retries = len(lab.events_of(events.RetryScheduled))
        assert 100 <= retries <= 100 + 0.2 * 200
        assert reasons[-1] == "retry_budget"

    def test_quiet_calls_raise_the_budget(self, lab: Lab) -> None:
        few = Settings(min_retries_per_s=0.0, retry_ratio=0.1, max_retries_background=1, base_delay_s=0.0)
        guarded = lab.recovery.guard("search", settings=few, **SAFE)(lab.script(500, *["ok"] * 20, 500, "ok"))
        with pytest.raises(RecoveryExhausted):
            guarded()
        for _ in range(20):  # on the fast path
            lab.clock.push(0.1)
            guarded()
        assert guarded() == "ok"
