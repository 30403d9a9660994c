"""Event loops whose time passes at once when nothing is left to do: deadlines and waits are met exactly, in no time."""

from __future__ import annotations

import asyncio
import selectors
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import trio
import trio.testing

from recovery_ops.runtime.process.clock import Clock


class LoopClock(Clock):
    """The time of the loop that runs us; 0 outside of any."""

    def now(self) -> float:
        """Seconds on the loop's clock."""
        loop = asyncio._get_running_loop()
        if loop is not None:
            return loop.time()
        try:
            return trio.current_time()
        except RuntimeError:
            return 0.0

    def wall(self) -> float:
        """Seconds since the epoch."""
        return 1_800_000_000.0 + self.now()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop that never sleeps."""

    def __init__(self) -> None:
        self.at = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds since it was made."""
        return self.at


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0 if timeout is not None else None)
        if not found and timeout:
            self._loop.at += timeout
        return found


Main = Callable[[], Coroutine[Any, Any, Any]]


def run_asyncio(main: Main) -> Any:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def run_trio(main: Main) -> Any:
    """`trio.run` in virtual time."""
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


RUNNERS: dict[str, Callable[[Main], Any]] = {"asyncio": run_asyncio, "trio": run_trio}


async def pause(seconds: float) -> None:
    """Sleep, under whatever library runs us."""
    await (trio.sleep(seconds) if asyncio._get_running_loop() is None else asyncio.sleep(seconds))


@types.coroutine
def interrupted(work: Awaitable[Any], at: int, act: Callable[[Any], object]) -> Generator[Any, Any, tuple[int, Any]]:
    """Await `work`; when it suspends for the time `at` (from 1), call `act` with what it waits for.

    Returns how often it suspended, and its result.
    """
    steps, inner = 0, work.__await__()
    step: Callable[[], Any] = lambda: inner.send(None)  # noqa: E731
    while True:
        try:
            waits_for = step()
        except StopIteration as end:
            return steps, end.value
        steps += 1
        if steps == at:
            act(waits_for)
        try:
            value = yield waits_for
        except BaseException as error:
            step = _thrower(inner, error)
        else:
            step = _sender(inner, value)


def _thrower(inner: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: inner.throw(error)


def _sender(inner: Any, value: object) -> Callable[[], Any]:
    return lambda: inner.send(value)
