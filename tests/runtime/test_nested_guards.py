"""Guards inside guards: one of them retries, and each is called as it was given."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import CallsCounted, FallbackActivated, RetryScheduled
from recovery_ops.runtime import Fallback, RecoveryExhausted, Settings, ToolRegistry, attempt, build_tool
from recovery_ops.runtime.testing import Lab
from tests.support.examples import examples

SAFE: Any = {"idempotent": True}
NEVER_OPENS = Settings(consecutive_failures=0, failure_rate_threshold=0.0, slow_call_rate_threshold=0.0)


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def reading(lab: Lab, script: Callable[..., Any], name: str = "inner", **said: Any) -> Any:
    return lab.recovery.guard(name, **{**SAFE, **said})(script)


def exhausted(call: Callable[[], Any]) -> RecoveryExhausted:
    with pytest.raises(RecoveryExhausted) as caught:
        call()
    return caught.value


def test_exhausted_inner_guard_is_not_retried(lab: Lab) -> None:
    script = lab.script(ConnectionError())
    inner = reading(lab, script)
    outer = reading(lab, inner, "outer")
    with lab.recovery.run(source="main_agent"):
        assert exhausted(outer).category is Category.NETWORK
    assert script.calls == 4


def test_exhausted_inner_task_is_not_retried(lab: Lab) -> None:
    script = lab.script_async(ConnectionError())
    inner = reading(lab, script)

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())

    outer = reading(lab, both, "outer")
    with lab.recovery.run(source="main_agent"):
        exhausted(lambda: asyncio.run(outer()))
    assert script.calls == 4


def test_exhausted_inner_guard_goes_to_the_fallback(lab: Lab) -> None:
    inner = reading(lab, lab.script(ConnectionError()))
    outer = reading(lab, inner, "outer", fallback=Fallback(lambda: "cached", name="cache"))
    with lab.recovery.run(source="main_agent"):
        assert outer() == "cached"
    assert {fact.operation for fact in lab.events_of(RetryScheduled)} == {"inner"}


def test_wrapped_exhaustion_is_not_retried(lab: Lab) -> None:
    script = lab.script(ConnectionError())
    inner = reading(lab, script)

    def wrapped() -> None:
        try:
            inner()
        except RecoveryExhausted as error:
            raise TimeoutError("the shelf is away") from error

    with lab.recovery.run(source="main_agent"):
        exhausted(reading(lab, wrapped, "outer"))
    assert script.calls == 4


def test_unwrapped_last_error_is_not_retried(lab: Lab) -> None:
    script = lab.script(ConnectionError())
    inner = reading(lab, script)

    def unwrapped() -> None:
        raise exhausted(inner).last_error or AssertionError

    with lab.recovery.run(source="main_agent"):
        exhausted(reading(lab, unwrapped, "outer"))
    assert script.calls == 4


def test_error_object_raised_again_is_retried(lab: Lab) -> None:
    error = ConnectionError()
    with lab.recovery.run(source="main_agent"):
        exhausted(reading(lab, lab.script(error)))
        lab.clock.push(1.0)
        script = lab.script(error, error, "found")
        assert reading(lab, script, "other")() == "found"
    assert script.calls == 3


def test_inner_guard_that_tried_once_is_retried(lab: Lab) -> None:
    script = lab.script(ConnectionResetError(), "done")
    write = lab.recovery.guard("write")(script)
    with lab.recovery.run(source="main_agent"):
        assert reading(lab, write, "outer")() == "done"
    assert script.calls == 2


def test_inner_refusal_goes_to_the_outer_fallback(lab: Lab) -> None:
    inner = reading(lab, lab.script("never"))
    outer = reading(lab, inner, "outer", fallback=Fallback(lambda: "cached", name="cache"))
    lab.trip("inner", seconds=20.0)
    with lab.recovery.run(source="main_agent"):
        assert outer() == "cached"
    assert lab.waits == []


@settings(max_examples=examples(40, 400))
@given(retries=st.lists(st.integers(0, 3), min_size=1, max_size=4), is_async=st.booleans())
def test_one_guard_of_a_nest_retries(retries: list[int], is_async: bool) -> None:
    """The innermost that may retry; those inside it call once, those around it do not multiply."""
    lab = Lab(reraise=False)
    script: Any = lab.script_async(ConnectionError()) if is_async else lab.script(ConnectionError())
    guarded: Any = script
    for number, most in enumerate(retries):
        guarded = reading(lab, guarded, f"level{number}", max_retries=most, settings=NEVER_OPENS)
    with lab.recovery.run(source="main_agent"):
        exhausted((lambda: asyncio.run(guarded())) if is_async else guarded)
    assert script.calls == 1 + next((most for most in retries if most), 0)


# Fallbacks, as they were given


def decorated(function: Callable[..., Any], seen: list[str]) -> Any:
    """As a decorator that sets a tenant, or checks a token, decorates it."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        seen.append("decorator")
        return function(*args, **kwargs)

    return inside


