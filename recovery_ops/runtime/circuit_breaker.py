"""A breaker by itself, for code that wants nothing else of the runtime: the same rules, with a lock and a clock."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import ParamSpec, TypeVar

from recovery_ops.rules.breaker import Breaker, Imposed
from recovery_ops.rules.facts import Fact
from recovery_ops.rules.policy import FAIL_CLOSED, Knobs
from recovery_ops.rules.words import BREAKER_COUNTS, State
from recovery_ops.runtime import forks
from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.errors import CircuitOpen
from recovery_ops.runtime.misuse import check_numbers
from recovery_ops.runtime.notices import Notices
from recovery_ops.runtime.signals import classify

P = ParamSpec("P")
R = TypeVar("R")


class CircuitBreaker:
    """`breaker = CircuitBreaker("search")`, then `breaker.call(search, "x")`, `with breaker.attempt():` or `@breaker`.

    Counts what the rules count (`words.BREAKER_COUNTS`): the service's trouble, never the caller's mistakes. Raises
    CircuitOpen while it refuses, and NotConfigured at once for knobs that no policy may hold. `on_fact` hears of every
    change, may ask the breaker anything, and is left alone with what it raises. Thread-safe and fork-safe; a `Recovery`
    makes its own breakers.
    """

    def __init__(
        self,
        name: str,
        knobs: Knobs | None = None,
        *,
        clock: Clock | None = None,
        on_fact: Callable[[Fact], None] | None = None,
    ) -> None:
        check_numbers(f"breaker {name}", {"knobs": knobs})
        self._breaker = Breaker(name, (knobs or Knobs()).over(FAIL_CLOSED))
        self._clock = clock or Clock()
        self._on_fact = on_fact
        self._lock = threading.Lock()
        self._notices = Notices(logging.getLogger(__name__))
        forks.follow(self)

    @property
    def name(self) -> str:
        """The breaker's name."""
        return self._breaker.name

    @property
    def state(self) -> State:
        """What holds for callers now."""
        with self._lock:
            found = self._breaker.sweep(self._clock.now())
            state = self._breaker.state
        self._tell(found)
        return state

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
            found = self._breaker.impose(held, now)
        self._tell(found)

    def release(self) -> None:
        """End a trip before its time."""
        with self._lock:
            found = self._breaker.impose(None, self._clock.now())
        self._tell(found)

    def reset(self) -> None:
        """Close with a fresh window."""
        with self._lock:
            found = self._breaker.reset(self._clock.now())
        self._tell(found)

    def before_fork(self) -> None:
        """Nothing is held open."""

    def after_fork_in_parent(self) -> None:
        """Nothing was given up."""

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock: it will never give it back here."""
        self._lock = threading.Lock()

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
        found: tuple[Fact, ...] = ()
        with self._lock:
            now, breaker = self._clock.now(), self._breaker
            if error is None:
                found = breaker.succeed(now, duration_s=now - began, ticket=ticket)
            elif failure is not None and failure.category in BREAKER_COUNTS:
                found = breaker.fail(now, failure.category, duration_s=now - began, ticket=ticket)
            else:
                breaker.ignore(ticket)
        self._tell(found)

    def _tell(self, found: tuple[Fact, ...]) -> None:
        """Without the lock: who hears of a change may want to look at the breaker."""
        if self._on_fact is None:
            return
        for fact in found:
            try:
                self._on_fact(fact)
            except Exception as error:  # a hook's trouble must not become the call's
                self._notices.once("on_fact", "recovery-ops: on_fact of breaker %s raised %r", self.name, error)
