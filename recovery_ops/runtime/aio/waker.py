"""Waits that a cancel or a new desired state ends at once: they hang on an event, they are not sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

from recovery_ops.rules.resilience.steps import Cause
from recovery_ops.runtime.aio.libraries import current_library

T = TypeVar("T")


class Waker:
    """Wakes everyone who waits in this process, threads and tasks alike, when what they wait under has changed.

    Whoever decides to wait reads `changes` before the decision and passes it as `since`: a change between the
    decision and the wait then ends the wait at once, instead of being missed.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._changes = 0
        self._callbacks: dict[object, Callable[[], None]] = {}

    @property
    def changes(self) -> int:
        """How many changes there were so far."""
        return self._changes

    def wait(self, delay_s: float, since: int) -> Cause:
        """Block this thread for at most `delay_s` seconds; not at all where something has changed since."""
        with self._changed:
            was_changed = self._changed.wait_for(lambda: self._changes != since, timeout=delay_s)
        return Cause.CHANGED if was_changed else Cause.ELAPSED

    async def wait_async(self, delay_s: float, since: int) -> Cause:
        """Suspend this task for at most `delay_s` seconds; a cancel of the task passes through."""
        return await current_library().wait(self, delay_s, since)

    def wake_all(self) -> None:
        """Everyone who waits looks again."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()
            callbacks = list(self._callbacks.values())
        for wake in callbacks:
            wake()

    def subscribe(self, who: object, wake: Callable[[], None], since: int) -> None:
        """Have `wake` called, from whatever thread, when something has changed since. It must not raise."""
        with self._changed:
            self._callbacks[who] = wake
            was_changed = self._changes != since
        if was_changed:
            wake()

    def after_fork_in_child(self) -> None:
        """Nobody waits here yet; another thread of the parent may have held the lock."""
        self._changed = threading.Condition()
        self._callbacks = {}

    def unsubscribe(self, who: object) -> None:
        """No longer."""
        with self._changed:
            self._callbacks.pop(who, None)


def waited(waker: Waker, looks: Generator[float, None, T]) -> T:
    """The result of `looks`, which yields how long this thread waits before it goes on."""
    with closing(looks):
        while True:
            since = waker.changes
            try:
                delay_s = next(looks)
            except StopIteration as end:
                result: T = end.value
                return result
            waker.wait(delay_s, since)


async def waited_async(waker: Waker, looks: Generator[float, None, T]) -> T:
    """`waited` in a task; a cancel of the task passes through."""
    with closing(looks):
        while True:
            since = waker.changes
            try:
                delay_s = next(looks)
            except StopIteration as end:
                result: T = end.value
                return result
            await waker.wait_async(delay_s, since)
