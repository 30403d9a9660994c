"""A deadline that is moved with every message and almost never comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ResettableTimer:
    """Rings at a moment on the event loop's clock, unless that is put off or taken back before.

    It keeps one timer, which looks again when it fires too early: a timer for each of a thousand messages would cost
    more than the messages. `set` may only move the moment later. For one event loop.
    """

    __slots__ = ("_at", "_loop", "_ring", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop, self._ring = loop, ring
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: float) -> None:
        """Ring at `at`, in seconds on the loop's clock."""
        self._at = at
        if self._timer is None:
            self._timer = self._loop.call_at(at, self._look)

    def off(self) -> None:
        """Do not ring."""
        self._at = None

    def close(self) -> None:
        """Do not ring, and leave nothing behind on the loop."""
        self._at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._at is None:
            return
        if self._loop.time() < self._at:
            self._timer = self._loop.call_at(self._at, self._look)
            return
        self._at = None
        self._ring()
