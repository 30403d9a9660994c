"""Tells of failures that no ladder saw: in the middle of a stream, or in a library that retries by itself."""

from __future__ import annotations

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import FailureClassified
from recovery_ops.runtime.calls.operation import Operation
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.runs.context import current_scope


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
    credential: str | None = None,
    duration_s: float | None = None,
) -> Failure:
    """Classify an error and send the event, for a cancel none. `counts_for_breaker`: our breaker guards the call."""
    failure = recovery.failure_of(error, operation.name)
    if failure.category is Category.CANCELLED:
        return failure
    standing = operation.standing
    event = FailureClassified(
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
        credential=credential,
        inner_retries=failure.inner_retries or None,
    )
    with recovery.lock:
        recovery.record(event, source=source, scope=current_scope())
        counts = counts_for_breaker and failure.concerns_service
        if counts and standing.policy.failures.opens(failure.category):
            moves = standing.breaker.fail(recovery.clock.now(), failure.category, operation=operation.name)
            for moved in moves:
                recovery.record(moved, source=source, scope=current_scope())
            recovery.operations.refresh(operation)
    return failure
