"""Blocks of code under a guard: `with recovery.guard(…)` once, `recovery.attempts(…)` with retries; `recovery.call`."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from recovery_ops.rules.events import FailureClassified, RetryScheduled
from recovery_ops.runtime import CircuitOpen, ConfigurationError, RecoveryExhausted, RunCancelled, attempt
from recovery_ops.runtime.testing import HttpError, Lab

WAYS = ["thread", "task"]


@pytest.fixture
def lab() -> Lab:
    return Lab(default_source="main_agent")


def looped(lab: Lab, way: str, script: Any, **options: Any) -> Any:
    """The result of a block that is tried as often as the options allow."""
    found: list[Any] = []
    if way == "thread":
        for each in lab.recovery.attempts("search", **options):
            with each:
                found.append(script())
        return found[-1]

    async def go() -> None:
        async for each in lab.recovery.attempts("search", **options):
            async with each:
                found.append(script())

    asyncio.run(go())
    return found[-1]


@pytest.mark.parametrize("way", WAYS)
class TestAttempts:
    def test_block_is_retried_until_it_succeeds(self, lab: Lab, way: str) -> None:
        script = lab.script(TimeoutError(), 429, "found")
        assert looped(lab, way, script, read_only=True) == "found"
        assert lab.waits == [0.5, 1.0]
        assert [fact.attempt for fact in lab.events_of(RetryScheduled)] == [2, 3]

    def test_same_facts_as_a_guarded_function(self, lab: Lab, way: str) -> None:
        outcomes = [TimeoutError(), HttpError(503), TimeoutError(), TimeoutError()]
        with pytest.raises(RecoveryExhausted):
            looped(lab, way, lab.script(*outcomes), read_only=True)
        other = Lab(default_source="main_agent")
        with pytest.raises(RecoveryExhausted):
            other.recovery.guard("search", read_only=True)(other.script(*outcomes))()
        assert [repr(fact) for fact in lab.events] == [repr(fact) for fact in other.events]

    def test_untried_error_is_raised_where_it_was(self, lab: Lab, way: str) -> None:
        error = KeyError("x")
        with pytest.raises(KeyError) as caught:
            looped(lab, way, lab.script(error))
        assert caught.value is error
        assert lab.recovery.report(error) is not None

    def test_rejected_block_is_not_entered(self, lab: Lab, way: str) -> None:
        script = lab.script("found")
        lab.recovery.guard("search")(lab.script())
        lab.trip("search")
        with pytest.raises(CircuitOpen):
            looped(lab, way, script)
        assert script.calls == 0

    def test_block_of_a_cancelled_run_is_not_entered(self, lab: Lab, way: str) -> None:
        script = lab.script("found")
        with lab.recovery.run() as run:
            run.cancel()
            with pytest.raises(RunCancelled):
                looped(lab, way, script)
        assert script.calls == 0

    def test_cancelled_run_retries_no_block(self, lab: Lab, way: str) -> None:
        script = lab.script(TimeoutError(), "found")
        with lab.recovery.run() as run:

            def search() -> object:
                run.cancel()
                return script()

            with pytest.raises(RunCancelled):
                looped(lab, way, search, read_only=True, base_delay=0)
        assert script.calls == 1

    def test_block_knows_its_attempt(self, lab: Lab, way: str) -> None:
        seen: list[int] = []

        def look() -> str:
            seen.append(attempt().number)
            if len(seen) == 1:
                raise TimeoutError
            return "found"

        assert looped(lab, way, look, read_only=True) == "found"
        assert seen == [1, 2]
        assert attempt().number == 1

    def test_cancelled_block_ends_the_call(self, lab: Lab, way: str) -> None:
        with pytest.raises(KeyboardInterrupt):
            looped(lab, way, lab.script(KeyboardInterrupt()), read_only=True)
        assert lab.events_of(FailureClassified) == []


def test_left_loop_ends_the_call(lab: Lab) -> None:
    for each in lab.recovery.attempts("search", read_only=True):
        with each:
            raise TimeoutError
        break
    (cell,) = lab.recovery.operations["search"].cells.values()
    assert cell.waiting == 0


def test_attempt_without_with_is_refused(lab: Lab) -> None:
    with pytest.raises(ConfigurationError, match="with attempt"):
        for _ in lab.recovery.attempts("search"):
            pass


def test_async_block_is_cancelled_at_its_timeout() -> None:
    lab = Lab()

    async def go() -> None:
        async for each in lab.recovery.attempts("search", attempt_timeout=0.01):
            async with each:
                await asyncio.sleep(3600.0)

    with pytest.raises(TimeoutError):
        asyncio.run(go())


class TestBlock:
    def test_block_is_made_once_and_counted(self, lab: Lab) -> None:
        for _ in range(5):
            with pytest.raises(TimeoutError), lab.recovery.guard("search", read_only=True):
                raise TimeoutError
        assert lab.waits == []
        with pytest.raises(CircuitOpen), lab.recovery.guard("search", read_only=True):
            pytest.fail("the block was entered")

    def test_cancelled_run_enters_no_block(self, lab: Lab) -> None:
        with lab.recovery.run() as run:
            run.cancel()
            with pytest.raises(RunCancelled), lab.recovery.guard("search"):
                pytest.fail("the block was entered")

    def test_async_block_of_a_cancelled_run_is_not_entered(self, lab: Lab) -> None:
        async def go() -> None:
            async with lab.recovery.run() as run:
                run.cancel()
                async with lab.recovery.guard("search"):
                    pytest.fail("the block was entered")

        with pytest.raises(RunCancelled):
            asyncio.run(go())

    def test_nested_blocks_end_in_order(self, lab: Lab) -> None:
        outer, inner = lab.recovery.guard("outer"), lab.recovery.guard("inner")
        with outer as first, inner as second, outer:
            assert (first.number, second.number) == (1, 1)
        assert [cell.counts["successes"] for cell in lab.recovery.operations["outer"].cells.values()] == [2]

    def test_async_block_is_made_once(self, lab: Lab) -> None:
        async def go() -> None:
            async with lab.recovery.guard("search", read_only=True):
                raise TimeoutError

        with pytest.raises(TimeoutError):
            asyncio.run(go())
        assert lab.waits == []

    @pytest.mark.parametrize("options", [{"optional": True}, {"fallback": lambda: 1}])
    def test_block_has_no_other_result(self, lab: Lab, options: Any) -> None:
        with pytest.raises(ConfigurationError), lab.recovery.guard("search", **options):
            pass

    def test_block_needs_a_name(self, lab: Lab) -> None:
        with pytest.raises(ConfigurationError), lab.recovery.guard():
            pass


class TestCall:
    def test_call_is_guarded_under_the_functions_name(self, lab: Lab) -> None:
        def search(query: str) -> str:
            return query

        assert lab.recovery.call(search, "x") == lab.recovery.call(functools.partial(search), query="x") == "x"
        assert set(lab.recovery.operations) == {"search"}

    def test_call_takes_declared_settings(self, lab: Lab) -> None:
        def search() -> str:
            return "found"

        lab.recovery.guard("search", max_retries=2)(search)
        assert lab.recovery.call(search) == "found"

    def test_async_call_is_awaited(self, lab: Lab) -> None:
        async def search(query: str) -> str:
            return query

        assert asyncio.run(lab.recovery.call(search, "x")) == "x"

    def test_guarded_function_is_called_as_it_is(self, lab: Lab) -> None:
        search = lab.recovery.guard("other", read_only=True)(lab.script(TimeoutError(), "found"))
        assert lab.recovery.call(search) == "found"
