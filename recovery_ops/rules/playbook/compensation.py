"""Carries a playbook out: what to do about one failure, step by step. One decision for every driver, like the ladder.

`compensate` is a generator. Beside the steps of the ladder (`Call` is the retry, `Wait`, `Emit`) it yields `Refresh`,
`Ask` and `Reverse`. The failure is recorded before anything is done about it; partition, Retry-After, destructiveness
and the deadline win over the playbook's schedule; one `compensation_finished` says how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import field
from math import inf

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import (
    Adjustment,
    Category,
    Compensation,
    CompensationOutcome,
    DelaySource,
    Refusal,
    State,
    Verdict,
)
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, Play, Playbook
from recovery_ops.rules.policy.escalation_rules import Asking
from recovery_ops.rules.policy.model import OperationPolicy
from recovery_ops.rules.resilience import call_events as told
from recovery_ops.rules.resilience.admission import elapse
from recovery_ops.rules.resilience.call_context import OperationState
from recovery_ops.rules.resilience.retry import decide_retry, is_retryable
from recovery_ops.rules.resilience.steps import Call, CalledOff, Cause, Emit, Raised, Reply, Returned, Wait

_REFUSING = frozenset({State.OPEN, State.HALF_OPEN, State.FORCED_OPEN})
"""While a breaker is half open its probes belong to guarded calls."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Read the evidence anew; answer Returned, Raised or Cancelled."""

    operation: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Record the question and hand it to the caller's hook; answer None."""

    question: events.Escalated


@dataclass(frozen=True, slots=True)
class Reverse:
    """Redeem the reversal token and undo; answer Returned, Raised, Cancelled or Spent."""

    operation: str


@dataclass(frozen=True, slots=True)
class Recorded(Raised):
    """The retry failed inside a guard, which has recorded the failure already."""


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """The retry was not made: a guard inside it refused."""

    now: float
    refusal: Refusal
    retry_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """The token was redeemed before."""

    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One failure, and what is known about the call that failed. Times are on the driver's clock."""

    operation: str = ""
    playbook: Playbook = BUILT_IN_PLAYBOOK
    policy: OperationPolicy = field(default_factory=OperationPolicy)
    is_foreground: bool = False
    is_repeatable: bool = False
    """False for a call that may do harm when done twice and carries no idempotency key."""
    started_at: float
    deadline_at: float = inf
    chance: Callable[[], float]
    can_retry: bool = False
    can_refresh: bool = False
    reverses: str | None = None
    """The operation that the reversal token was given to; None without a token."""
    action_id: str | None = None
    attempt: int = 1
    """The number of the attempt that failed."""
    is_recorded: bool = False
    """A guard has recorded the failure already."""
    standing: OperationState | None = None
    """How the operation stands in this process, where it is one that this process guards."""
    escalation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """How it ended. `failure` is the last one.

    `reason` is a word: `succeeded`, `deprecated`, `escalated`, `reversed`; `no_verdict`; why there was no (further)
    retry: `attempts`, `deadline`, `nothing_to_retry`, `breaker_open`, `gate_closed`, or a reason of `RetryDecision`;
    why nothing was refreshed or reversed: `no_refresh`, `refresh_failed`, `no_token`, `token_of_another_call`,
    `token_already_redeemed`, `reversal_failed`.
    """

    outcome: CompensationOutcome
    failure: Failure
    reason: str
    verdict: Verdict | None = None
    compensation: Compensation | None = None
    retries: int = 0
    retry_in_s: float | None = None
    queue: str = ""


Doing = Call | Wait | Emit | Refresh | Ask | Reverse
Answer = Reply | TurnedAway | Spent
Compensating = Generator[Doing, Answer, Settled | CalledOff]
_Part = Generator[Doing, Answer, Settled | CalledOff | None]


@dataclass(slots=True)
class _Job:
    """How far a case has come."""

    case: Case
    now: float
    failure: Failure
    retries: int = 0
    is_refreshed: bool = False
    verdict: Verdict | None = None
    compensation: Compensation | None = None


def compensate(case: Case, failure: Failure) -> Compensating:
    """Drive one failure to its end. A retry that fails in another way is judged by its own verdict."""
    job = _Job(case, case.started_at, failure)
    if failure.category is Category.CANCELLED:
        return CalledOff()  # a cancel is not an error
    if not case.is_recorded:
        yield Emit(_classified(job, case.operation, case.attempt))
    while True:
        play = case.playbook.play_for(job.failure)
        if play is None and job.verdict is None:
            return Settled(CompensationOutcome.EXHAUSTED, failure, "no_verdict")
        if play is None:
            return (yield from _fail(job, "not_retryable"))
        if job.is_refreshed and play.compensation in _TRIES_AGAIN:
            return (yield from _fail(job, "attempts"))
        job.verdict, job.compensation = job.failure.verdict, play.compensation
        ended = yield from _HANDLERS[play.compensation](job, play)
        if ended is not None:
            return ended