@pytest.fixture(params=[False, True], ids=["thread", "task"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def failing(lab: Lab, is_async: bool, fallback: Any) -> Callable[[], Any]:
    """A call of an operation that fails, with this fallback."""
    script = lab.script_async(400) if is_async else lab.script(400)
    guarded: Any = lab.recovery.guard("search", fallback=fallback, idempotency_key=lambda: "primary")(script)

    def call() -> Any:
        with lab.recovery.run(source="main_agent"):
            return asyncio.run(guarded.outcome()) if is_async else guarded.outcome()

    return call


def test_decorated_fallback_keeps_its_decorators(lab: Lab, is_async: bool) -> None:
    seen: list[str] = []
    cache = lab.recovery.guard("cache")(lab.script_async("cached") if is_async else lab.script("cached"))
    found = failing(lab, is_async, decorated(cache, seen))()
    assert (found.value, found.fallback, seen) == ("cached", "cache", ["decorator"])


def test_bound_fallback_keeps_its_object(lab: Lab) -> None:
    class Shelf:
        @lab.recovery.guard("cache")
        def look(self) -> Any:
            return self

    shelf: Any = Shelf()
    assert failing(lab, False, shelf.look)().value is shelf


def test_fallback_asks_its_own_fallback(lab: Lab, is_async: bool) -> None:
    def script(*outcomes: Any) -> Any:
        return lab.script_async(*outcomes) if is_async else lab.script(*outcomes)

    store = Fallback(script("stored"), name="store", warning="up to 1 h old")
    cache = lab.recovery.guard("cache", fallback=store)(script(404))
    assert failing(lab, is_async, cache)().value == "stored"
    assert [fact.operation for fact in lab.events_of(FallbackActivated)] == ["cache", "search"]


def test_fallback_retries_by_its_own_plan(lab: Lab, is_async: bool) -> None:
    outcomes = (TimeoutError(), "cached")
    script = lab.script_async(*outcomes) if is_async else lab.script(*outcomes)
    cache = lab.recovery.guard("cache", idempotent=True, max_retries=1)(script)
    assert failing(lab, is_async, cache)().value == "cached"
    assert script.calls == 2


def test_fallback_sends_its_own_key(lab: Lab, is_async: bool) -> None:
    keys: list[str | None] = []

    def look() -> None:
        keys.append(attempt().idempotency_key)

    async def look_async() -> None:
        look()

    guard: Any = lab.recovery.guard("cache", idempotency_key=lambda: "second")
    failing(lab, is_async, guard(look_async if is_async else look))()
    assert keys == ["second"]


def test_left_out_fallback_gives_way_to_the_next(lab: Lab, is_async: bool) -> None:
    script = lab.script_async if is_async else lab.script
    cache = lab.recovery.guard("cache", optional=True)(script(404))
    found = failing(lab, is_async, [cache, Fallback(script("stored"), name="store")])()
    assert (found.value, found.fallback) == ("stored", "store")


def test_left_out_fallback_keeps_the_failure(lab: Lab, is_async: bool) -> None:
    script = lab.script_async if is_async else lab.script
    cache = lab.recovery.guard("cache", optional=True)(script(404))
    assert exhausted(failing(lab, is_async, cache)).category is Category.INVALID_REQUEST


def test_cancelled_fallback_cancels_the_call(lab: Lab) -> None:
    cache = lab.recovery.guard("cache")(lab.script(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        failing(lab, False, [cache, Fallback(lab.script("never"), name="store")])()


@pytest.mark.parametrize("turns", range(8))
def test_cancel_at_every_turn_of_a_fallback_passes(lab: Lab, turns: int) -> None:
    async def look() -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "cached"

    cache = lab.recovery.guard("cache", fallback=Fallback(lab.script_async("never"), name="store"))(look)
    search: Any = lab.recovery.guard("search", fallback=cache)(lab.script_async(400))

    async def cancelled() -> str:
        task = asyncio.create_task(search())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            return str(await task)
        except asyncio.CancelledError:
            return "cancelled"

    assert asyncio.run(cancelled()) == ("cached" if turns > 5 else "cancelled")
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    assert sum(fact.in_flight for fact in lab.events_of(CallsCounted)) == 0


def test_fallback_of_another_client_is_called(lab: Lab) -> None:
    other = Lab("other", reraise=False)
    cache = other.recovery.guard("cache")(other.script("cached"))
    assert failing(lab, False, cache)().value == "cached"


def test_guarded_fallback_is_counted_once(lab: Lab, is_async: bool) -> None:
    cache = lab.recovery.guard("cache")(lab.script_async("cached") if is_async else lab.script("cached"))
    failing(lab, is_async, cache)()
    lab.clock.push(10.0)
    lab.recovery.housekeep()
    counted = {fact.operation: fact for fact in lab.events_of(CallsCounted)}
    assert (counted["cache"].calls, counted["cache"].attempts, counted["cache"].successes) == (1, 1, 1)
    assert counted["cache"].in_flight == counted["search"].in_flight == 0


def test_tool_calls_a_guarded_fallback_as_given(lab: Lab, is_async: bool) -> None:
    seen: list[str] = []
    store = Fallback(lambda page: f"stored {page}", name="store")
    cache = lab.recovery.guard("cache", fallback=store)(lab.script(404))
    tool = build_tool("look", lab.script(400), require_permission=False, fallback=decorated(cache, seen))
    use = {"type": "tool_use", "id": "1", "name": "look", "input": {"page": "7"}}
    registry = ToolRegistry(lab.recovery, tools=[tool])
    (result,) = asyncio.run(registry.run_tools_async([use])) if is_async else registry.run_tools([use])
    assert (result.value, result.fallback, seen) == ("stored 7", "cache", ["decorator"])
