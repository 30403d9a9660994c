"""Nested deadlines: an inner one can only be sooner than the one around it."""

from __future__ import annotations

from datetime import timedelta
from math import inf
from types import TracebackType
from typing import Self

from recovery_ops.runtime.errors import ConfigurationError, DeadlineExceeded
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.runs.context import RunContext, clock_in_force, current_scope

Duration = float | timedelta
"""Seconds, or a timedelta."""


class Deadline:
    """Limits the guarded calls inside to `duration`, in seconds or as a timedelta, with their waits.

    An inner deadline ends no later than the outer one. At the end a task is cancelled and DeadlineExceeded raised here.
    A thread is not interrupted: pass `remaining_s` to the transport. Monotonic clock. `cancels=False` only limits
    guarded calls and cancels nothing. Rules: docs/guide/guarding.md#life-of-a-call

    >>> with Deadline(10.0) as outer, Deadline(60.0) as inner:
    ...     inner.remaining_s <= 10.0
    True
    """

    def __init__(self, duration: Duration, *, clock: Clock | None = None, cancels: bool = True) -> None:
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
        if not 0 < seconds < inf:
            raise ConfigurationError(f"a deadline is a positive number of seconds or a timedelta, not {duration!r}")
        self._seconds = seconds
        self._clock = clock or clock_in_force()
        self._cancels = cancels
        self._inner: RunContext | None = None

    @property
    def at(self) -> float:
        """When it passes, on the clock's `now()`; infinity before it has begun."""
        return self._inner.deadline_at if self._inner else inf

    @property
    def remaining_s(self) -> float:
        """Remaining time in seconds; never below 0."""
        return max(0.0, self.at - self._clock.now())

    @property
    def has_passed(self) -> bool:
        """Whether the deadline has passed."""
        return self._clock.now() >= self.at

    def __enter__(self) -> Self:
        if self._inner is not None and not self._inner.is_over:
            raise ConfigurationError("a deadline is entered once at a time: each `with` needs one of its own")
        outer, own = current_scope(), self._clock.now() + self._seconds
        at = min(own, outer.deadline_at) if outer else own
        clock = outer.clock if outer else self._clock
        self._inner = RunContext(source="", deadline_at=at, clock=clock, outer=outer, now=self._clock.now)
        # The same run with an earlier end: its counters and notes are shared.
        self._inner.belong_to(outer and outer.own_run)
        if self._cancels:
            self._inner.time(self._clock.now)
        self._inner.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is not None and self._inner.leave(kind, error, trace):
            raise DeadlineExceeded("the step", was_begun=True) from error

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
