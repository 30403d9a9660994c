"""Ends a task at the deadline of its run or step: one timer for all the calls in it. Threads are never interrupted.

The deadline may move while the timer runs (a person is waited for), so it is looked at again before anything is ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from recovery_ops.runtime.concurrency.task_libraries import is_under_trio

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
        """Leave; True if `error` is nothing but the timer's own cancel, which is thereby taken back."""


def start_timer(left_s: Callable[[], float]) -> RunTimer | None:
    """Time the task we are in; None in a thread without one. `left_s` says how much is left; infinity holds it."""
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
        self._cancels_before = 0
        self._handle = self._loop.call_later(_finite(left_s()), self._fire)

    def moved(self) -> None:
        """It is looked at when the timer fires."""

    def stop(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._handle.cancel()
        if not self._has_expired:
            return False
        is_ours_alone = self._task.uncancel() <= self._cancels_before
        return is_ours_alone and isinstance(error, sys.modules["asyncio"].CancelledError)

    def _fire(self) -> None:
        left = self._left_s()
        if left > _COARSENESS_S:
            self._handle = self._loop.call_later(_finite(left), self._fire)
            return
        self._has_expired = True
        self._cancels_before = self._task.cancelling()
        self._task.cancel()


def _finite(left_s: float) -> float:
    return _LOOK_AGAIN_S if left_s == inf else max(0.0, left_s)


class _TrioTimer:
    def __init__(self, left_s: Callable[[], float]) -> None:
        self._trio: Any = sys.modules["trio"]
        self._left_s = left_s
        self._scope = self._trio.CancelScope()
        self.moved()
        self._scope.__enter__()

    def moved(self) -> None:
        self._scope.deadline = self._trio.current_time() + self._left_s()

    def stop(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._scope.__exit__(kind, error, trace)
        return bool(self._scope.cancelled_caught)
