"""Reports of failed calls, and marks on their errors, so that a guard around a guard does not multiply the attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.enums import Category, Rung, StopReason
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.errors import (
    CallRejected,
    CircuitOpen,
    LoadShed,
    RecoveryExhausted,
    RetryAfterActive,
    StopRun,
)
from recovery_ops.runtime.failures.safe_inspection import get
from recovery_ops.runtime.process.clock import Clock

if TYPE_CHECKING:
    from recovery_ops.rules.classification.classify import Failure

MARK = "_recovery_exhausted"
"""The attribute of an exception, and the key among the `extensions` of a response, that holds a `Mark`."""


NOTE = "recovery-ops: "
"""The beginning of the note that an error carries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a guarded call failed: `recovery.report(error)`, for a RecoveryExhausted and for a caller's own exception.

    `attempts` counts the calls made, 0 where the call was rejected. `steps` names the recovery steps that were taken,
    `waits_s` the waits before retries, in seconds. `reason` is the word of the rules for why it ended, `retry_at` (UTC)
    when another call may help. `user_message` and `suggestion` are for people, `failure` is for developers.
    `last_result` is the result of the last attempt, where `retry_result` rejects it.
    """

    operation: str
    attempts: int = 0
    category: Category | None = None
    reason: str = ""
    steps: tuple[str, ...] = ()
    waits_s: tuple[float, ...] = ()
    retry_at: datetime | None = None
    failure: Failure | None = None
    user_message: str = ""
    suggestion: str = ""
    can_retry: bool = True
    idempotency_key: str | None = None
    last_result: Any = None


@dataclass(frozen=True, slots=True)
class Mark:
    """Which operation gave up, how, and when on which clock. In another process only its report is left."""

    operation: str
    at: float
    clock: Clock | None
    is_used_up: bool
    report: Report

    def __reduce__(self) -> tuple[Any, ...]:
        return Mark, (self.operation, 0.0, None, self.is_used_up, self.report)


_NO_WAY_ROUND = {Rung.RETRY.value, Rung.ASK.value, Rung.FAIL.value}
_MOST_LINKS = 64


def is_used_up(ended: RecoveryExhausted) -> bool:
    """Whether the guard did more than to make the call once: it retried, asked a fallback, or was out of time.

    A question in a queue is not more: a person reads it later.
    """
    if ended.attempts > 1 or not _NO_WAY_ROUND.issuperset(ended.steps):
        return True
    return ended.reason not in (StopReason.NOT_RETRYABLE, StopReason.ATTEMPTS)


def mark(error: BaseException, ended: RecoveryExhausted, clock: Clock) -> None:
    """Mark an error that ends a guarded call, and add a note with its history."""
    report = report_of(ended)
    if report is None:
        return
    with suppress(Exception):  # a class that takes no attributes
        setattr(error, MARK, Mark(ended.operation, clock.now(), clock, is_used_up(ended), report))
    beginning = f"{NOTE}{ended.operation} "
    with suppress(Exception):
        notes = getattr(error, "__notes__", [])
        notes[:] = [one for one in notes if not one.startswith(beginning)]  # the same object may be raised again
        error.add_note(f"{NOTE}{ended}")


def report_of(error: BaseException) -> Report | None:
    """The history of an error that a guard has seen; None for any other."""
    if isinstance(error, RecoveryExhausted):
        return Report(
            operation=error.operation,
            attempts=error.attempts,
            category=error.category,
            reason=error.reason.value,
            steps=error.steps,
            waits_s=error.waits_s,
            retry_at=error.retry_at,
            failure=error.failure,
            user_message=error.user_message,
            suggestion=error.suggestion,
            can_retry=error.can_retry,
            idempotency_key=error.idempotency_key,
            last_result=error.last_result,
        )
    if isinstance(error, CallRejected):
        return Report(operation=error.operation, reason=error.reason, retry_at=error.retry_at)
    found = _mark_of(error)
    if found is None and isinstance(error, StopRun) and error.__cause__ is not None:
        found = _mark_of(error.__cause__)
    return found.report if found is not None else None


def was_reported(error: BaseException, since: float, clock: Clock) -> bool:
    """Whether a guard has ended with this error, and recorded it, since then."""
    found = _mark_of(error)
    return isinstance(error, RecoveryExhausted) or (
        found is not None and found.at >= since and found.clock is not None and _is_same(found.clock, clock)
    )


def was_exhausted_inside(error: BaseException, operation: str, began: float, clock: Clock) -> bool:
    """Whether a guard inside the attempt of `operation` that began then gave up on this error, or refused the call.

    An older mark is of another call, in which the same object was raised.
    """
    for link in _links(error):
        if isinstance(link, CircuitOpen | RetryAfterActive | LoadShed):
            return True
        if isinstance(link, RecoveryExhausted) and is_used_up(link):
            return True
        found = _mark_of(link)
        if found is None or found.clock is None or not found.is_used_up:
            continue
        if found.operation != operation and found.at > began and _is_same(found.clock, clock):
            return True
    return False


def _mark_of(error: BaseException) -> Mark | None:
    with suppress(Exception):
        found = getattr(error, MARK, None) or error.response.extensions.get(MARK)  # type: ignore[attr-defined]  # httpx
        return found if isinstance(found, Mark) else None
    return None


def _is_same(one: Clock, other: Clock) -> bool:
    return one is other or type(one) is type(other) is Clock


def _links(error: BaseException) -> Iterator[BaseException]:
    """The error, its explicit causes and the members of its groups."""
    waiting, seen = [error], 0
    while waiting and seen < _MOST_LINKS:
        link, seen = waiting.pop(), seen + 1
        yield link
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(link.exceptions[:_MOST_LINKS])
        cause = get(link, "__cause__")
        if isinstance(cause, BaseException):
            waiting.append(cause)
