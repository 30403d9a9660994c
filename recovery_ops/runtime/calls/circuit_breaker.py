"""A breaker by itself, for code that wants nothing else of the runtime: the same rules, with a lock and a clock."""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar, cast

from recovery_ops.rules.enums import BREAKER_COUNTS, State
from recovery_ops.rules.events import Event
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings
from recovery_ops.rules.resilience.circuit_breaker import Breaker, Imposed
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.errors import CircuitOpen
from recovery_ops.runtime.failures.signals import classify
from recovery_ops.runtime.guards.argument_checks import check_numbers, check_result
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.log_messages import TroubleLog

P = ParamSpec("P")
R = TypeVar("R")


class CircuitBreaker(forks.InChild):
    """A circuit breaker without retries: `breaker.call(f, …)`, `with breaker.attempt():` or `@breaker`.

    It opens by the rules of `Settings` (5 failures in a row, or half of the last 20 calls), rejects calls for 60 s, and
    closes after one successful probe. Failures of the service count, mistakes of the caller do not. An awaitable counts
    when it is awaited.

    CircuitOpen while it rejects; ConfigurationError for settings out of bounds. `on_event` is called with every change;
    its exceptions are logged. Thread-safe and fork-safe; a `Recovery` makes its own breakers. Rules:
    docs/guide/guard-options.md#defaults

    >>> breaker = CircuitBreaker("database", Settings(consecutive_failures=2))
    >>> @breaker
    ... def query():
    ...     raise ConnectionRefusedError("refused")
    >>> for _ in range(3):
    ...     try:
    ...         query()
    ...     except Exception as error:
    ...         print(type(error).__name__, breaker.state)
    ConnectionRefusedError closed
    ConnectionRefusedError open
    CircuitOpen open
    """

    def __init__(
        self,
        name: str,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        check_numbers(f"breaker {name}", {"settings": settings})
        self._breaker = Breaker(name, (settings or Settings()).over(FAIL_CLOSED))
        self._clock = clock or Clock()
        self._on_event = on_event
        self._lock = threading.Lock()
        self._notices = TroubleLog(logging.getLogger(__name__))
        forks.follow(self)

    @property
    def name(self) -> str:
        """The breaker's name."""
        return self._breaker.name

    @property
    def state(self) -> State:
        """The state now: `closed`, `open`, `half_open` or `forced_open`."""
        with self._lock:
            found = self._breaker.sweep(self._clock.now())
            state = self._breaker.state
        self._tell(found)
        return state

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function and count the outcome. An awaitable counts when it is awaited."""
        if is_async(function):
            return cast("R", self._call_async(function, args, kwargs))
        ticket, began = self._admitted()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self._ended(error, ticket, began)
            raise
        if inspect.isawaitable(result):
            return cast("R", self._finish(result, ticket, began))
        self._ended(None, ticket, began)
        return result

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """As a decorator. ConfigurationError for generators: their work begins after the call."""
        check_result(f"breaker {self.name}", function)

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            return self.call(function, *args, **kwargs)

        @functools.wraps(function)
        async def guarded_async(*args: P.args, **kwargs: P.kwargs) -> object:
            return await self._call_async(function, args, kwargs)

        return cast("Callable[P, R]", guarded_async) if is_async(function) else guarded

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """A block as one attempt, also in tasks: `with breaker.attempt(): await …`."""
        with self._counted(*self._admitted()):
            yield

    def trip(self, seconds: float = 3600.0) -> None:
        """Reject every call for `seconds`; then one probe decides."""
        with self._lock:
            now = self._clock.now()
            held = Imposed(id="local", mode=State.FORCED_OPEN, ends_at=now + seconds)
            found = self._breaker.impose(held, now)
        self._tell(found)

    def clear_override(self) -> None:
        """End a trip before its time."""
        with self._lock:
            found = self._breaker.impose(None, self._clock.now())
        self._tell(found)

    def reset(self) -> None:
        """Close with a fresh window."""
        with self._lock:
            found = self._breaker.reset(self._clock.now())
        self._tell(found)

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock: it will never give it back here."""
        self._lock = threading.Lock()
        self._breaker.forget_probes()

    async def _call_async(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self.attempt():
            return await function(*args, **kwargs)

    async def _finish(self, result: Awaitable[Any], ticket: int, began: float) -> Any:
        with self._counted(ticket, began):
            return await result

    @contextmanager
    def _counted(self, ticket: int, began: float) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._ended(error, ticket, began)
            raise
        self._ended(None, ticket, began)

    def _admitted(self) -> tuple[int, float]:
        with self._lock:
            now = self._clock.now()
            admission = self._breaker.admit(now, deadline_s=self._breaker.settings.call_deadline_s)
        self._tell(admission.events)
        if admission.is_allowed:
            return admission.ticket, now
        retry_at = None
        if admission.retry_in_s is not None:
            retry_at = datetime.fromtimestamp(self._clock.wall(), UTC) + timedelta(seconds=admission.retry_in_s)
        raise CircuitOpen(self.name, breaker=self.name, state=admission.state, retry_at=retry_at)

    def _ended(self, error: BaseException | None, ticket: int, began: float) -> None:
        failure = classify(error, now=self._clock.wall()) if isinstance(error, Exception) else None
        found: tuple[Event, ...] = ()
        with self._lock:
            now, breaker = self._clock.now(), self._breaker
            if error is None:
                found = breaker.succeed(now, duration_s=now - began, ticket=ticket)
            elif failure is not None and failure.category in BREAKER_COUNTS and failure.concerns_service:
                found = breaker.fail(now, failure.category, duration_s=now - began, ticket=ticket)
            else:
                breaker.ignore(ticket)
        self._tell(found)

    def _tell(self, found: tuple[Event, ...]) -> None:
        """Without the lock: who hears of a change may want to look at the breaker."""
        if self._on_event is None:
            return
        for event in found:
            try:
                self._on_event(event)
            except Exception as error:  # a hook's trouble must not become the call's
                self._notices.once("on_event", "recovery-ops: on_event of breaker %s raised %r", self.name, error)
