"""A cancel from outside wins over every timer of our own, wherever in a call, run, deadline or wait it comes."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import trio

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Pause
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime import (
    Deadline,
    DeadlineExceeded,
    Part,
    Recovery,
    RecoveryExhausted,
    ToolRegistry,
    ToolResult,
    build_tool,
)
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.testing import RecordedEvents
from tests.support.virtual_time import RUNNERS, LoopClock, interrupted, pause, run_asyncio

CLEAN_UP_S = 0.2


class World:
    """A client in the loop's time, and operations that are slow to answer and slow to clean up."""

    def __init__(self) -> None:
        self.read = RecordedEvents()
        self.recovery = Recovery(
            "cancelled",
            url="",
            clock=LoopClock(),
            sink=self.read,
            chance=lambda: 0.0,
            is_background_work_wanted=False,
            reraise=False,
        )
        self.begun = 0

    def call(self, name: str = "search", *, takes_s: float = 1.0, fails: int = 0, **said: Any) -> Any:
        """A guarded call that fails so many times, and cleans up when it is ended."""
        left = [fails]

        async def work() -> str:
            self.begun += 1
            try:
                await pause(takes_s)
            finally:
                await self.clean_up()
            left[0] -= 1
            if left[0] >= 0:
                raise TimeoutError
            return "found"

        said = {"idempotent": True, "base_delay": 0.1, **said}
        return self.recovery.guard(name, **said)(work)

    async def clean_up(self) -> None:
        """What an operation does before it ends, also when it is cancelled."""
        with trio.CancelScope(shield=True) if asyncio._get_running_loop() is None else nullcontext():
            await pause(CLEAN_UP_S)

    def check_nothing_is_left(self) -> None:
        """Every run has ended once, and no call is in flight."""
        self.recovery.flush()
        begun = [runs for fact, runs in self._with_runs() if isinstance(fact, events.RunStarted)]
        ended = [runs for fact, runs in self._with_runs() if isinstance(fact, events.RunFinished)]
        assert sorted(begun) == sorted(ended)
        assert self.recovery.runs_in_flight == {}
        cells = [cell for one in self.recovery.operations.values() for cell in one.cells.values()]
        assert [cell.waiting for cell in cells if cell.waiting] == []
        counted = {one.operation: one.in_flight for one in self.read.all if isinstance(one, events.CallsCounted)}
        assert {name: number for name, number in counted.items() if number} == {}

    def _with_runs(self) -> list[tuple[Any, str]]:
        return list(zip(self.read.all, self.read.runs, strict=True))


async def retried(world: World) -> None:
    async with world.recovery.run(source="main_agent", timeout=100.0):
        await world.call(takes_s=0.1, fails=2)()


async def timed_out(world: World) -> None:
    async with world.recovery.run(source="main_agent", timeout=100.0):
        await world.call(attempt_timeout=0.3, max_retries=2)()


async def late(world: World) -> None:
    async with world.recovery.run("late", source="main_agent", timeout=0.3):
        await world.call()()


async def in_a_step(world: World) -> None:
    async with world.recovery.run(source="main_agent", timeout=100.0):
        with pytest.raises(DeadlineExceeded):
            async with Deadline(0.3):
                await world.call(attempt_timeout=0.25, max_retries=0)()
        await pause(0.1)


async def in_a_guard(world: World) -> None:
    inner = world.call("inner", attempt_timeout=0.15, fails=1, takes_s=0.1)

    async def outer() -> str:
        return str(await inner())

    await world.recovery.guard("outer", attempt_timeout=0.35, idempotent=True)(outer)()


async def gathered(world: World) -> None:
    parts = {
        "slow": Part.supplementary(world.call("slow", attempt_timeout=0.3)),
        "quick": Part.foundational(world.call("quick", takes_s=0.05)),
    }
    async with world.recovery.run(source="main_agent", timeout=100.0):
        await world.recovery.gather_async(parts, timeout=0.4)


async def asked(world: World) -> None:
    async with world.recovery.run(source="main_agent", timeout=1.0), Deadline(0.5):
        await world.recovery.escalate_async("May it?", timeout=2.0)
        await pause(0.1)


async def paused(world: World) -> None:
    world.recovery.on_pause = "wait"
    world.recovery.apply(Desired(revision=1, pauses=(Pause(id="p", service="cancelled"),)))
    async with Deadline(2.0, clock=world.recovery.clock), world.recovery.run(source="main_agent"):
        await pause(0.1)


WORK: dict[str, Callable[[World], Awaitable[None]]] = {
    one.__name__: one for one in (retried, timed_out, late, in_a_step, in_a_guard, gathered, asked, paused)
}
WAYS = pytest.mark.parametrize("work", WORK.values(), ids=WORK)


