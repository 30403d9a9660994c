"""A chain of models behind a guard: what asks the next model, each model's own breaker, and when the first is back."""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Override, Reset
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import (
    CallRejected,
    CircuitOpen,
    Model,
    ModelChain,
    Needs,
    RecoveryExhausted,
    Response,
    Settings,
    attempt,
)
from recovery_ops.runtime.testing import HttpError, Lab
from tests.support.examples import examples

MISSING = HttpError(Response(404, {}, {"error": {"code": "model_not_found"}}))
OVERFLOW = HttpError(
    Response(
        400,
        {},
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}},
    )
)
USED_UP = [
    *(HttpError(status) for status in (500, 502, 503, 529, 429, 402)),
    *(TimeoutError(), ConnectionRefusedError(111, "refused"), ConnectionResetError(104, "reset"), MISSING, OVERFLOW),
]
KEPT = [HttpError(400), HttpError(404), ValueError("a bug"), KeyError("x"), FileNotFoundError("x")]


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


class Models:
    """What each model answers: always the same."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self) -> str:
        model = attempt().model or "large"
        self.asked.append(model)
        answer = self.answers.get(model, model)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    async def in_task(self) -> str:
        return self()


def guarded(lab: Lab, models: Models, *names: Any, is_async: bool = False, **said: Any) -> Any:
    function: Any = models.in_task if is_async else models
    call: Any = lab.recovery.guard("ask", kind="model", chain=ModelChain(*(names or ("large", "small"))), **said)(
        function
    )
    return (lambda: asyncio.run(call())) if is_async else call


@pytest.mark.parametrize("source", ["main_agent", "titles"])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", USED_UP, ids=str)
def test_used_up_model_asks_the_next(lab: Lab, error: Exception, is_async: bool, source: str) -> None:
    models = Models(large=error)
    with lab.recovery.run(source=source):
        assert guarded(lab, models, is_async=is_async)() == "small"
    (fact,) = lab.events_of(events.ModelFallback)
    assert (fact.from_model, fact.to_model) == ("large", "small")
    (began,) = lab.events_of(events.DegradationStarted)
    assert (began.kind, began.to_name) == ("model", "small")


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("x"), FileNotFoundError("x")], ids=str)
def test_faulty_request_asks_no_other_model(lab: Lab, error: Exception) -> None:
    models = Models(large=error)
    with pytest.raises(RecoveryExhausted):
        guarded(lab, models)()
    assert models.asked == ["large"]


def test_silent_model_is_called_once(lab: Lab) -> None:
    models = Models(large=TimeoutError())
    with lab.recovery.run(source="main_agent"):
        guarded(lab, models)()
    assert models.asked == ["large", "small"]


def test_first_model_is_asked_again(lab: Lab) -> None:
    models = Models(large=HttpError(500))
    call = guarded(lab, models)
    assert call() == "small"
    lab.clock.push(60)
    models.answers.clear()
    assert (call(), call()) == ("large", "large")
    assert len(lab.events_of(events.DegradationEnded)) == 1


@pytest.mark.parametrize(
    ("error", "rest_s"),
    [
        (HttpError(402), 900.0),
        (MISSING, 60.0),
        (HttpError(Response(402, {"retry-after": "9" * 20}, None)), 900.0),
        (HttpError(Response(402, {"retry-after": "300"}, None)), 300.0),
        (HttpError(Response(529, {"retry-after": "300"}, None)), 300.0),
        (HttpError(Response(400, {"retry-after": "300"}, {"error": {"type": "overloaded_error"}})), 300.0),
    ],
)
def test_spent_or_missing_model_rests(lab: Lab, error: Exception, rest_s: float) -> None:
    models = Models(large=error)
    call = guarded(lab, models)
    assert {call() for _ in range(9)} == {"small"}
    assert models.asked.count("large") == 1
    lab.clock.push(rest_s)
    models.answers.clear()
    assert call() == "large"
    assert len(lab.events_of(events.DegradationEnded)) == 1


def test_overflow_skips_models_that_are_not_larger(lab: Lab) -> None:
    models = Models(large=OVERFLOW)
    names = ("large", Model(name="tiny", context_tokens=8000), Model(name="huge", context_tokens=1_000_000))
    assert guarded(lab, models, *names)() == "huge"
    models.asked.clear()
    models.answers.clear()
    assert guarded(lab, models, *names)() == "large"


def test_next_model_must_meet_the_needs(lab: Lab) -> None:
    models = Models(large=HttpError(500))
    names = ("large", Model(name="plain", has_tools=False), "small")
    assert guarded(lab, models, *names, needs=lambda: Needs(tools=True))() == "small"


def test_open_breaker_of_one_model_asks_the_next(lab: Lab) -> None:
    models = Models(large=HttpError(500))
    call = guarded(lab, models, max_retries=0)
    for _ in range(5):
        assert call() == "small"
    breaker, other = lab.recovery.breaker("ask"), lab.recovery.breaker("ask:small")
    assert breaker is not None
    assert other is not None
    assert (breaker.state, other.state) == (State.OPEN, State.CLOSED)
    models.asked.clear()
    assert (call(), models.asked) == ("small", ["small"])
    lab.clock.push(60.0)
    assert (call(), models.asked) == ("small", ["small", "large", "small"])  # a failed probe asks the next, too


def test_open_breakers_of_all_models_refuse(lab: Lab) -> None:
    models = Models(large=HttpError(500), small=HttpError(500))
    call = guarded(lab, models, max_retries=0)
    for _ in range(5):
        with pytest.raises(RecoveryExhausted):
            call()
    with pytest.raises(CircuitOpen):
        call()


def test_all_models_then_the_fallback(lab: Lab) -> None:
    models = Models(large=HttpError(500), small=TimeoutError())
    call = guarded(lab, models, max_retries=0, fallback=lambda: "cached")
    assert call() == "cached"
    assert models.asked == ["large", "small"]


def _override(operation: str) -> Desired:
    held = Override(
        id="ov",
        mode=State.FORCED_OPEN,
        scope=Scope(operation=operation),
        reason="a test",
        by="ana",
        starts_at=0.0,
        expires_at=2e9,
        revision=1,
    )
    return Desired(revision=1, overrides=(held,))


@pytest.mark.parametrize("is_applied_first", [False, True])
def test_trip_of_operation_stops_every_model(lab: Lab, is_applied_first: bool) -> None:
    models = Models()
    if is_applied_first:
        lab.recovery.apply(_override("ask"))
    call = guarded(lab, models)
    lab.recovery.apply(_override("ask"))
    with pytest.raises(CircuitOpen):
        call()
    assert not models.asked


def test_trip_of_one_model_skips_it(lab: Lab) -> None:
    models = Models(large=HttpError(500))
    call = guarded(lab, models, "large", "small", "tiny")
    lab.recovery.apply(_override("ask:small"))
    assert call() == "tiny"


def test_reset_of_operation_closes_every_model(lab: Lab) -> None:
    models = Models(large=HttpError(500), small=HttpError(500))
    call = guarded(lab, models, max_retries=0)
    for _ in range(5):
        with pytest.raises(RecoveryExhausted):
            call()
    lab.recovery.apply(Desired(revision=1, resets=(Reset(scope=Scope(operation="ask"), revision=1),)))
    models.answers.clear()
    assert call() == "large"


def _answers(call: Any) -> bool:
    try:
        call()
    except (RecoveryExhausted, CallRejected):
        return False
    return True


OUTCOMES = st.sampled_from([None, *USED_UP, *KEPT])


@given(st.lists(st.tuples(OUTCOMES, OUTCOMES, OUTCOMES, st.sampled_from([0.0, 1.0, 70.0, 1000.0])), max_size=8))
@example(
    [
        (HttpError(500), HttpError(500), HttpError(500), 0.0),
        (HttpError(404), HttpError(402), HttpError(500), 0.0),
        (HttpError(500), None, HttpError(500), 0.0),
    ]
)  # the breaker of the last model opens between its two attempts
@settings(max_examples=examples(50, 500))
def test_any_outcomes_ask_each_model_in_order(steps: list[tuple[Any, Any, Any, float]]) -> None:
    """One pass through the chain, from front to back; a model that answers is the last; every degradation ends."""
    lab, names = Lab(reraise=False), ("large", "small", "tiny")
    models = Models()
    call = guarded(lab, models, *names, settings=Settings(max_retries=1))
    for large, small, tiny, after_s in steps:
        lab.clock.push(after_s)
        given_ = {"large": large, "small": small, "tiny": tiny}
        models.answers = {name: error for name, error in given_.items() if error is not None}
        models.asked.clear()
        with lab.recovery.run(source="main_agent"):
            is_answered = _answers(call)
        if models.asked:
            assert is_answered == (models.asked[-1] not in models.answers)
        assert len(list(groupby(models.asked))) == len({*models.asked}), "no model is asked again after another"
        assert all(models.asked.count(name) <= 2 for name in names)
    lab.clock.push(2000.0)
    models.answers = {}
    assert call() == "large"
    assert len(lab.events_of(events.DegradationStarted)) == len(lab.events_of(events.DegradationEnded))
    assert call() == "large"
