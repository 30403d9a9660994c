"""May a failed call be made again, and when: the retry table, the server's word, and the arithmetic of waiting."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import CAPACITY, Adjustment, Category, DelaySource
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import FAIL_CLOSED, OperationPolicy
from recovery_ops.rules.policy.retry_table import Again

FIXES: dict[Category, Adjustment] = {
    Category.AUTH: Adjustment.REFRESH_CREDENTIALS,
    Category.STALE_EVIDENCE: Adjustment.REFRESH_EVIDENCE,
    Category.CONTEXT_OVERFLOW: Adjustment.MAX_TOKENS,
}


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether to call again, after how many seconds, and what to change about the request first.

    `reason` is a word: `retryable`, `attempts`, `not_retryable`, `exhausted_inside`, `capacity_in_background`,
    `capacity_not_retried`, `server_said_no`, `may_do_harm_twice`, `overflow_not_fixable`, `already_tried`. The
    ladder adds `fallback_ready`, `retry_budget` and `deadline`.
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
    is_full_jitter: bool = False,
) -> RetryDecision:
    """What the rules say after attempt number `attempt` (1 is the first) failed.

    `max_retries` None means persistent: without a limit of attempts. `is_repeatable` is False for an operation that
    may do harm when done twice and carries no idempotency key. `already` names the categories whose one permitted
    fix (new credentials, fresh evidence, a smaller answer) was tried before in this call, or cannot be tried; where
    that is not known (None), only a first attempt is fixed. What the guard declares transient is then repeated as it
    is.
    """
    refused = _refusal(failure, is_foreground=is_foreground, policy=policy, is_repeatable=is_repeatable)
    if refused:
        return RetryDecision(False, refused)
    fix = FIXES.get(failure.category)
    if fix is not None and (attempt > 1 if already is None else failure.category in already):
        if not failure.is_declared_transient:
            return RetryDecision(False, "already_tried")
        fix = None  # without the fix, a repetition of the same request is what the guard asks for
    again = policy.again(failure.category, failure.status_code, is_foreground=is_foreground)
    if again is Again.ONCE and fix is None and attempt > 1:
        return RetryDecision(False, "already_tried")
    if max_retries is not None and attempt > max_retries:
        return RetryDecision(False, "attempts")
    if fix is not None:
        tokens = _room_for_answer(failure, policy) if fix is Adjustment.MAX_TOKENS else None
        return RetryDecision(True, "retryable", 0.0, DelaySource.IMMEDIATE, fix, tokens)
    delay_s, source = delay_after(failure, attempt=attempt, policy=policy, chance=chance, is_full_jitter=is_full_jitter)
    lost = Adjustment.DISABLE_KEEPALIVE if failure.connection_was_lost else None
    return RetryDecision(True, "retryable", delay_s, source, lost)


def is_retryable(failure: Failure, *, is_foreground: bool, policy: OperationPolicy, is_repeatable: bool = True) -> bool:
    """Whether this failure may be retried at all, however many attempts are left."""
    return not _refusal(failure, is_foreground=is_foreground, policy=policy, is_repeatable=is_repeatable)


def delay_after(
    failure: Failure,
    *,
    attempt: int,
    policy: OperationPolicy,
    chance: Callable[[], float],
    is_full_jitter: bool = False,
) -> tuple[float, DelaySource]:
    """Seconds to wait: `min(base · factor^(attempt−1), cap)` and jitter; never less than the server asked for.

    Full jitter draws from 0 to the delay. After a server's word jitter is only ever added, as a share of our own
    backoff, so that a wait of half an hour is not prolonged by minutes.
    """
    settings = policy.settings
    base_s, cap_s = settings.base_delay_s or 0.0, settings.delay_cap_s or FAIL_CLOSED.delay_cap_s or 0.0
    # 10^300 is still a float; an unattended run may well come to attempt 2,000
    backoff_s = min(base_s * (settings.backoff_factor or 1.0) ** min(attempt - 1, 300), cap_s)
    drawn = chance()
    if is_full_jitter and failure.retry_after_s is None:
        return drawn * backoff_s, DelaySource.BACKOFF
    jitter_s = drawn * (settings.jitter or 0.0) * backoff_s
    if failure.retry_after_s is None:
        return backoff_s + jitter_s, DelaySource.BACKOFF
    return failure.retry_after_s + jitter_s, DelaySource.RETRY_AFTER


def _refusal(failure: Failure, *, is_foreground: bool, policy: OperationPolicy, is_repeatable: bool) -> str:
    """Why this failure is never retried here; empty when it may be."""
    if failure.is_exhausted:
        return "exhausted_inside"  # two guards that retry would multiply
    again = policy.again(failure.category, failure.status_code, is_foreground=is_foreground)
    is_capacity = failure.category in CAPACITY
    if is_capacity and not is_foreground:
        return "capacity_in_background"  # the partition beats the table, and even a server that asks for more
    if is_capacity and not policy.settings.retry_capacity_errors:
        return "capacity_not_retried"
    if failure.server_says_retry is False:
        return "server_said_no"
    if failure.certificate_failed:
        return "not_retryable"
    may_insist = policy.failures.insists(failure.status_code) and not _is_final(failure.category)
    server_insists = failure.server_says_retry is True and may_insist
    if again is Again.NEVER and not server_insists and not _is_widened(failure, policy):
        return "not_retryable"
    if not is_repeatable and not failure.nothing_was_done:
        return "may_do_harm_twice"
    floor = policy.settings.overflow_floor_tokens or 1
    if failure.category is Category.CONTEXT_OVERFLOW and (_room_for_answer(failure, policy) or 0) < floor:
        return "overflow_not_fixable"
    return ""


def _is_widened(failure: Failure, policy: OperationPolicy) -> bool:
    """Whether the guard's word stands for a row of the table: only where no row says otherwise."""
    if not failure.is_declared_transient or _is_final(failure.category):
        return False
    is_refusal = failure.category is Category.POLICY_DENIED
    return not is_refusal and policy.retry_row(failure.category, failure.status_code) is None


def _is_final(category: Category) -> bool:
    """What no server can talk us into: it already happened, or no waiting within reach will help."""
    return category in (Category.IDEMPOTENCY_CONFLICT, Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED)


def _room_for_answer(failure: Failure, policy: OperationPolicy) -> int | None:
    """How many tokens are left for the answer, less the margin; None where the vendor gave no counts."""
    if failure.overflow is None:
        return None
    return failure.overflow.available_tokens - (policy.settings.overflow_margin_tokens or 0)
