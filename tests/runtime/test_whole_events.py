"""Events of whole calls, field by field: nothing that a guard knows of a call is left out of what it records."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.policy.model import Settings
from recovery_ops.runtime import Fallback, ModelChain, RecoveryExhausted, Response, StopRun
from recovery_ops.runtime.testing import HttpError, Lab

OF_THE_TEXT = {"error_type", "exception_type", "fingerprint", "evidence", "verdict"}
"""Fields that only depend on the error; the tests of classification have them."""
BUSY = Response(429, {"retry-after": "2", "request-id": "r-1"}, {"error": {"code": "rate_limit_exceeded"}})
OVERLOADED = Response(529, {}, {"error": {"type": "overloaded_error", "message": "Overloaded"}})
Told = tuple[type[events.Event], dict[str, Any]]


def told(lab: Lab, *, since: int = 0) -> list[Told]:
    """Every event of calls, with the fields that say something."""
    return [
        (type(fact), {one.name: value for one in fields(fact) if _says(one, value := getattr(fact, one.name))})
        for fact in lab.events[since:]
        if not isinstance(fact, events.SettingsInForce | events.InstanceHeartbeat | events.CallsCounted)
    ]


def _says(one: Any, value: object) -> bool:
    return one.name not in OF_THE_TEXT and (one.default is MISSING or value != one.default)


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def test_call_with_fallback_and_breaker(lab: Lab) -> None:
    cache = Fallback(lambda: "old", name="cache", warning="up to 1 h old", data_age_s=3600.0)
    script = lab.script(BUSY, HttpError(500), "found", takes_s=0.25)
    where: dict[str, Any] = {"provider": "helios", "tool": "search", "region": "eu"}
    search = lab.recovery.guard(
        "search",
        breaker="index",
        idempotent=True,
        max_retries=1,
        attempt_timeout=5.0,
        settings=Settings(consecutive_failures=1),
        fallback=cache,
        **where,
    )(script)
    with lab.recovery.run("triage", source="main_agent"):
        assert (search(), search()) == ("old", "old")
        lab.clock.push(60.0)
        lab.recovery.sweep()
        assert search() == "found"
        lab.recovery.housekeep()
    failed = {"operation": "search", "breaker": "index", "retryable": True, "duration_s": 0.25, **where}
    moved = {"operation": "search", "breaker": "index", "calls": 1, "failures": 1, "failure_rate": 1.0}
    moved["last_category"] = "server_error"
    fell = {"operation": "search", "fallback": "cache", "level": 1, "breaker": "index"}
    fell |= {"warning": "up to 1 h old", "data_age_s": 3600.0}
    swapped = {"operation": "search", "kind": "fallback", "from_name": "search", "to_name": "cache"}
    assert told(lab) == [
        (events.RunStarted, {"name": "triage"}),
        (
            events.FailureClassified,
            failed
            | {"category": "rate_limited", "attempt": 1, "status_code": 429, "retry_after_s": 2.0, "request_id": "r-1"}
            | {"message": "HTTP 429", "error_code": "rate_limit_exceeded"},
        ),
        (events.GateClosed, {"operation": "search", "wait_s": 2.0, "category": "rate_limited"}),
        (
            events.RetryScheduled,
            {"operation": "search", "attempt": 2, "delay_s": 2.0, "delay_source": "retry_after", "max_retries": 1}
            | {"category": "rate_limited"},
        ),
        (events.GateOpened, {"operation": "search", "closed_s": 2.0, "category": "rate_limited"}),
        (
            events.FailureClassified,
            failed | {"category": "server_error", "attempt": 2, "status_code": 500, "message": "HTTP 500"},
        ),
        (
            events.BreakerStateChanged,
            moved
            | {"state": "open", "previous_state": "closed", "trigger": "consecutive_failures", "threshold": 1.0}
            | {"wait_s": 60.0},
        ),
        (events.FallbackActivated, fell | {"category": "server_error", "reason": "server_error"}),
        (events.DegradationStarted, swapped | {"reason": "server_error", "category": "server_error"}),
        (events.FallbackActivated, fell | {"reason": "breaker"}),
        (
            events.BreakerStateChanged,
            moved | {"state": "half_open", "previous_state": "open", "trigger": "wait_elapsed", "threshold": 0.5},
        ),
        (
            events.BreakerStateChanged,
            moved | {"state": "closed", "previous_state": "half_open", "trigger": "probe_succeeded", "threshold": 0.5},
        ),
        (events.DegradationEnded, swapped | {"duration_s": 60.25, "calls": 2}),
        (
            events.BreakerRejected,
            {"operation": "search", "breaker": "index", "state": "open", "count": 1, "window_s": 60.25},
        ),
        (events.RunFinished, {"name": "triage", "status": "degraded", "duration_s": 62.75, "attempts": 5}),
    ]


def test_call_of_a_chain_that_is_used_up(lab: Lab) -> None:
    chain = ModelChain("large", "small", overloads=1)
    script = lab.script(OVERLOADED, takes_s=0.25)
    answer = lab.recovery.guard("answer", kind="model", provider="helios", chain=chain, max_retries=0)(script)
    with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
        answer()
    failed = {"operation": "answer", "category": "overloaded", "retryable": True, "status_code": 529}
    failed |= {"message": "Overloaded", "duration_s": 0.25, "provider": "helios", "error_code": "overloaded_error"}
    switched = {"operation": "answer", "from_model": "large", "to_model": "small", "category": "overloaded"}
    assert told(lab) == [
        (events.RunStarted, {}),
        (events.FailureClassified, failed | {"attempt": 1, "breaker": "answer", "model": "large"}),
        (events.ModelFallback, switched | {"consecutive": 1, "provider": "helios"}),
        (events.FailureClassified, failed | {"attempt": 2, "breaker": "answer:small", "model": "small"}),
        (
            events.Exhausted,
            {"operation": "answer", "reason": "attempts", "attempts": 2, "rungs": ("retry", "fail")}
            | {"category": "overloaded", "duration_s": 0.5, "message": "Overloaded"},
        ),
        (events.RunFinished, {"status": "failed", "duration_s": 0.5, "attempts": 2}),
    ]


def test_call_of_an_optional_operation(lab: Lab) -> None:
    extra = lab.recovery.guard("extra", optional=True, max_retries=0)(lab.script(HttpError(500), "found", takes_s=0.25))
    for _ in range(2):
        with lab.recovery.run(source="main_agent"):
            extra()
    ends = [fields for kind, fields in told(lab) if kind is events.RunFinished]
    assert [(one["status"], one["duration_s"]) for one in ends] == [("degraded", 0.25), ("succeeded", 0.25)]
    left_out = {"operation": "extra", "kind": "withdrawn", "from_name": "extra"}
    assert [one for one in told(lab) if one[0] in (events.DegradationStarted, events.DegradationEnded)] == [
        (events.DegradationStarted, left_out | {"reason": "server_error", "category": "server_error"}),
        (events.DegradationEnded, left_out | {"duration_s": 0.25, "calls": 1}),
    ]


def test_call_that_stops_the_run(lab: Lab) -> None:
    denied = Response(403, {}, {"error": {"message": "no access to the ledger"}})
    pay = lab.recovery.guard("pay")(lab.script(denied))
    with pytest.raises(StopRun), lab.recovery.run(source="main_agent"):
        pay()
    stopped = [fields for kind, fields in told(lab) if kind is events.RunStopped]
    assert stopped == [
        {
            "operation": "pay",
            "reason": "permission",
            "category": "permission",
            "message": "no access to the ledger",
        }
    ]
