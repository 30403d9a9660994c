"""Waits that a cancel or a new desired state ends at once: they hang on an event, they are not sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable

from recovery_ops.rules.steps import Cause


class Waker:
    """Wakes everyone who waits in this process, threads and tasks alike, when what they wait under has changed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._generation = 0
        self._callbacks: dict[object, Callable[[], None]] = {}

    def wait(self, delay_s: float) -> Cause:
        """Blocks this thread for at most `delay_s` seconds."""
        with self._changed:
            generation = self._generation
            was_changed = self._changed.wait_for(lambda: self._generation != generation, timeout=delay_s)
        return Cause.CHANGED if was_changed else Cause.ELAPSED

    async def wait_async(self, delay_s: float) -> Cause:
        """Suspends this task for at most `delay_s` seconds; a cancel of the task passes through."""
        from recovery_ops.runtime.concurrency.task_libraries import current_library

        return await current_library().wait(self, delay_s)

    def wake_all(self) -> None:
        """Everyone who waits looks again."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()
            callbacks = list(self._callbacks.values())
        for wake in callbacks:
            wake()

    def subscribe(self, who: object, wake: Callable[[], None]) -> None:
        """Have `wake` called, from whatever thread, when something has changed. It must not raise."""
        with self._changed:
            self._callbacks[who] = wake

    def unsubscribe(self, who: object) -> None:
        """No longer."""
        with self._changed:
            self._callbacks.pop(who, None)