def _retry(job: _Job, play: Play) -> _Part:
    case = job.case
    allowed, reason, adjustment = _may_retry(job)
    if allowed and job.retries >= len(play.delays_s):
        reason = "attempts"
    if reason:
        return (yield from _fail(job, reason, job.failure.retry_after_s))
    scheduled_s = play.delays_s[job.retries]
    delay_s, source = scheduled_s, DelaySource.BACKOFF
    if job.failure.retry_after_s is not None:
        # Jitter is only ever added, and is a share of our own delay: half an hour is not prolonged by minutes.
        jitter_s = case.chance() * (case.policy.settings.jitter or 0.0) * scheduled_s
        delay_s, source = job.failure.retry_after_s + jitter_s, DelaySource.RETRY_AFTER
    gate_s = case.standing.gate.opens_in_s(job.now) if case.standing else 0.0
    if gate_s > delay_s:
        delay_s, source = gate_s, DelaySource.GATE
    limit = case.attempt - 1 + len(play.delays_s)
    return (yield from _again(job, delay_s, source, adjustment, limit))


def _refresh(job: _Job, play: Play) -> _Part:
    case = job.case
    allowed, reason, _ = _may_retry(job)
    if allowed and not case.can_refresh:
        reason = "no_refresh"
    job.is_refreshed = True  # from here on every failure ends in a new plan
    if reason:
        return (yield from _fail(job, reason))
    asked_s = job.failure.retry_after_s
    source = DelaySource.IMMEDIATE if asked_s is None else DelaySource.RETRY_AFTER
    limit = case.attempt + job.retries
    return (yield from _again(job, asked_s or 0.0, source, Adjustment.REFRESH_EVIDENCE, limit))


def _deprecate(job: _Job, play: Play) -> _Part:
    if play.queue:
        yield Ask(_question(job, play.queue))
    return (yield from _finish(job, CompensationOutcome.DEPRECATED, "deprecated", queue=play.queue))


def _escalate(job: _Job, play: Play) -> _Part:
    yield Ask(_question(job, play.queue))
    return (yield from _finish(job, CompensationOutcome.ESCALATED, "escalated", queue=play.queue))


def _reverse(job: _Job, play: Play) -> _Part:
    case = job.case
    refused = ""
    if case.reverses is None:
        refused = "no_token"
    elif case.reverses != case.operation:
        refused = "token_of_another_call"
    if not refused:
        reply = yield Reverse(case.operation)
        if isinstance(reply, Returned):
            job.now = reply.now
            return (yield from _finish(job, CompensationOutcome.REVERSED, "reversed"))
        if isinstance(reply, Raised) and reply.failure.category is not Category.CANCELLED:
            # Whether anything was undone is not known; the token is spent either way.
            job.now, job.failure = reply.now, reply.failure
            yield Emit(_classified(job, f"{case.operation}.reversal", 1, reply.duration_s))
            return (yield from _finish(job, CompensationOutcome.EXHAUSTED, "reversal_failed"))
        if not isinstance(reply, Spent):
            return CalledOff()
        job.now, refused = reply.now, "token_already_redeemed"
    yield Emit(events.ReversalRefused(operation=case.operation, reason=refused, action_id=case.action_id))
    return (yield from _finish(job, CompensationOutcome.EXHAUSTED, refused))


_TRIES_AGAIN = frozenset({Compensation.RETRY_WITH_BACKOFF, Compensation.REFRESH_EVIDENCE})
_HANDLERS: dict[Compensation, Callable[[_Job, Play], _Part]] = {
    Compensation.RETRY_WITH_BACKOFF: _retry,
    Compensation.REFRESH_EVIDENCE: _refresh,
    Compensation.DEPRECATE_TOOL_CALL: _deprecate,
    Compensation.ESCALATE_TO_HUMAN: _escalate,
    Compensation.ISSUE_REVERSAL: _reverse,
}


def _may_retry(job: _Job) -> tuple[bool, str, Adjustment | None]:
    """Whether the rules let this call be made again at all, and why not; how many times is the schedule's business."""
    case = job.case
    decision = decide_retry(
        job.failure,
        attempt=case.attempt + job.retries,
        max_retries=None,
        is_foreground=case.is_foreground,
        policy=case.policy,
        chance=lambda: 0.0,
        is_repeatable=case.is_repeatable,
        already=frozenset(),
    )
    if not decision.retry:
        return False, decision.reason, None
    return case.can_retry, "" if case.can_retry else "nothing_to_retry", decision.adjustment


def _again(job: _Job, delay_s: float, source: DelaySource, adjustment: Adjustment | None, limit: int) -> _Part:
    """Wait, then make the call once more; None when it failed in a way that is still to be judged."""
    case = job.case
    if _is_refused(job):
        return (yield from _fail(job, "breaker_open"))
    until = job.now + delay_s
    if until >= case.deadline_at:
        return (yield from _fail(job, "deadline", delay_s))  # nothing sleeps for nothing
    number = case.attempt + job.retries + 1
    yield Emit(
        events.RetryScheduled(
            operation=case.operation,
            attempt=number,
            delay_s=round(delay_s, 4),
            delay_source=source,
            category=job.failure.category,
            max_retries=limit,
            adjustment=adjustment,
        )
    )
    if (yield from _wait(job, until)) is Cause.CANCELLED:
        return CalledOff()
    if _is_refused(job):
        return (yield from _fail(job, "breaker_open"))
    if adjustment is Adjustment.REFRESH_EVIDENCE and job.now < case.deadline_at:
        ended = yield from _renew_evidence(job)
        if ended is not None:
            return ended
    if job.now >= case.deadline_at:
        return (yield from _fail(job, "deadline"))
    left_s = None if case.deadline_at == inf else case.deadline_at - job.now
    reply = yield Call(case.operation, number, 0, adjustment, None, left_s)
    return (yield from _judge(job, number, reply))


