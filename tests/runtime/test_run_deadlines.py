"""The deadline of a run or step ends a task in time, under asyncio and trio, with one timer for all its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

from recovery_ops.rules import events
from recovery_ops.rules.enums import RunStatus
from recovery_ops.runtime import Deadline, DeadlineExceeded, Recovery
from recovery_ops.runtime.testing import Lab, RecordedEvents

LIBRARIES: dict[str, Callable[[Callable[[], Awaitable[Any]]], Any]] = {
    "asyncio": lambda main: asyncio.run(main()),  # type: ignore[arg-type]  # every main here is a coroutine function
    "trio": trio.run,
}


@pytest.fixture
def read() -> RecordedEvents:
    return RecordedEvents()


@pytest.fixture
def recovery(read: RecordedEvents) -> Recovery:
    return Recovery("timed", url="", sink=read, is_background_work_wanted=False)


@pytest.fixture(params=LIBRARIES)
def play(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return LIBRARIES[request.param]


async def hangs() -> None:
    await (asyncio.Event().wait() if _in_asyncio() else trio.sleep_forever())


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def within(recovery: Recovery, how: str, seconds: float) -> AbstractAsyncContextManager[Any]:
    return Deadline(seconds) if how == "step" else recovery.run("task", source="main_agent", timeout=seconds)


@pytest.mark.parametrize("how", ["step", "run"])
@pytest.mark.parametrize("is_guarded", [True, False])
def test_what_hangs_is_ended(recovery: Recovery, play: Callable[..., Any], how: str, is_guarded: bool) -> None:
    call = recovery.guard("search")(hangs) if is_guarded else hangs

    async def main() -> None:
        async with within(recovery, how, 0.02):
            await call()

    with pytest.raises(TimeoutError) as ended:
        play(main)
    assert isinstance(ended.value, DeadlineExceeded)
    assert str(ended.value) == f"{'the step' if how == 'step' else 'task'} was ended: its deadline has passed"
    assert repr(ended.value) == f"DeadlineExceeded({str(ended.value)!r})"


def test_it_ends_a_run_that_was_entered_without_async(recovery: Recovery, play: Callable[..., Any]) -> None:
    async def main() -> None:
        with recovery.run(timeout=0.02):
            await hangs()

    with pytest.raises(DeadlineExceeded):
        play(main)


def test_the_run_is_told_to_have_failed_and_nothing_is_in_flight(recovery: Recovery, read: RecordedEvents) -> None:
    call = recovery.guard("search")(hangs)

    async def main() -> None:
        async with recovery.run("task", source="main_agent", timeout=0.02):
            await call()

    with pytest.raises(DeadlineExceeded):
        asyncio.run(main())
    recovery.flush()
    (finished,) = (one for one in read.all if isinstance(one, events.RunFinished))
    assert finished.status is RunStatus.FAILED
    assert [one.in_flight for one in read.all if isinstance(one, events.CallsCounted)] == [0]


def test_an_inner_deadline_ends_the_inner_part_alone(recovery: Recovery, play: Callable[..., Any]) -> None:
    async def main() -> str:
        async with recovery.run(timeout=30.0):
            with pytest.raises(DeadlineExceeded):
                async with Deadline(0.02):
                    await hangs()
            return "went on"

    assert play(main) == "went on"


def test_the_outer_deadline_wins_over_a_later_inner_one(recovery: Recovery, play: Callable[..., Any]) -> None:
    async def main() -> None:
        async with recovery.run(timeout=0.02), Deadline(30.0):
            await hangs()

    with pytest.raises(DeadlineExceeded):
        play(main)


def test_a_cancel_of_somebody_else_stays_a_cancel(recovery: Recovery) -> None:
    async def run() -> None:
        async with recovery.run(timeout=30.0):
            await hangs()

    async def main() -> None:
        task = asyncio.ensure_future(run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_cancel_at_the_moment_of_the_deadline_is_not_swallowed(recovery: Recovery) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with recovery.run(timeout=0.02):
            try:
                await hangs()
            finally:
                task.cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_an_error_of_the_body_passes_as_it_is(recovery: Recovery, play: Callable[..., Any]) -> None:
    async def main() -> None:
        async with recovery.run(timeout=30.0):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(main)


def test_no_timer_is_left_behind(recovery: Recovery) -> None:
    async def main() -> None:
        for _ in range(3):
            async with recovery.run():
                pass
        scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        assert [handle for handle in scheduled if not handle.cancelled()] == []

    asyncio.run(main())


def test_inner_run_ends_no_later_than_the_outer() -> None:
    lab = Lab()
    with lab.recovery.run("outer", timeout=10), lab.recovery.run("inner", timeout=60):
        lab.clock.push(11.0)
        with pytest.raises(DeadlineExceeded):
            lab.recovery.guard("search")(lambda: "late")()
