"""Nested deadlines: an inner one can only be sooner than the one around it."""

from __future__ import annotations

from contextvars import Token
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import Self

from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.errors import DeadlineExceeded
from recovery_ops.runtime.run import CURRENT, Scope, clock_in_force


class Deadline:
    """`with Deadline(10.0) as deadline:` – what is guarded inside is given no more than that, waits included.

    `remaining_s` is what is left (never below 0), `has_passed` whether nothing is. A task is cancelled when nothing is
    left, and DeadlineExceeded raised here. Threads are not interrupted: hand `remaining_s` to whatever can wait no
    longer. Monotonic clock. `cancels` False only narrows what guarded calls are given: whoever says so ends the rest.
    """

    def __init__(self, seconds: float, *, clock: Clock | None = None, cancels: bool = True) -> None:
        if not 0 < seconds < inf:
            raise ValueError("a deadline is a positive number of seconds")
        self._seconds = seconds
        self._clock = clock or clock_in_force()
        self._cancels = cancels
        self._at = inf
        self._token: Token[Scope | None] | None = None
        self._outer: Scope | None = None
        self._inner: Scope | None = None

    @property
    def at(self) -> float:
        """When it passes, on the clock's `now()`; infinity before it has begun."""
        return self._inner.deadline_at if self._inner else self._at

    @property
    def remaining_s(self) -> float:
        """What is left, in seconds."""
        return max(0.0, self.at - self._clock.now())

    @property
    def has_passed(self) -> bool:
        """Whether nothing is left."""
        return self._clock.now() >= self.at

    def __enter__(self) -> Self:
        outer = CURRENT.get()
        own = self._clock.now() + self._seconds
        self._at = min(own, outer.deadline_at) if outer else own
        # The same run with an earlier end: its counters and notes stay shared.
        self._outer = outer
        self._inner = (
            replace(outer, deadline_at=self._at, attempts=0, outer=outer, timer=None, holds=0)
            if outer
            else Scope(source="", deadline_at=self._at, clock=self._clock)
        )
        self._token = CURRENT.set(self._inner)
        if self._cancels:
            self._inner.time(self._clock.now)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT.reset(self._token)
            self._token = None
        if self._outer is not None and self._inner is not None:
            self._outer.attempts += self._inner.attempts
        if self._inner is not None and self._inner.stop_timer(kind, error, trace):
            raise DeadlineExceeded("the step", was_begun=True) from error

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
