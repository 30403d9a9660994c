"""Waits that a cancel or a new desired state ends at once: they hang on an event, they are not sleeps."""

from __future__ import annotations

import asyncio
import threading

from recovery_ops.rules.steps import Cause


class Waker:
    """Wakes everyone who waits in this process, threads and tasks alike, when what they wait under has changed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._generation = 0
        self._tasks: dict[asyncio.Future[Cause], asyncio.AbstractEventLoop] = {}

    def wait(self, delay_s: float) -> Cause:
        """Blocks this thread for at most `delay_s` seconds."""
        with self._changed:
            generation = self._generation
            was_changed = self._changed.wait_for(lambda: self._generation != generation, timeout=delay_s)
        return Cause.CHANGED if was_changed else Cause.ELAPSED

    async def wait_async(self, delay_s: float) -> Cause:
        """Suspends this task for at most `delay_s` seconds; a cancel of the task passes through."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Cause] = loop.create_future()
        with self._changed:
            self._tasks[future] = loop
        timer = loop.call_later(delay_s, _settle, future, Cause.ELAPSED)
        try:
            return await future
        finally:
            timer.cancel()
            with self._changed:
                self._tasks.pop(future, None)

    def wake_all(self) -> None:
        """Everyone who waits looks again."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()
            waiting = list(self._tasks.items())
        for future, loop in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, future, Cause.CHANGED)


def _settle(future: asyncio.Future[Cause], cause: Cause) -> None:
    if not future.done():
        future.set_result(cause)
