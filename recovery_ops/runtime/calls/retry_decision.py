"""The retry rule by itself, for callers who make their own loop."""

from __future__ import annotations

import random
from typing import Protocol

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, FAIL_CLOSED, OperationPolicy, Policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.retry import RetryDecision, decide_retry
from recovery_ops.runtime.failures.signals import Response, classify
from recovery_ops.runtime.guards.argument_checks import check_amount, check_count, check_type


class Random(Protocol):
    """What is needed of `random.Random`."""

    def random(self) -> float:
        """A number from 0 up to, not including, 1."""


_BUILT_IN = OperationPolicy(settings=BUILT_IN_DEFAULTS["operation"].over(FAIL_CLOSED))


def retry_decision(
    failure: Failure | Response | BaseException,
    *,
    attempt: int,
    max_retries: int | None,
    foreground: bool,
    policy: OperationPolicy | Policy | None = None,
    rng: Random | None = None,
    idempotent: bool = True,
) -> RetryDecision:
    """The retry rule alone: is attempt number `attempt` (from 1) followed by a retry, and how?

    `failure` may be an exception or a `Response`, which is classified first. The result has `retry`, `delay_s` (seconds
    to wait), `adjustment` (a needed correction, such as `max_tokens`), `max_tokens` and `reason`. ConfigurationError
    for invalid values. `max_retries` None is persistent mode. `foreground`: a user waits. `policy` None is the default
    policy. `idempotent=False`: a repetition can do harm. A
    correction is offered after the first attempt only. Rules: docs/guide/failures.md#categories

    >>> failure = classify(Response(429, {"retry-after": "3"}))
    >>> decision = retry_decision(failure, attempt=1, max_retries=3, foreground=True)
    >>> decision.retry, 3.0 <= decision.delay_s < 4.0
    (True, True)
    >>> retry_decision(failure, attempt=1, max_retries=3, foreground=False).retry
    False
    """
    if isinstance(failure, Response | BaseException):
        failure = classify(failure)
    check_type("retry_decision", Failure, {"failure": failure})
    check_count("retry_decision", "attempt", attempt)
    check_amount("retry_decision", "max_retries", max_retries)
    check_type("retry_decision", bool, {"foreground": foreground, "idempotent": idempotent})
    check_type("retry_decision", (OperationPolicy, Policy), {"policy": policy})
    if isinstance(policy, Policy):
        policy = policy.for_operation(Place(service="*", instance="*"))
    return decide_retry(
        failure,
        attempt=attempt,
        max_retries=max_retries,
        is_foreground=foreground,
        policy=policy or _BUILT_IN,
        chance=(rng or random).random,
        is_repeatable=idempotent,
    )
