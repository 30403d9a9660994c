"""Makes events of what another library did by itself: it retries and breaks the circuit, we look on and tell.

Nothing here decides anything, and nothing here ever raises into the library that is watched.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, DelaySource, Rung, State, StopReason, Trigger
from recovery_ops.rules.events import AttemptSucceeded, BreakerStateChanged, Event, Exhausted, RetryScheduled
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.integrations import failure_reports as reporting
from recovery_ops.runtime.runs.context import current_scope, source_of_run

_log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])


def quietly(told: F) -> F:
    """A reporter that fails is written to the log, once for each call, and forgotten."""

    @functools.wraps(told)
    def tell(*args: Any, **kwargs: Any) -> Any:
        try:
            return told(*args, **kwargs)
        except Exception as error:
            _log.warning("recovery-ops could not report what it watched", exc_info=error)
            return None

    return tell  # type: ignore[return-value]


class Watched:
    """One operation that somebody else guards. `source` says who waits; absent, the run does."""

    def __init__(self, recovery: Recovery, name: str, source: str = "", provider: str | None = None) -> None:
        self.name = name
        self._recovery = recovery
        self._source = source
        self._operation = recovery.operations.named(name)
        self._operation.standing.provider = self._operation.standing.provider or provider

    def tell(self, event: Event) -> None:
        """Count an event and send it."""
        with self._recovery.lock:
            self._recovery.record(event, source=self.source, scope=current_scope())

    @property
    def source(self) -> str:
        """Who waits."""
        return self._source or source_of_run() or self._recovery.default_source

    def count(self, **counts: int) -> None:
        """Add to the denominators."""
        with self._recovery.lock:
            self._operation.cell(self.source).watched(**counts)

    def attempted(self, number: int) -> None:
        """An attempt came to its end; the first is also a call."""
        self.count(attempts=1, **({"calls": 1} if number == 1 else {}))

    def succeeded(self, number: int, duration_s: float | None = None) -> None:
        """An attempt went well; an event only where one before it did not."""
        self.attempted(number)
        self.count(successes=1)
        if number > 1:
            self.tell(AttemptSucceeded(operation=self.name, attempt=number, duration_s=duration_s))

    def failure_of(self, error: BaseException | None) -> Failure:
        """What an error of this operation is."""
        return self._recovery.failure_of(error, self.name)

    def failed(
        self,
        error: BaseException,
        number: int,
        *,
        is_retryable: bool = False,
        model: str | None = None,
        credential: str | None = None,
    ) -> Failure:
        """An attempt failed."""
        self.attempted(number)
        return reporting.failed(
            self._recovery,
            self._operation,
            error,
            source=self.source,
            attempt=number,
            is_retryable=is_retryable,
            model=model,
            credential=credential,
        )

    def scheduled(self, failure: Failure, number: int, delay_s: float) -> None:
        """The next attempt will be made after so long."""
        source = DelaySource.BACKOFF if delay_s else DelaySource.IMMEDIATE
        self.tell(
            RetryScheduled(
                operation=self.name,
                attempt=number,
                delay_s=round(delay_s, 4),
                delay_source=source,
                category=failure.category,
            )
        )

    def gave_up(self, failure: Failure, attempts: int, reason: StopReason) -> None:
        """No further attempt will be made; after a cancel or control flow nothing was given up."""
        if failure.category is Category.CANCELLED:
            return
        self.tell(
            Exhausted(
                operation=self.name,
                reason=reason,
                attempts=attempts,
                rungs=(Rung.RETRY.value, Rung.FAIL.value),
                category=failure.category,
                message=failure.message,
            )
        )

    def moved(self, state: State, previous: State, trigger: Trigger, **more: Any) -> None:
        """The breaker of the other library changed its state."""
        self.tell(
            BreakerStateChanged(
                operation=self.name, breaker=self.name, state=state, previous_state=previous, trigger=trigger, **more
            )
        )
