"""Ends a task at the deadline of its run or step: one timer for all the calls in it. Threads are never interrupted.

The deadline may move while the timer runs (a person is waited for), so it is looked at again before anything is ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from recovery_ops.runtime.aio.libraries import is_under_trio

if TYPE_CHECKING:
    import asyncio

_COARSENESS_S = 0.002
_LOOK_AGAIN_S = 1.0
"""How often a timer that has run out is looked at while something holds it."""


class RunTimer(Protocol):
    """A running timer."""

    def moved(self) -> None:
        """The deadline is another now."""

    def stop(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """End it, from whatever task or thread; True if `error` is nothing but the timer's own cancel.

        That cancel is then taken back. False in any task but the one that is timed: its error is another's.
        """


def start_timer(left_s: Callable[[], float]) -> RunTimer | None:
    """Time the task we are in; None in a thread without one. `left_s` is what is left; infinity while it is held."""
    if is_under_trio():
        return _TrioTimer(left_s)
    library: Any = sys.modules.get("asyncio")  # without it there is no task
    try:
        task = library.current_task() if library is not None else None
    except (RuntimeError, AttributeError):  # half loaded by another thread
        return None
    return None if task is None else _AsyncioTimer(left_s, task)


class _AsyncioTimer:
    def __init__(self, left_s: Callable[[], float], task: asyncio.Task[Any]) -> None:
        self._left_s = left_s
        self._task = task
        self._loop = task.get_loop()
        self._has_expired = False
        # Counted now and not when it fires: a cancel of somebody else that came before the deadline is still theirs.
        self._cancels_before = task.cancelling()
        self._handle = self._loop.call_later(_finite(left_s()), self._fire)

    def moved(self) -> None:
        """It is looked at when the timer fires."""

    def stop(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        library: Any = sys.modules["asyncio"]
        if library._get_running_loop() is not self._loop:
            with suppress(RuntimeError):  # the loop has been closed, and its timers with it
                self._loop.call_soon_threadsafe(self._give_up)
            return False
        is_here = library.current_task() is self._task
        return self._give_up() and is_here and isinstance(error, library.CancelledError)

    def _give_up(self) -> bool:
        """Cancel nothing any more; True where the timer's cancel was the only one, and is taken back."""
        self._handle.cancel()
        return self._has_expired and self._task.uncancel() <= self._cancels_before

    def _fire(self) -> None:
        left = self._left_s()
        if left > _COARSENESS_S:
            self._handle = self._loop.call_later(_finite(left), self._fire)
            return
        self._has_expired = True
        self._task.cancel()


def _finite(left_s: float) -> float:
    return _LOOK_AGAIN_S if left_s == inf else max(0.0, left_s)


class _TrioTimer:
    def __init__(self, left_s: Callable[[], float]) -> None:
        self._trio: Any = sys.modules["trio"]
        self._left_s = left_s
        self._task = self._trio.lowlevel.current_task()
        self._token = self._trio.lowlevel.current_trio_token()
        self._scope = self._trio.CancelScope()
        self._look()
        self._scope.__enter__()

    def moved(self) -> None:
        """From any thread: only trio's own may touch its scopes."""
        self._do(self._look)

    def stop(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if _trio_task(self._trio) is not self._task:
            self.moved()  # trio leaves a scope only where it was entered; from here on this one never expires
            return False
        self._scope.__exit__(kind, error, trace)
        return bool(self._scope.cancelled_caught)

    def _look(self) -> None:
        self._scope.deadline = self._trio.current_time() + self._left_s()

    def _do(self, what: Callable[[], None]) -> None:
        if _trio_task(self._trio) is not None:
            what()
            return
        with suppress(self._trio.RunFinishedError):
            self._token.run_sync_soon(what)


def _trio_task(trio: Any) -> object:
    """The task that trio runs in this thread; None where it runs none."""
    try:
        return trio.lowlevel.current_task()
    except RuntimeError:
        return None
