"""Breakers and retries of other libraries, which report without being rewritten."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pybreaker
import pytest
import tenacity

from recovery_ops.rules.enums import Category, State, StopReason, Trigger
from recovery_ops.rules.events import (
    AttemptSucceeded,
    BreakerStateChanged,
    CallsCounted,
    Exhausted,
    FailureClassified,
    RetryScheduled,
)
from recovery_ops.runtime.integrations.pybreaker import ReportingListener
from recovery_ops.runtime.integrations.tenacity import report
from recovery_ops.runtime.testing import Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


def counted(lab: Lab) -> CallsCounted:
    lab.clock.push(20)
    lab.recovery.housekeep()
    (found,) = lab.events_of(CallsCounted)
    return found


# pybreaker


def failing() -> None:
    raise ConnectionResetError("cut")


def test_a_breaker_of_pybreaker_reports_its_failures_and_moves(lab: Lab) -> None:
    breaker = pybreaker.CircuitBreaker(
        fail_max=2, reset_timeout=0, name="prices", listeners=[ReportingListener(lab.recovery, source="main_agent")]
    )
    assert breaker.call(lambda: 7) == 7
    for expected in (ConnectionResetError, pybreaker.CircuitBreakerError):
        with pytest.raises(expected):
            breaker.call(failing)
    breaker.call(lambda: 7)  # the wait is over at once: the probe
    moves = [(fact.previous_state, fact.state, fact.trigger) for fact in lab.events_of(BreakerStateChanged)]
    assert moves == [
        (State.CLOSED, State.OPEN, Trigger.CONSECUTIVE_FAILURES),
        (State.OPEN, State.HALF_OPEN, Trigger.WAIT_ELAPSED),
        (State.HALF_OPEN, State.CLOSED, Trigger.PROBE_SUCCEEDED),
    ]
    opened = lab.events_of(BreakerStateChanged)[0]
    assert (opened.breaker, opened.failures, opened.threshold, opened.last_category) == (
        "prices", 2, 2.0, Category.NETWORK,
    )  # fmt: skip
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.NETWORK] * 2
    assert set(lab.read.sources) == {"main_agent"}
    totals = counted(lab)
    assert (totals.operation, totals.calls, totals.attempts, totals.successes) == ("prices", 4, 4, 2)
    assert totals.failures == {"network": 2}


def test_a_failed_probe_and_a_hand_on_the_breaker(lab: Lab) -> None:
    breaker = pybreaker.CircuitBreaker(fail_max=9, reset_timeout=0, name="prices")
    breaker.add_listener(ReportingListener(lab.recovery))
    breaker.open()
    with pytest.raises(pybreaker.CircuitBreakerError):
        breaker.call(failing)
    breaker.close()
    assert [fact.trigger for fact in lab.events_of(BreakerStateChanged)] == [
        Trigger.OPERATOR_TRIP,
        Trigger.WAIT_ELAPSED,
        Trigger.PROBE_FAILED,
        Trigger.OPERATOR_RESET,
    ]


def test_a_listener_that_cannot_report_does_not_disturb(
    lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker = pybreaker.CircuitBreaker(name="prices", listeners=[ReportingListener(lab.recovery)])
    monkeypatch.setattr(lab.recovery.operations, "named", failing)
    with caplog.at_level(logging.WARNING):
        assert breaker.call(lambda: 7) == 7
    assert "could not report" in caplog.text


# tenacity

Play = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def play(request: pytest.FixtureRequest, lab: Lab) -> Play:
    """Plays outcomes through a function that tenacity retries and that reports; returns or raises as it does."""

    def played(*outcomes: Any, **options: Any) -> Any:
        script = lab.script(*outcomes)
        options = {"stop": tenacity.stop_after_attempt(3), "wait": tenacity.wait_fixed(0.001), **options}

        if request.param == "sync":

            @tenacity.retry(**options)
            def prices() -> Any:
                return script()

            return report(prices, lab.recovery, source="main_agent")()

        @tenacity.retry(**options)
        async def quotes() -> Any:
            return script()

        return anyio.run(report(quotes, lab.recovery, operation="prices", source="main_agent"))

    return played


def test_a_retry_of_tenacity_reports_each_attempt(play: Play, lab: Lab) -> None:
    assert play(529, ConnectionResetError(), 7) == 7
    assert [(fact.category, fact.attempt, fact.retryable) for fact in lab.events_of(FailureClassified)] == [
        (Category.OVERLOADED, 1, True),
        (Category.NETWORK, 2, True),
    ]
    assert [(fact.attempt, fact.delay_s, fact.category) for fact in lab.events_of(RetryScheduled)] == [
        (2, 0.001, Category.OVERLOADED),
        (3, 0.001, Category.NETWORK),
    ]
    assert [fact.attempt for fact in lab.events_of(AttemptSucceeded)] == [3]
    totals = counted(lab)
    assert (totals.operation, totals.calls, totals.attempts, totals.successes) == ("prices", 1, 3, 1)
    assert (totals.retries, totals.in_flight) == (2, 0)


def test_giving_up_is_told(play: Play, lab: Lab) -> None:
    with pytest.raises(tenacity.RetryError):
        play(529)
    (fact,) = lab.events_of(Exhausted)
    assert (fact.reason, fact.attempts, fact.category) == (StopReason.ATTEMPTS, 3, Category.OVERLOADED)


def test_what_is_not_retried_is_told(play: Play, lab: Lab) -> None:
    with pytest.raises(ValueError, match="mine"):
        play(ValueError("mine"), retry=tenacity.retry_if_exception_type(OSError))
    assert [fact.retryable for fact in lab.events_of(FailureClassified)] == [False]
    assert [fact.reason for fact in lab.events_of(Exhausted)] == [StopReason.NOT_RETRYABLE]


def test_a_result_that_is_not_accepted_is_a_failure(play: Play, lab: Lab) -> None:
    assert play(None, 7, retry=tenacity.retry_if_result(lambda result: result is None)) == 7
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.SEMANTIC]


def test_what_was_there_before_is_still_called(play: Play) -> None:
    slept: list[int] = []
    play(529, 7, before_sleep=lambda state: slept.append(state.attempt_number))
    assert slept == [1]


def test_a_retrying_of_ones_own_and_reporting_twice(lab: Lab) -> None:
    retrying = tenacity.Retrying(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_none(), reraise=True)
    assert report(report(retrying, lab.recovery, operation="prices"), lab.recovery, operation="prices") is retrying
    for attempt in retrying:
        with attempt:
            if attempt.retry_state.attempt_number == 1:
                failing()
    assert len(lab.events_of(FailureClassified)) == 1
    assert [fact.operation for fact in lab.events_of(RetryScheduled)] == ["prices"]


def test_a_retrying_in_tasks(lab: Lab) -> None:
    async def go() -> None:
        retrying = tenacity.AsyncRetrying(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_none())
        async for attempt in report(retrying, lab.recovery, operation="prices"):
            with attempt:
                if attempt.retry_state.attempt_number == 1:
                    failing()

    anyio.run(go)
    assert [fact.attempt for fact in lab.events_of(RetryScheduled)] == [2]
