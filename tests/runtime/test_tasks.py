"""Guards in tasks: call deadlines with one timer, cancels that stay cancels, asyncio and trio alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime import Recovery, RecoveryExhausted, StopRun
from recovery_ops.runtime.testing import RecordedEvents


@pytest.fixture
def recovery() -> Recovery:
    return Recovery("tasks", url="", sink=RecordedEvents(), is_background_work_wanted=False, reraise=False)


def stuck(recovery: Recovery, sleep: Callable[[float], Any], **said: Any) -> Any:
    """An operation that never answers by itself and may take a hundredth of a second."""

    @recovery.guard("stuck", idempotent=True, max_retries=0, attempt_timeout=0.01, **said)
    async def call() -> None:
        await sleep(3600.0)

    return call


class TestAsyncio:
    def test_a_call_is_cancelled_at_its_deadline(self, recovery: Recovery) -> None:
        with pytest.raises(RecoveryExhausted) as failed:
            asyncio.run(stuck(recovery, asyncio.sleep)())
        assert failed.value.category == "timeout"
        assert isinstance(failed.value.last_error, TimeoutError)

    def test_many_calls_share_a_timer_and_each_ends(self, recovery: Recovery) -> None:
        call = stuck(recovery, asyncio.sleep, settings=None)

        async def main() -> list[Any]:
            return await asyncio.gather(*(call() for _ in range(20)), return_exceptions=True)

        assert all(isinstance(one, Exception) for one in asyncio.run(main()))

    def test_quick_calls_are_not_touched(self, recovery: Recovery) -> None:
        @recovery.guard("quick", attempt_timeout=5.0)
        async def quick(number: int) -> int:
            await asyncio.sleep(0)
            return number

        async def main() -> list[int]:
            return await asyncio.gather(*(quick(number) for number in range(50)))

        assert asyncio.run(main()) == list(range(50))

    def test_somebody_elses_cancel_stays_a_cancel(self, recovery: Recovery) -> None:
        @recovery.guard("slow", attempt_timeout=3600.0)
        async def slow() -> None:
            await asyncio.sleep(3600.0)

        async def main() -> None:
            task = asyncio.create_task(slow())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())

    def test_a_task_is_usable_after_a_timeout(self, recovery: Recovery) -> None:
        call = stuck(recovery, asyncio.sleep)

        async def main() -> str:
            with pytest.raises(RecoveryExhausted):
                await call()
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            await asyncio.sleep(0)
            return "alive"

        assert asyncio.run(main()) == "alive"

    def test_an_edited_deadline_holds_for_the_next_call(self, recovery: Recovery) -> None:
        @recovery.guard("slow", idempotent=True, max_retries=0, attempt_timeout=3600.0)
        async def slow() -> None:
            await asyncio.sleep(3600.0)

        policy = parse_policy({"rules": [{"id": "r", "scope": {}, "settings": {"call_deadline_s": 0.01}}]})
        recovery.apply(Desired(revision=1, policy=policy))
        with pytest.raises(RecoveryExhausted):
            asyncio.run(slow())


class TestTrio:
    def test_guards_retries_and_results(self, recovery: Recovery) -> None:
        outcomes = iter([TimeoutError(), "ok"])

        @recovery.guard("search", idempotent=True, base_delay=0.001)
        async def search() -> str:
            await trio.lowlevel.checkpoint()
            outcome = next(outcomes)
            if isinstance(outcome, Exception):
                raise outcome
            return str(outcome)

        async def main() -> str:
            async with recovery.run(source="main_agent"):
                return await search()

        assert trio.run(main) == "ok"

    def test_a_call_is_cancelled_at_its_deadline(self, recovery: Recovery) -> None:
        with pytest.raises(RecoveryExhausted) as failed:
            trio.run(stuck(recovery, trio.sleep))
        assert failed.value.category == "timeout"

    def test_a_cancel_in_a_wait_stays_a_cancel(self, recovery: Recovery) -> None:
        @recovery.guard("search", idempotent=True, base_delay=3000.0, settings=None, attempt_timeout=2000.0)
        async def search() -> None:
            raise TimeoutError

        async def main() -> bool:
            with trio.move_on_after(0.01) as scope:
                async with recovery.run(source="main_agent", timeout=1e6):
                    await search()
            return scope.cancelled_caught

        assert trio.run(main)
        assert recovery.cell_of("search", "main_agent").waiting == 0

    def test_a_change_wakes_a_waiting_task(self, recovery: Recovery) -> None:
        waits = threading.Event()

        @recovery.guard("search", idempotent=True, base_delay=30.0)
        async def search() -> None:
            waits.set()
            raise TimeoutError

        def change() -> None:
            assert waits.wait(10.0)
            policy = parse_policy({"rules": [{"id": "r", "scope": {}, "settings": {"max_retries": 0}}]})
            while not done.is_set():
                recovery.apply(Desired(revision=1, policy=policy))

        async def main() -> None:
            async with recovery.run(source="main_agent"):
                await search()

        done = threading.Event()
        thread = threading.Thread(target=change)
        thread.start()
        try:
            with pytest.raises((RecoveryExhausted, StopRun)):
                trio.run(main)
        finally:
            done.set()
            thread.join(10.0)
