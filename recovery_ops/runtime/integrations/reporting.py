"""Tells of failures that no ladder saw: in the middle of a stream, or in a library that retries by itself."""

from __future__ import annotations

from recovery_ops.rules.facts import Escalated, FailureClassified
from recovery_ops.rules.failures import Failure
from recovery_ops.runtime.operation import Operation
from recovery_ops.runtime.recovery import Recovery
from recovery_ops.runtime.run import CURRENT


def source_of_run() -> str:
    """Who waits, as the innermost run says; empty outside runs."""
    scope = CURRENT.get()
    return scope.source if scope else ""


def failed(
    recovery: Recovery,
    operation: Operation,
    error: BaseException,
    *,
    source: str = "",
    attempt: int = 1,
    is_retryable: bool = False,
    counts_for_breaker: bool = False,
    model: str | None = None,
    duration_s: float | None = None,
) -> Failure:
    """Classify an error and send the fact; `counts_for_breaker` where our own breaker guards the operation."""
    failure = recovery.failure_of(error, operation.name)
    standing = operation.standing
    fact = FailureClassified(
        operation=operation.name,
        category=failure.category,
        evidence=failure.evidence,
        retryable=is_retryable,
        attempt=attempt,
        breaker=standing.breaker.name,
        verdict=failure.verdict,
        status_code=failure.status_code,
        error_type=failure.error_type,
        exception_type=failure.exception_type,
        message=failure.message,
        fingerprint=failure.fingerprint,
        retry_after_s=failure.retry_after_s,
        duration_s=duration_s,
        successes_since_failure=standing.breaker.window.successes_since_failure() if counts_for_breaker else 0,
        provider=standing.provider,
        model=model,
        region=standing.region,
        request_id=failure.request_id,
        error_code=failure.code,
        rule=failure.rule,
        instead_of=failure.instead_of,
    )
    with recovery.lock:
        recovery.record(fact, source=source, scope=CURRENT.get())
        if counts_for_breaker and standing.policy.failures.opens(failure.category):
            moves = standing.breaker.fail(recovery.clock.now(), failure.category, operation=operation.name)
            for moved in moves:
                recovery.record(moved, source=source, scope=CURRENT.get())
            recovery.refresh(operation)
    return failure


def escalated(recovery: Recovery, operation: Operation, failure: Failure, *, queue: str, source: str = "") -> None:
    """Ask a person, as the ladder would have: once in a while for each operation and category."""
    with recovery.lock:
        if not operation.standing.may_ask(failure.category, recovery.clock.now()):
            return
        fact = Escalated(
            operation=operation.name,
            queue=queue,
            reason=failure.category.value,
            category=failure.category,
            message=failure.message,
        )
        recovery.record(fact, source=source, scope=CURRENT.get())
