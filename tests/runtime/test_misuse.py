"""What can never work is refused where it is written, in words that say what should stand there."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from recovery_ops.rules.policy.model import Settings
from recovery_ops.runtime import CircuitBreaker, ConfigurationError, Fallback, ModelChain, build_tool
from recovery_ops.runtime.testing import Lab

NAN, INF = float("nan"), float("inf")


def answer() -> str:
    return "ok"


FAULTS: list[tuple[str, Any, str]] = [
    ("max_retries", "3", "a whole number from 0 to 20, not '3'"),
    ("max_retries", True, "a whole number from 0 to 20, not True"),
    ("max_retries", 2.0, "a whole number from 0 to 20, not 2.0"),
    ("max_retries", -1, "a whole number from 0 to 20, not -1"),
    ("base_delay", -1, "a number from 0 to 3600 s, not -1"),
    ("attempt_timeout", NAN, "a number from 0 to 86400 s, not nan"),
    ("attempt_timeout", INF, "a number from 0 to 86400 s, not inf"),
    ("fallback_allowed", "no", "true or false, not 'no'"),
]
IN_SETTINGS: list[tuple[str, Any, str]] = [
    ("wait_duration_in_open_s", NAN, "a number from 0.01 to 86400 s, not nan"),
    ("failure_rate_threshold", 7, "a number from 0 to 1, not 7"),
    ("sliding_window_type", "x", "one of count_based, time_based, not 'x'"),
    ("sliding_window_size", 20.0, "a whole number from 1 to 10000, not 20.0"),
    ("persistent", 1, "true or false, not 1"),
]


def told(field: str, what: str) -> str:
    return f"{field} must be {what}"


@pytest.mark.parametrize(("field", "value", "what"), FAULTS)
def test_a_guard_says_which_number_is_wrong(field: str, value: Any, what: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Lab().recovery.guard("q", **{field: value})(answer)
    assert str(refused.value) == f"guard q: {told(field, what)}"


@pytest.mark.parametrize(("field", "value", "what"), FAULTS)
def test_a_tool_says_it_too(field: str, value: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        build_tool("q", answer, **{field: value})


@pytest.mark.parametrize(("field", "value", "what"), IN_SETTINGS)
class TestSettings:
    def test_at_a_guard(self, field: str, value: Any, what: str) -> None:
        with pytest.raises(ConfigurationError) as refused:
            Lab().recovery.guard("q", settings=Settings(**{field: value}))(answer)
        assert str(refused.value) == f"guard q: {told(f'settings.{field}', what)}"

    def test_of_a_tool(self, field: str, value: Any, what: str) -> None:
        with pytest.raises(ConfigurationError) as refused:
            build_tool("q", answer, settings=Settings(**{field: value}))
        assert str(refused.value) == f"tool q: {told(f'settings.{field}', what)}"

    def test_of_a_breaker(self, field: str, value: Any, what: str) -> None:
        with pytest.raises(ConfigurationError) as refused:
            CircuitBreaker("q", Settings(**{field: value}))
        assert str(refused.value) == f"breaker q: {told(f'settings.{field}', what)}"


def test_each_fault_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"max_retries must .*; base_delay must .*; settings\.jitter must "):
        Lab().recovery.guard("q", max_retries=99, base_delay=-1, settings=Settings(jitter=2))(answer)


def test_settings_are_settings() -> None:
    said: Any = {"jitter": 0.1}
    with pytest.raises(ConfigurationError, match="guard q: settings must be a Settings, not a dict"):
        Lab().recovery.guard("q", settings=said)(answer)


def test_a_refused_guard_leaves_no_operation_behind() -> None:
    lab = Lab()
    with pytest.raises(ConfigurationError):
        lab.recovery.guard("q", max_retries=-1)(answer)
    assert lab.recovery.guard("q", max_retries=1)(answer)() == "ok"


def test_what_is_switched_off_calls_straight_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    assert Lab().recovery.guard("q", max_retries=-1)(answer)() == "ok"


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"overloads": -1}, "overloads must be from 0 to 100"),
        ({"overloads": "3"}, "overloads must be a whole number"),
        ({"cooldown_s": NAN}, "cooldown_s must be a number"),
        ({"cooldown_s": -1.0}, "cooldown_s must be from 0.01 to 86400 s"),
    ],
)
def test_a_chain_of_models(said: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        ModelChain("large", "small", **said)


def streamed() -> Iterator[str]:
    yield "a"


async def streamed_to_tasks() -> AsyncIterator[str]:
    yield "a"


class Streaming:
    def __call__(self) -> Iterator[str]:
        yield "a"

    def told(self) -> Iterator[str]:
        yield "a"


STREAMS = [streamed, streamed_to_tasks, Streaming(), Streaming().told, functools.partial(streamed)]


@pytest.mark.parametrize("function", STREAMS, ids=["sync", "async", "object", "method", "partial"])
class TestGenerators:
    def test_a_guard_refuses_them(self, function: Callable[..., Any]) -> None:
        with pytest.raises(ConfigurationError, match=r"guard q: .*generator.* return a list"):
            Lab().recovery.guard("q")(function)

    def test_a_tool_refuses_them(self, function: Callable[..., Any]) -> None:
        with pytest.raises(ConfigurationError, match=r"tool q: .*generator.* return a list"):
            build_tool("q", function)

    def test_as_fallbacks_too(self, function: Callable[..., Any]) -> None:
        for fallback in (function, Fallback(function)):
            with pytest.raises(ConfigurationError, match=r"fallback of q: .*generator"):
                Lab().recovery.guard("q", fallback=fallback)(answer)
            with pytest.raises(ConfigurationError, match=r"fallback of q: .*generator"):
                build_tool("q", answer, fallback=fallback)
