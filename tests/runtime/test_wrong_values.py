"""Values that could never work are refused where they are written: of guards, clients and fallbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules.resilience.retry import RetryDecision
from recovery_ops.runtime import (
    ConfigurationError,
    Fallback,
    Limits,
    ModelChain,
    Part,
    Recovery,
    Response,
    Settings,
    retry_decision,
)
from recovery_ops.runtime.testing import Lab

BROKEN = ConnectionRefusedError("refused")


def search(query: str = "") -> str:
    return f"found {query}"


@pytest.mark.parametrize(
    "options",
    [
        {"optional": "no"},
        {"foundational": 1},
        {"read_only": "no"},
        {"idempotent": "no"},
        {"fallback_allowed": "no"},
        {"adjusts_max_tokens": 1},
        {"whole_streams": 1},
        {"finish_reason_required": 1},
        {"reraise": "no"},
        {"breaker": 3},
        {"fallback": 3},
        {"fallback": [search, 3]},
        {"chain": "large"},
        {"idempotency_key": "key-7"},
        {"refresh_credentials": "token"},
        {"refresh_evidence": 1},
        {"needs": ["tools"]},
        {"on_heartbeat": 1},
        {"ask_user": True},
    ],
)
def test_wrong_option_of_guard_is_refused(options: Any) -> None:
    lab = Lab()
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        lab.recovery.guard("q", **options)(search)
    assert not lab.recovery.operations


def test_empty_name_of_guard_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        Lab().recovery.guard("")


@pytest.mark.parametrize(
    "options",
    [
        {"on_pause": "waits"},
        {"reraise": "no"},
        {"limits": {"max_retries": 1}},
        {"on_retry": 3},
        {"control_flow": (3,)},
        {"control_flow": ("MyPause",)},
    ],
)
def test_wrong_option_of_client_is_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Recovery("q", url="", is_background_work_wanted=False, **options)


def test_one_type_of_control_flow_is_enough() -> None:
    class Pause(Exception):
        pass

    def pausing() -> None:
        raise Pause

    only: Any = Pause
    recovery = Recovery("q", url="", control_flow=only, is_background_work_wanted=False)
    with pytest.raises(Pause):
        recovery.guard("pausing", optional=True)(pausing)()


@pytest.mark.parametrize("options", [{"max_retries": -1}, {"max_override_s": -1.0}, {"allow_pause": "no"}])
def test_wrong_limit_is_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        Limits(**options)


def decided(failure: object = BROKEN, **said: Any) -> RetryDecision:
    options: Any = {"attempt": 1, "max_retries": 3, "foreground": True, **said}
    return retry_decision(failure, **options)  # type: ignore[arg-type]


def guarded_with(said: Settings) -> object:
    return Lab().recovery.guard("q", settings=said)(search)


def gathered(parts: Any, **said: Any) -> object:
    return Lab().recovery.gather(parts, **said)


def gathered_async(parts: Any) -> object:
    return asyncio.run(Lab().recovery.gather_async(parts))


WRONG: list[tuple[Callable[[Any], object], Any, str]] = [
    (decided, "timeout", "failure must be .*Failure"),
    (lambda said: decided(attempt=said), 0, "attempt must be a whole number from 1"),
    (lambda said: decided(max_retries=said), "3", "max_retries must be a number from 0"),
    (lambda said: decided(foreground=said), "no", "foreground must be of type bool"),
    (lambda said: decided(policy=said), {}, "policy must be of type OperationPolicy or Policy"),
    (gathered, [search], "parts must be a mapping .* list"),
    (gathered_async, [search], "parts must be a mapping .* list"),
    (gathered, {"price": 3}, "price must be a Part or a callable"),
    (gathered, {"price": Part(3)}, "price must be a Part or a callable"),  # type: ignore[arg-type]
    (lambda said: gathered({"price": search}, at_once=said), 0, "at_once must be a whole number from 1"),
    (Fallback, 3, "function must be a function"),
    (Fallback, None, "function must be a function"),
    (lambda said: Fallback(search, data_age_s=said), -1, "data_age_s must be a number from 0"),
    (lambda said: Fallback(search, data_age_s=said), float("nan"), "data_age_s must be a number from 0"),
    (lambda said: Fallback(search, name=said), 3, "name must be of type str"),
    (lambda said: Fallback(search, warning=said), 3, "warning must be of type str"),
    (lambda said: Fallback(search, read_only=said), "no", "read_only must be of type bool"),
    (lambda said: guarded_with(Settings(consecutive_failures=said)), -1, "consecutive_failures must be a whole number"),
    (lambda said: guarded_with(Settings(jitter=said)), "much", "jitter must be a number"),
    (lambda said: ModelChain("a", said), 3, "a name or a Model, not 3"),
    (ModelChain, "", "a name or a Model, not ''"),
    (Recovery, "", "service must be a name"),
    (Recovery, 3, "service must be of type str"),
    (lambda said: Recovery("q", url=said), 3, "url must be of type str"),
    (Lab().recovery.run, 3, "name must be of type str"),
    (lambda said: Lab().recovery.run(run_id=said), 3, "run_id must be of type str"),
    (lambda said: Lab().recovery.run(source=said), 3, "source must be of type str"),
    (lambda said: Lab().recovery.run(timeout=said), "5", "timeout must be a positive number"),
]


@pytest.mark.parametrize(("make", "wrong", "right"), WRONG)
def test_wrong_value_is_refused_with_right_one(make: Callable[[Any], object], wrong: Any, right: str) -> None:
    with pytest.raises(ValueError, match=right):
        make(wrong)


def test_retry_decision_classifies_an_exception() -> None:
    assert [decided(error).retry for error in (BROKEN, Response(503), ValueError("no"))] == [True, True, False]
