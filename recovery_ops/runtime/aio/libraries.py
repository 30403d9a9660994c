"""What differs between asyncio and trio: how a task waits for what another thread may say, and how it is timed out.

Neither is imported here before it is used: who runs under it has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from recovery_ops.rules.resilience.steps import Cause

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator


class Changes(Protocol):
    """Announces changes to the tasks that wait for one."""

    def subscribe(self, who: object, wake: Callable[[], None], since: int) -> None:
        """Have `wake` called, from whatever thread, when something has changed since."""

    def unsubscribe(self, who: object) -> None:
        """End a subscription."""


class TaskLibrary(Protocol):
    """The two things a driver of tasks needs."""

    async def wait(self, waker: Changes, delay_s: float, since: int) -> Cause:
        """Suspend this task until the time is over or something has changed since."""

    def timeout(self, deadline_s: float | None) -> AbstractAsyncContextManager[Any]:
        """Raise TimeoutError (or the library's own) in the body after so many seconds; None never."""


class _Asyncio:
    async def wait(self, waker: Changes, delay_s: float, since: int) -> Cause:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Cause] = loop.create_future()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has been closed meanwhile
                loop.call_soon_threadsafe(_settle, future, Cause.CHANGED)

        timer = loop.call_later(delay_s, _settle, future, Cause.ELAPSED)
        try:
            waker.subscribe(future, wake, since)
            return await future
        finally:
            timer.cancel()
            waker.unsubscribe(future)

    def timeout(self, deadline_s: float | None) -> AbstractAsyncContextManager[Any]:
        import asyncio

        return asyncio.timeout(deadline_s)


class _Trio:
    def __init__(self, trio: Any) -> None:
        self._trio = trio

    async def wait(self, waker: Changes, delay_s: float, since: int) -> Cause:
        trio = self._trio
        changed, token = trio.Event(), trio.lowlevel.current_trio_token()

        def wake() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(changed.set)

        try:
            waker.subscribe(changed, wake, since)
            with trio.move_on_after(delay_s):
                await changed.wait()
                return Cause.CHANGED
            return Cause.ELAPSED
        finally:
            waker.unsubscribe(changed)

    @asynccontextmanager
    async def timeout(self, deadline_s: float | None) -> AsyncIterator[None]:
        if deadline_s is None:
            yield
            return
        with self._trio.fail_after(max(0.0, deadline_s)):
            yield


_ASYNCIO = _Asyncio()


def current_library() -> TaskLibrary:
    """The library that runs this task."""
    return _Trio(sys.modules["trio"]) if is_under_trio() else _ASYNCIO


def is_under_trio() -> bool:
    """Whether trio runs this task. Costs next to nothing where nobody has imported it."""
    trio = sys.modules.get("trio")
    if trio is None:
        return False
    try:
        trio.lowlevel.current_task()
    except (RuntimeError, AttributeError):
        return False
    return True


def is_in_task() -> bool:
    """Whether this thread runs an event loop now: what needs that loop cannot be done in another thread."""
    asyncio = sys.modules.get("asyncio")
    return (asyncio is not None and asyncio._get_running_loop() is not None) or is_under_trio()


def _settle(future: asyncio.Future[Cause], cause: Cause) -> None:
    if not future.done():
        future.set_result(cause)
