"""May a failed call be made again, and when: the retry table, the server's word, and the arithmetic of waiting."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from recovery_ops.rules.failures import Failure
from recovery_ops.rules.policy import FAIL_CLOSED, OperationPolicy
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.retry_table import Again
from recovery_ops.rules.words import CAPACITY, Adjustment, Category, DelaySource

FIXES: dict[Category, Adjustment] = {
    Category.AUTH: Adjustment.REFRESH_CREDENTIALS,
    Category.STALE_EVIDENCE: Adjustment.REFRESH_EVIDENCE,
    Category.CONTEXT_OVERFLOW: Adjustment.MAX_TOKENS,
}


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether to call again, after how many seconds, and what to change about the request first.

    `reason` is a word: `retryable`, `attempts`, `not_retryable`, `capacity_in_background`, `capacity_not_retried`,
    `server_said_no`, `may_do_harm_twice`, `overflow_not_fixable`, `already_tried`, `deadline`.
    """

    retry: bool
    reason: str
    delay_s: float = 0.0
    delay_source: DelaySource = DelaySource.BACKOFF
    adjustment: Adjustment | None = None
    max_tokens: int | None = None


def decide_retry(
    failure: Failure,
    *,
    attempt: int,
    max_retries: int | None,
    is_foreground: bool,
    policy: OperationPolicy,
    chance: Callable[[], float],
    is_repeatable: bool = True,
    already: AbstractSet[Category] | None = None,
) -> RetryDecision:
    """What the rules say after attempt number `attempt` (1 is the first) failed.

    `max_retries` None means persistent: without a limit of attempts. `is_repeatable` is False for an operation that
    may do harm when done twice and carries no idempotency key. `already` names the categories whose one permitted
    fix (new credentials, fresh evidence, a smaller answer) was tried before in this call, or cannot be tried; where
    that is not known (None), only a first attempt is fixed.
    """
    refused = _refusal(failure, is_foreground=is_foreground, policy=policy, is_repeatable=is_repeatable)
    if refused:
        return RetryDecision(False, refused)
    fix = FIXES.get(failure.category)
    if fix is not None and (attempt > 1 if already is None else failure.category in already):
        return RetryDecision(False, "already_tried")
    again = policy.again(failure.category, failure.status_code, is_foreground=is_foreground)
    if again is Again.ONCE and fix is None and attempt > 1:
        return RetryDecision(False, "already_tried")
    if max_retries is not None and attempt > max_retries:
        return RetryDecision(False, "attempts")
    if fix is not None:
        tokens = _room_for_answer(failure, policy) if fix is Adjustment.MAX_TOKENS else None
        return RetryDecision(True, "retryable", 0.0, DelaySource.IMMEDIATE, fix, tokens)
    delay_s, source = delay_after(failure, attempt=attempt, policy=policy, chance=chance)
    lost = Adjustment.DISABLE_KEEPALIVE if failure.connection_was_lost else None
    return RetryDecision(True, "retryable", delay_s, source, lost)


def is_retryable(failure: Failure, *, is_foreground: bool, policy: OperationPolicy, is_repeatable: bool = True) -> bool:
    """Whether this failure may be retried at all, however many attempts are left."""
    return not _refusal(failure, is_foreground=is_foreground, policy=policy, is_repeatable=is_repeatable)


def delay_after(
    failure: Failure, *, attempt: int, policy: OperationPolicy, chance: Callable[[], float]
) -> tuple[float, DelaySource]:
    """Seconds to wait: `min(base · factor^(attempt−1), cap)` and jitter; never less than the server asked for.

    Jitter is only ever added. After a server's word it is a share of our own backoff, so that a wait of half an hour
    is not prolonged by minutes.
    """
    knobs = policy.knobs
    base_s, cap_s = knobs.base_delay_s or 0.0, knobs.delay_cap_s or FAIL_CLOSED.delay_cap_s or 0.0
    # 10^300 is still a float; an unattended run may well come to attempt 2,000
    backoff_s = min(base_s * (knobs.backoff_factor or 1.0) ** min(attempt - 1, 300), cap_s)
    jitter_s = chance() * (knobs.jitter or 0.0) * backoff_s
    if failure.retry_after_s is None:
        return backoff_s + jitter_s, DelaySource.BACKOFF
    return failure.retry_after_s + jitter_s, DelaySource.RETRY_AFTER


def _refusal(failure: Failure, *, is_foreground: bool, policy: OperationPolicy, is_repeatable: bool) -> str:
    """Why this failure is never retried here; empty when it may be."""
    again = policy.again(failure.category, failure.status_code, is_foreground=is_foreground)
    is_capacity = failure.category in CAPACITY
    if is_capacity and not is_foreground:
        return "capacity_in_background"  # the partition beats the table, and even a server that asks for more
    if is_capacity and not policy.knobs.retry_capacity_errors:
        return "capacity_not_retried"
    if failure.server_says_retry is False:
        return "server_said_no"
    may_insist = policy.failures.insists(failure.status_code) and not _is_final(failure.category)
    server_insists = failure.server_says_retry is True and may_insist
    if again is Again.NEVER and not server_insists:
        return "not_retryable"
    if not is_repeatable and not failure.nothing_was_done:
        return "may_do_harm_twice"
    floor = policy.knobs.overflow_floor_tokens or 1
    if failure.category is Category.CONTEXT_OVERFLOW and (_room_for_answer(failure, policy) or 0) < floor:
        return "overflow_not_fixable"
    return ""


def _is_final(category: Category) -> bool:
    """What no server can talk us into: it already happened, or no waiting within reach will help."""
    return category in (Category.IDEMPOTENCY_CONFLICT, Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED)


def _room_for_answer(failure: Failure, policy: OperationPolicy) -> int | None:
    """How many tokens are left for the answer, less the margin; None where the vendor gave no counts."""
    if failure.overflow is None:
        return None
    return failure.overflow.available_tokens - (policy.knobs.overflow_margin_tokens or 0)
