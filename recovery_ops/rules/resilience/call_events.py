"""The events of a climb: what the ladder tells of each step, field by field."""

from __future__ import annotations

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, OnBrokenStream
from recovery_ops.rules.policy.escalation_rules import Asking
from recovery_ops.rules.resilience.call_context import Alternative, CallContext, OperationState
from recovery_ops.rules.resilience.retry import RetryDecision, is_retryable
from recovery_ops.rules.resilience.steps import Raised


def classified(
    call: CallContext,
    standing: OperationState,
    raised: Raised,
    *,
    attempt: int,
    model: str | None,
    credential: str | None,
    is_repeatable: bool,
) -> events.FailureClassified:
    """An attempt failed; told before the breaker hears of it."""
    failure, policy = raised.failure, standing.policy
    is_foreground = policy.is_foreground(call.source)
    broken = call.on_broken_stream if raised.is_partial else None
    return failed(
        failure,
        operation=standing.name,
        standing=standing,
        attempt=attempt,
        retryable=broken is not OnBrokenStream.ERROR
        and is_retryable(failure, is_foreground=is_foreground, policy=policy, is_repeatable=is_repeatable),
        duration_s=raised.duration_s,
        successes=standing.breaker.window.successes_since_failure(),
        model=model,
        tool=call.tool,
        broken_stream=broken,
        credential=credential,
    )


def failed(
    failure: Failure,
    *,
    operation: str,
    standing: OperationState | None,
    attempt: int,
    retryable: bool,
    duration_s: float | None,
    successes: int = 0,
    model: str | None = None,
    tool: str | None = None,
    broken_stream: OnBrokenStream | None = None,
    credential: str | None = None,
) -> events.FailureClassified:
    """One failure, field by field; `standing` is that of its operation, None where this process guards none."""
    return events.FailureClassified(
        operation=operation,
        breaker=standing.breaker.name if standing is not None and operation == standing.name else "",
        category=failure.category,
        evidence=failure.evidence,
        retryable=retryable,
        attempt=attempt,
        verdict=failure.verdict,
        status_code=failure.status_code,
        error_type=failure.error_type,
        exception_type=failure.exception_type,
        message=failure.message,
        fingerprint=failure.fingerprint,
        retry_after_s=failure.retry_after_s,
        duration_s=None if duration_s is None else round(duration_s, 4),
        successes_since_failure=successes,
        input_tokens=failure.overflow.input_tokens if failure.overflow else None,
        limit_tokens=failure.overflow.limit_tokens if failure.overflow else None,
        provider=standing.provider if standing is not None else None,
        model=model,
        tool=tool,
        region=standing.region if standing is not None else None,
        request_id=failure.request_id,
        error_code=failure.code,
        rule=failure.rule,
        instead_of=failure.instead_of,
        inner_retries=failure.inner_retries or None,
        broken_stream=broken_stream,
        credential=credential,
    )


def scheduled(
    standing: OperationState,
    failure: Failure,
    decision: RetryDecision,
    *,
    attempt: int,
    limit: int | None,
    credential: str | None,
) -> events.RetryScheduled:
    """The call will be made again, as this attempt."""
    return events.RetryScheduled(
        operation=standing.name,
        attempt=attempt,
        max_retries=limit,
        delay_s=round(decision.delay_s, 4),
        delay_source=decision.delay_source,
        category=failure.category,
        adjustment=decision.adjustment,
        max_tokens=decision.max_tokens,
        credential=credential,
    )


def fallen_back(
    call: CallContext, other: Alternative, *, level: int, category: Category | None, reason: str
) -> events.FallbackActivated:
    """Somebody else answered, or the operation did less."""
    return events.FallbackActivated(
        operation=call.standing.name,
        fallback=other.standing.name,
        level=level,
        category=category,
        reason=reason,
        warning=other.warning,
        data_age_s=other.data_age_s,
        breaker=call.standing.breaker.name,
    )


def model_fallback(
    standing: OperationState, from_model: str, to_model: str, category: Category, consecutive: int
) -> events.ModelFallback:
    """Another model of the chain is asked. `consecutive` failures of the first led to it; 0: it was not called."""
    return events.ModelFallback(
        operation=standing.name,
        from_model=from_model,
        to_model=to_model,
        category=category,
        consecutive=consecutive,
        provider=standing.provider,
    )


def question(call: CallContext, failure: Failure, asking: Asking) -> events.Escalated:
    """What a person is asked about a failure."""
    return events.Escalated(
        operation=call.standing.name,
        queue=asking.queue,
        reason=failure.category.value,
        category=failure.category,
        message=failure.message,
        deadline_s=asking.deadline_s,
        default_action=asking.default_answer,
    )


def rejected(standing: OperationState, reason: str) -> events.BreakerRejected:
    """One refused call; drivers add these up before they travel."""
    breaker = standing.breaker
    return events.BreakerRejected(
        operation=standing.name, breaker=breaker.name, state=breaker.state, count=1, window_s=0.0, reason=reason
    )


def stopped(call: CallContext, failure: Failure, reason: str = "") -> events.RunStopped:
    """The run ends here."""
    return events.RunStopped(
        operation=call.standing.name,
        reason=reason or failure.category.value,
        category=failure.category,
        message=failure.message,
    )
