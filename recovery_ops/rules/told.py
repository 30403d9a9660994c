"""The facts of a climb: what the ladder tells of each step, field by field."""

from __future__ import annotations

from recovery_ops.rules import facts
from recovery_ops.rules.escalations import Asking
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.retry import RetryDecision, is_retryable
from recovery_ops.rules.standing import Alternative, Climb, Standing
from recovery_ops.rules.steps import Raised
from recovery_ops.rules.words import Category


def classified(
    call: Climb, standing: Standing, raised: Raised, *, attempt: int, model: str | None, is_repeatable: bool
) -> facts.FailureClassified:
    """An attempt failed; told before the breaker hears of it."""
    failure = raised.failure
    return facts.FailureClassified(
        operation=standing.name,
        breaker=standing.breaker.name,
        category=failure.category,
        evidence=failure.evidence,
        retryable=is_retryable(
            failure,
            is_foreground=standing.policy.is_foreground(call.source),
            policy=standing.policy,
            is_repeatable=is_repeatable,
        ),
        attempt=attempt,
        verdict=failure.verdict,
        status_code=failure.status_code,
        error_type=failure.error_type,
        exception_type=failure.exception_type,
        message=failure.message,
        fingerprint=failure.fingerprint,
        retry_after_s=failure.retry_after_s,
        duration_s=round(raised.duration_s, 4),
        successes_since_failure=standing.breaker.window.successes_since_failure(),
        input_tokens=failure.overflow.input_tokens if failure.overflow else None,
        limit_tokens=failure.overflow.limit_tokens if failure.overflow else None,
        provider=standing.provider,
        model=model,
        tool=call.tool,
        region=standing.region,
        request_id=failure.request_id,
        error_code=failure.code,
        rule=failure.rule,
        instead_of=failure.instead_of,
    )


def scheduled(
    standing: Standing, failure: Failure, decision: RetryDecision, *, attempt: int, limit: int | None
) -> facts.RetryScheduled:
    """The call will be made again, as this attempt."""
    return facts.RetryScheduled(
        operation=standing.name,
        attempt=attempt,
        max_retries=limit,
        delay_s=round(decision.delay_s, 4),
        delay_source=decision.delay_source,
        category=failure.category,
        adjustment=decision.adjustment,
        max_tokens=decision.max_tokens,
    )


def fallen_back(
    call: Climb, other: Alternative, *, level: int, category: Category | None, reason: str
) -> facts.FallbackActivated:
    """Somebody else answered, or the operation did less."""
    return facts.FallbackActivated(
        operation=call.standing.name,
        fallback=other.standing.name,
        level=level,
        category=category,
        reason=reason,
        warning=other.warning,
        data_age_s=other.data_age_s,
        breaker=call.standing.breaker.name,
    )


def question(call: Climb, failure: Failure, asking: Asking) -> facts.Escalated:
    """What a person is asked about a failure."""
    return facts.Escalated(
        operation=call.standing.name,
        queue=asking.queue,
        reason=failure.category.value,
        category=failure.category,
        message=failure.message,
        deadline_s=asking.deadline_s,
        default_action=asking.default_answer,
    )


def rejected(standing: Standing, reason: str) -> facts.BreakerRejected:
    """One refused call; drivers add these up before they travel."""
    breaker = standing.breaker
    return facts.BreakerRejected(
        operation=standing.name, breaker=breaker.name, state=breaker.state, count=1, window_s=0.0, reason=reason
    )


def stopped(call: Climb, failure: Failure) -> facts.RunStopped:
    """The run ends here."""
    return facts.RunStopped(
        operation=call.standing.name, reason=failure.category.value, category=failure.category, message=failure.message
    )