def steps_of(work: Callable[[World], Awaitable[None]], library: str) -> int:
    """How often the work suspends when nobody cancels it."""
    found = [0]

    async def main() -> None:
        def count(_: object) -> None:
            found[0] += 1

        for at in range(1, 200):
            before = found[0]
            with suppress(Exception):  # it may well fail: how often it waits is what counts
                await interrupted(work(World()), at, count)
            if found[0] == before:
                return

    RUNNERS[library](main)
    assert found[0] > 0
    return found[0]


@WAYS
@pytest.mark.parametrize("when", ["as it waits", "as the wait ends"])
def test_cancel_at_any_await_wins_in_asyncio(work: Callable[[World], Awaitable[None]], when: str) -> None:
    for at in range(1, steps_of(work, "asyncio") + 1):
        world, begun = World(), [0]

        async def main(world: World = world, begun: list[int] = begun, at: int = at) -> None:
            def cancel(waits_for: Any) -> None:
                def do(_: object = None) -> None:
                    begun[0] = world.begun
                    task.cancel()

                if when == "as it waits" or waits_for is None:
                    do()
                else:
                    waits_for.add_done_callback(do)

            async def body() -> None:
                await interrupted(work(world), at, cancel)

            task = asyncio.get_running_loop().create_task(body())
            await asyncio.wait([task])
            assert task.cancelled(), task
            # Parts that were handed to the loop before the cancel may begin before it is heard.
            assert work is gathered or world.begun == begun[0]
            await asyncio.sleep(0)
            scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
            idle = [line.handle for one in world.recovery.operations.values() for line in _lines(one)]
            assert [one for one in scheduled if not one.cancelled() and one not in idle] == []

        run_asyncio(main)
        world.check_nothing_is_left()


def _lines(operation: Any) -> list[Any]:
    return list(operation.timers._lines.values()) if operation.timers is not None else []


@WAYS
def test_cancel_at_any_await_wins_in_trio(work: Callable[[World], Awaitable[None]]) -> None:
    for at in range(1, steps_of(work, "trio") + 1):
        world, begun = World(), [0]

        async def main(world: World = world, begun: list[int] = begun, at: int = at) -> None:
            has_ended = [False]
            with trio.CancelScope() as scope:

                def cancel(_: object) -> None:
                    begun[0] = world.begun
                    scope.cancel()

                await interrupted(work(world), at, cancel)
                has_ended[0] = True
            assert work is gathered or world.begun == begun[0]
            assert scope.cancelled_caught or has_ended[0]  # a clean-up that is shielded may be all that was left
            assert current_scope() is None

        RUNNERS["trio"](main)
        world.check_nothing_is_left()


@pytest.mark.parametrize("kind", ["call", "run", "step"])
def test_clean_up_past_a_deadline_keeps_the_outer_cancel(kind: str) -> None:
    world = World()

    async def work() -> None:
        if kind == "call":
            await world.call(attempt_timeout=0.3)()
        elif kind == "run":
            async with world.recovery.run(source="main_agent", timeout=0.3):
                await world.call()()
        else:
            async with Deadline(0.3, clock=world.recovery.clock):
                await world.call()()

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert (task.cancelling(), world.begun) == (1, 1)

    run_asyncio(main)
    world.check_nothing_is_left()
    ends = [one.status for one in world.read.all if isinstance(one, events.RunFinished)]
    assert ends == ([RunStatus.CANCELLED] if kind == "run" else [])


@pytest.mark.parametrize("kind", ["call", "run", "step"])
def test_deadline_in_a_clean_up_is_met_after_a_cancel(kind: str) -> None:
    """What a cancelled task does in the end has deadlines too: the cancel from before is not taken for theirs."""
    world, met = World(), []

    async def clean_up() -> None:
        if kind == "call":
            with pytest.raises(RecoveryExhausted) as ended:
                await world.call(attempt_timeout=0.3, max_retries=0)()
            assert ended.value.category == "timeout"
        elif kind == "run":
            with pytest.raises(DeadlineExceeded):
                async with world.recovery.run(source="main_agent", timeout=0.3):
                    await pause(9.0)
        else:
            with pytest.raises(DeadlineExceeded):
                async with Deadline(0.3, clock=world.recovery.clock):
                    await pause(9.0)
        met.append(kind)

    async def work() -> None:
        try:
            await pause(9.0)
        finally:
            await clean_up()

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert met == [kind]

    run_asyncio(main)
    world.check_nothing_is_left()


class Broken(ConnectionError):
    """What a clean-up meets."""


def breaking(world: World, fails: int = 0, **said: Any) -> Any:
    """A guarded call whose clean-up fails when it is cancelled; the error takes the place of the cancel."""
    left = [fails]

    async def work() -> str:
        world.begun += 1
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionRefusedError
        try:
            await pause(1.0)
        except asyncio.CancelledError:
            raise Broken from None
        return "found"

    return world.recovery.guard("breaking", idempotent=True, base_delay=0.01, max_retries=3, **said)(work)


