"""A breaker by itself, for code that wants nothing else of the runtime: the same rules, with a lock and a clock."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import ParamSpec, TypeVar

from recovery_ops.rules.breaker import Breaker, Imposed
from recovery_ops.rules.facts import Fact
from recovery_ops.rules.policy import FAIL_CLOSED, Knobs
from recovery_ops.rules.words import BREAKER_COUNTS, State
from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.errors import CircuitOpen
from recovery_ops.runtime.signals import classify

P = ParamSpec("P")
R = TypeVar("R")


class CircuitBreaker:
    """`breaker = CircuitBreaker("search")`, then `breaker.call(search, "x")`, `with breaker.attempt():` or `@breaker`.

    Counts what the rules count (`words.BREAKER_COUNTS`): the service's trouble, never the caller's mistakes. Raises
    CircuitOpen while it refuses. `on_fact` hears of every change. Thread-safe; a `Recovery` makes its own breakers.
    """

    def __init__(
        self,
        name: str,
        knobs: Knobs | None = None,
        *,
        clock: Clock | None = None,
        on_fact: Callable[[Fact], None] | None = None,
    ) -> None:
        self._breaker = Breaker(name, (knobs or Knobs()).over(FAIL_CLOSED))
        self._clock = clock or Clock()
        self._on_fact = on_fact
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The breaker's name."""
        return self._breaker.name

    @property
    def state(self) -> State:
        """What holds for callers now."""
        with self._lock:
            self._tell(self._breaker.sweep(self._clock.now()))
            return self._breaker.state

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it, and count how it went."""
        with self.attempt():
            return function(*args, **kwargs)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """As a decorator."""

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            return self.call(function, *args, **kwargs)

        return guarded

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """The body is one attempt. Also in tasks: `with breaker.attempt(): await …`."""
        ticket, began = self._admitted()
        try:
            yield
        except BaseException as error:
            self._ended(error, ticket, began)
            raise
        self._ended(None, ticket, began)

    def trip(self, seconds: float = 3600.0) -> None:
        """Refuse every call for so long; then one probe decides."""
        with self._lock:
            now = self._clock.now()
            held = Imposed(id="local", mode=State.FORCED_OPEN, ends_at=now + seconds)
            self._tell(self._breaker.impose(held, now))

    def release(self) -> None:
        """End a trip before its time."""
        with self._lock:
            self._tell(self._breaker.impose(None, self._clock.now()))

    def reset(self) -> None:
        """Close with a fresh window."""
        with self._lock:
            self._tell(self._breaker.reset(self._clock.now()))

    def _admitted(self) -> tuple[int, float]:
        with self._lock:
            now = self._clock.now()
            admission = self._breaker.admit(now)
            self._tell(admission.facts)
        if admission.is_allowed:
            return admission.ticket, now
        retry_at = None
        if admission.retry_in_s is not None:
            retry_at = datetime.fromtimestamp(self._clock.wall(), UTC) + timedelta(seconds=admission.retry_in_s)
        raise CircuitOpen(self.name, breaker=self.name, state=admission.state, retry_at=retry_at)

    def _ended(self, error: BaseException | None, ticket: int, began: float) -> None:
        failure = classify(error, now=self._clock.wall()) if isinstance(error, Exception) else None
        with self._lock:
            now, breaker = self._clock.now(), self._breaker
            if error is None:
                self._tell(breaker.succeed(now, duration_s=now - began, ticket=ticket))
            elif failure is not None and failure.category in BREAKER_COUNTS:
                self._tell(breaker.fail(now, failure.category, duration_s=now - began, ticket=ticket))
            else:
                breaker.ignore(ticket)

    def _tell(self, facts: tuple[Fact, ...]) -> None:
        if self._on_fact is not None:
            for fact in facts:
                self._on_fact(fact)