def _renew_evidence(job: _Job) -> _Part:
    """None when it is fresh; a retry on stale evidence would be blind."""
    reply = yield Refresh(job.case.operation)
    if isinstance(reply, Returned):
        job.now = reply.now
        return None
    if not isinstance(reply, Raised) or reply.failure.category is Category.CANCELLED:
        return CalledOff()
    job.now = reply.now
    yield Emit(_hook_failed(job.case.operation, reply.failure))
    return (yield from _fail(job, "refresh_failed"))


def _judge(job: _Job, number: int, reply: Answer) -> _Part:
    """What came of a retry."""
    if isinstance(reply, TurnedAway):
        job.now = reply.now
        return (yield from _fail(job, _WHY_NOT[reply.refusal], reply.retry_in_s))
    job.retries += 1
    if isinstance(reply, Returned):
        job.now = reply.now
        duration_s = round(reply.duration_s, 4)
        yield Emit(events.AttemptSucceeded(operation=job.case.operation, attempt=number, duration_s=duration_s))
        return (yield from _finish(job, CompensationOutcome.SUCCEEDED_AFTER_COMPENSATION, "succeeded"))
    if not isinstance(reply, Raised) or reply.failure.category is Category.CANCELLED:
        return CalledOff()
    job.now, job.failure = reply.now, reply.failure
    if not isinstance(reply, Recorded):
        yield Emit(_classified(job, job.case.operation, number, reply.duration_s))
    return None


_WHY_NOT: dict[Refusal, str] = {
    Refusal.OVERRIDE: "breaker_open",
    Refusal.BREAKER: "breaker_open",
    Refusal.GATE: "gate_closed",
    Refusal.DEADLINE: "deadline",
    Refusal.STOPPED: "stopped_by_operator",
}


def _wait(job: _Job, until: float) -> Generator[Doing, Answer, Cause]:
    """Let time pass; a wait that a new desired state ends goes on, unless the operation is tripped."""
    case, began, category = job.case, job.now, job.failure.category
    while True:
        waiting = elapse(case.operation, case.policy.settings, job.now, until, category=category, began=began)
        job.now, cause = yield from waiting
        if cause is not Cause.CHANGED or _is_refused(job):
            return cause


def _is_refused(job: _Job) -> bool:
    """What an open or tripped breaker refuses is not called from here either."""
    standing = job.case.standing
    return standing is not None and standing.breaker.state in _REFUSING


def _fail(job: _Job, reason: str, retry_in_s: float | None = None) -> Generator[Doing, Answer, Settled]:
    """There is no (further) retry. After fresh evidence that means: plan again."""
    outcome = CompensationOutcome.DEPRECATED if job.is_refreshed else CompensationOutcome.EXHAUSTED
    return (yield from _finish(job, outcome, reason, retry_in_s=retry_in_s))


def _finish(
    job: _Job, outcome: CompensationOutcome, reason: str, *, retry_in_s: float | None = None, queue: str = ""
) -> Generator[Doing, Answer, Settled]:
    if job.compensation is not None:
        yield Emit(
            events.CompensationFinished(
                operation=job.case.operation,
                compensation=job.compensation,
                outcome=outcome,
                verdict=job.verdict,
                attempts=job.retries,
                duration_s=round(job.now - job.case.started_at, 4),
            )
        )
    return Settled(outcome, job.failure, reason, job.verdict, job.compensation, job.retries, retry_in_s, queue)


def _question(job: _Job, queue: str) -> events.Escalated:
    asking = job.case.policy.escalations.get(job.failure.category) or Asking(queue=queue)
    return events.Escalated(
        operation=job.case.operation,
        queue=queue,
        reason=job.failure.category.value,
        escalation_id=job.case.escalation_id,
        category=job.failure.category,
        message=job.failure.message,
        deadline_s=asking.deadline_s,
        default_action=asking.default_answer,
    )


def _hook_failed(operation: str, failure: Failure) -> events.HookFailed:
    hook = Adjustment.REFRESH_EVIDENCE.value
    return events.HookFailed(operation=operation, hook=hook, error_type=failure.error_type, message=failure.message)


def _classified(job: _Job, operation: str, attempt: int, duration_s: float | None = None) -> events.FailureClassified:
    failure, case = job.failure, job.case
    retryable = is_retryable(
        failure, is_foreground=case.is_foreground, policy=case.policy, is_repeatable=case.is_repeatable
    )
    return told.failed(
        failure,
        operation=operation,
        standing=case.standing,
        attempt=attempt,
        retryable=retryable,
        duration_s=duration_s,
    )