@pytest.mark.parametrize("timeout", [None, 60.0])
@pytest.mark.parametrize("fails", [0, 2])
def test_error_of_a_cancelled_clean_up_is_not_retried(timeout: float | None, fails: int) -> None:
    world = World()

    async def work() -> None:
        async with world.recovery.run(source="main_agent"):
            await breaking(world, fails, attempt_timeout=timeout, fallback=world.call("other"))()

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert isinstance(task.exception(), Broken)

    run_asyncio(main)
    assert world.begun == fails + 1
    world.check_nothing_is_left()


def test_error_of_a_cancelled_retry_ends_a_dispatch() -> None:
    world = World()

    async def retry() -> None:
        world.begun += 1
        try:
            await pause(1.0)
        except asyncio.CancelledError:
            raise Broken from None

    async def work() -> None:
        await world.recovery.dispatch_failure_async(
            TimeoutError(), operation="booking", retry=retry, idempotent=True, foreground=True
        )

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert isinstance(task.exception(), Broken)

    run_asyncio(main)
    assert world.begun == 1


def test_clean_up_of_a_cancelled_task_is_retried() -> None:
    world = World()

    async def work() -> None:
        async with world.recovery.run(source="main_agent"):
            try:
                await pause(9.0)
            finally:
                assert await world.call(fails=2, attempt_timeout=5.0)() == "found"

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run_asyncio(main)
    assert world.begun == 3
    world.check_nothing_is_left()


def test_timeouts_of_a_clean_up_are_retried() -> None:
    world = World()

    async def work() -> None:
        async with world.recovery.run(source="main_agent"):
            try:
                await pause(9.0)
            finally:
                with pytest.raises(RecoveryExhausted) as ended:
                    await world.call(attempt_timeout=0.5, max_retries=2)()
                assert (ended.value.category, ended.value.attempts) == ("timeout", 3)

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(work())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run_asyncio(main)


@pytest.mark.parametrize("options", [{}, {"idempotency_key": lambda: "k"}, {"attempt_timeout": 5.0}])
@pytest.mark.parametrize("fails", [0, 1])
@pytest.mark.parametrize("is_async", [True, False])
def test_coroutine_closed_in_another_context_ends_quietly(fails: int, options: dict[str, Any], is_async: bool) -> None:
    """What the collector does with a task that nobody awaits, when its loop is gone."""
    world, left = World(), [fails]

    async def work() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise TimeoutError
        await asyncio.Event().wait()

    async def main() -> None:
        called: Any = work if is_async else lambda: work()  # noqa: PLW0108  # a function that is not async itself
        call = world.recovery.guard("search", idempotent=True, base_delay=0.0, max_retries=1, **options)(called)
        coroutine: Any = call()
        contextvars.Context().run(lambda: coroutine.send(None))
        coroutine.close()

    run_asyncio(main)
    world.check_nothing_is_left()


def slow_tools(world: World, ended: list[str], *names: str) -> ToolRegistry:
    """Tools that run side by side, and are slow to clean up."""

    def handler(name: str) -> Callable[[], Any]:
        async def work() -> str:
            try:
                await pause(1.0)
                return "found"
            finally:
                await pause(CLEAN_UP_S)
                ended.append(name)

        return work

    registry = ToolRegistry(world.recovery)
    for name in names:
        registry.add(build_tool(name, handler(name), idempotent=True, require_permission=False, input_schema=ANY))
    return registry


ANY: dict[str, Any] = {"type": "object"}


@pytest.mark.parametrize("cancels", [1, 2, 5])
def test_cancelled_turn_leaves_no_tool_behind(cancels: int) -> None:
    world, ended = World(), list[str]()
    registry = slow_tools(world, ended, "one", "two")

    async def main() -> None:
        uses = [ToolUse(name, name, {}) for name in ("one", "two")]
        turn = asyncio.get_running_loop().create_task(registry.run_tools_async(uses))
        await asyncio.sleep(0.5)
        for _ in range(cancels):
            turn.cancel()
            await asyncio.sleep(0.01)
        await asyncio.wait([turn])
        assert turn.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_asyncio(main)
    assert len(ended) == 2 or cancels > 1  # a second cancel ends the clean-up itself
    world.check_nothing_is_left()


def test_own_cancel_of_a_tool_in_a_clean_up_is_a_result() -> None:
    world, found = World(), list[ToolResult]()

    async def work() -> None:
        raise asyncio.CancelledError

    registry = ToolRegistry(world.recovery)
    registry.add(build_tool("undo", work, idempotent=True, require_permission=False, input_schema=ANY))

    async def main() -> None:
        async def agent() -> None:
            try:
                await pause(9.0)
            finally:
                found.append(await registry.run_tool_async(ToolUse("u", "undo", {})))

        task = asyncio.get_running_loop().create_task(agent())
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run_asyncio(main)
    assert [one.kind.value for one in found] == ["cancelled"]
