"""Carries the playbook out inside an agent: `dispatch_failure` for threads, `dispatch_failure_async` for tasks.

from recovery_ops.runtime import dispatch_failure

try:
    invoice = book(order)
except Exception as error:
    settled = dispatch_failure(error, operation="book", retry=lambda: book(order), is_destructive=False)
    invoice = settled.value if settled.is_success else None   # else: settled.advice says what to do next

For calls that no guard looks after: inside a guard the ladder retries already. The rules are `rules/compensation.py`;
in this package the form for tasks always bears the ending `_async`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Unpack

from recovery_ops.rules.compensation import (
    Answer,
    Ask,
    Case,
    Recorded,
    Refresh,
    Reverse,
    Settled,
    Spent,
    TurnedAway,
    compensate,
)
from recovery_ops.rules.facts import Escalated, HookFailed
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.knobs import Problem
from recovery_ops.rules.policy import OperationPolicy, PolicyInvalid
from recovery_ops.rules.scope import Place
from recovery_ops.rules.steps import Call, Cancelled, Cause, Emit, Raised, Returned, Wait, Woke
from recovery_ops.rules.verdicts import Playbook, parse_playbook
from recovery_ops.rules.words import CompensationOutcome, Refusal
from recovery_ops.runtime.clock import uuid7
from recovery_ops.runtime.concurrency.awaiting import is_async
from recovery_ops.runtime.concurrency.finishing import to_its_end
from recovery_ops.runtime.concurrency.task_libraries import current_library
from recovery_ops.runtime.errors import (
    DeadlineExceeded,
    GateClosed,
    NotConfigured,
    RecoveryExhausted,
    Refused,
    RunCancelled,
    RunStopped,
)
from recovery_ops.runtime.operation import ATTEMPT, Attempt
from recovery_ops.runtime.playbook.settling import CompensationResult, Handling
from recovery_ops.runtime.recovery import in_force
from recovery_ops.runtime.run import CURRENT
from recovery_ops.runtime.signals import Response

Performed = Call | Refresh | Reverse
AnyStep = Performed | Wait | Ask
_OURS = (RecoveryExhausted, Refused)


def dispatch_failure(failure: Failure | Response | BaseException, **said: Unpack[Handling]) -> CompensationResult:
    """Do what the playbook says about a failure, in this thread, and say how it ended.

    `failure_classified` is recorded before anything is done, unless a guard has recorded it. Raises what is not a
    failure: cancels, RunStopped, RunCancelled; PolicyInvalid for a playbook that is none.
    """
    work = _Dispatch(failure, said)
    token = said.get("reversal")
    hooks = (said.get("retry"), said.get("refresh_evidence"), said.get("escalate"), token.undo if token else None)
    for hook in hooks:
        if is_async(hook):
            raise NotConfigured(f"{getattr(hook, '__name__', hook)} is async: use dispatch_failure_async")
    step = work.advance(None)
    while step is not None:
        step = work.advance(_perform(work, step))
    return work.result()


async def dispatch_failure_async(
    failure: Failure | Response | BaseException, **said: Unpack[Handling]
) -> CompensationResult:
    """`dispatch_failure` for tasks: callables may be async, and deadlines cancel them."""
    work = _Dispatch(failure, said)
    step = work.advance(None)
    while step is not None:
        step = work.advance(await _perform_async(work, step))
    return work.result()


class _Dispatch:
    """One failure on its way through the playbook; the part that threads and tasks share."""

    def __init__(self, failure: Failure | Response | BaseException, said: Handling) -> None:
        if isinstance(failure, RunStopped | RunCancelled) or (
            isinstance(failure, BaseException) and not isinstance(failure, Exception)
        ):
            raise failure
        self.recovery = said.get("recovery") or in_force()
        self.said = said
        self.scope = CURRENT.get()
        self.source = said.get("source") or (self.scope.source if self.scope else "")
        self.operation = said.get("operation") or (failure.operation if isinstance(failure, _OURS) else "")
        self.error: object = failure
        self.value: Any = None
        self.key = said.get("idempotency_key") or ATTEMPT.get().idempotency_key
        self.ending: object = None
        self.escalation_id = uuid7(self.recovery.clock.wall_ns())
        classified = failure if isinstance(failure, Failure) else self.failure_of(failure)
        if isinstance(failure, Refused):
            self._compensating = None  # nothing was called, so there is nothing to make good
            self.ending = Settled(CompensationOutcome.EXHAUSTED, classified, "refused")
        else:
            self._compensating = compensate(self._case(failure), classified)

    def _case(self, failure: object) -> Case:
        recovery, said = self.recovery, self.said
        now = recovery.clock.now()
        known = recovery.operations.get(self.operation)
        policy = self._policy(known.standing.policy if known else None)
        foreground = said.get("foreground")
        deadline_s = said.get("deadline_s")
        own = now + (recovery.desired.policy.guards.run_deadline_s if deadline_s is None else deadline_s)
        token, retry = said.get("reversal"), said.get("retry")
        # A guarded retry meets its own breaker, and must meet it: the probe is its to make.
        is_guarded = hasattr(retry, "operation")
        return Case(
            operation=self.operation,
            playbook=_playbook(said.get("playbook"), recovery.desired.policy.playbook),
            policy=policy,
            is_foreground=policy.is_foreground(self.source) if foreground is None else foreground,
            is_repeatable=not said.get("is_destructive", True) or said.get("idempotency_key") is not None,
            started_at=now,
            deadline_at=min(own, self.scope.deadline_at if self.scope else inf),
            chance=recovery.chance,
            can_retry=retry is not None,
            can_refresh=said.get("refresh_evidence") is not None,
            reverses=token.operation if token else None,
            action_id=token.action_id if token else None,
            attempt=said.get("attempt") or (failure.attempts if isinstance(failure, RecoveryExhausted) else 0) or 1,
            is_recorded=isinstance(failure, RecoveryExhausted),
            standing=known.standing if known and not is_guarded else None,
            escalation_id=self.escalation_id,
        )

    def _policy(self, known: OperationPolicy | None) -> OperationPolicy:
        policy = self.said.get("policy")
        if isinstance(policy, OperationPolicy):
            return policy
        if policy is None and known is not None:
            return known
        instance = self.recovery.instance
        place = Place(service=instance.service, instance=instance.instance, operation=self.operation)
        return (policy or self.recovery.desired.policy).for_operation(place)

    def advance(self, answer: Answer) -> AnyStep | None:
        """Send what happened, record what follows, and return the next thing to do; None at the end."""
        recovery = self.recovery
        if self._compensating is None:
            return None
        with recovery.lock:
            try:
                step = self._compensating.send(answer)
                while isinstance(step, Emit):
                    recovery.emit(step.fact, self.scope, source=self.source)
                    step = self._compensating.send(None)
            except StopIteration as end:
                self.ending = end.value
                return None
            if isinstance(step, Ask):
                recovery.emit(step.question, self.scope, source=self.source)
            return step

    def function_of(self, step: Performed) -> Callable[[], Any]:
        """What to call for a step."""
        if isinstance(step, Call):
            function = self.said.get("retry")
        elif isinstance(step, Refresh):
            function = self.said.get("refresh_evidence")
        else:
            token = self.said.get("reversal")
            function = token.undo if token else None
        if function is None:
            raise NotConfigured(f"{self.operation} was not told how to do this")
        return function

    def is_spent(self) -> bool:
        """Redeem the token; True if somebody did before."""
        token, store = self.said.get("reversal"), self.said.get("store")
        return token is None or not token.redeem(store, now=self.recovery.clock.wall())

    def attempt_of(self, step: Performed) -> Attempt:
        """What the callable may know."""
        if not isinstance(step, Call):
            return Attempt(step.operation)
        return Attempt(step.operation, step.attempt, step.deadline_s, step.adjustment, None, self.key)

    def returned(self, step: Performed, value: Any, began: float) -> Answer:
        """It went well."""
        if not isinstance(step, Refresh):
            self.value = value
        now = self.recovery.clock.now()
        return Returned(now, now - began)

    def raised(self, error: BaseException, began: float) -> Answer:
        """It did not; a terminal stop and whatever is not an `Exception` end it like a cancel."""
        self.error = error
        now = self.recovery.clock.now()
        if isinstance(error, RunStopped | RunCancelled) or not isinstance(error, Exception):
            return Cancelled(now)
        if isinstance(error, Refused):
            return TurnedAway(now, _refusal_of(error), self._seconds_until(error.retry_at))
        kind = Recorded if isinstance(error, RecoveryExhausted) else Raised
        return kind(now, self.failure_of(error), now - began)

    def woke(self, cause: Cause) -> Woke:
        """A wait is over."""
        return Woke(self.recovery.clock.now(), cause)

    def hook_failed(self, hook: str, error: Exception) -> None:
        """The caller's hook raised: said, and gone on without."""
        failure = self.failure_of(error)
        fact = HookFailed(operation=self.operation, hook=hook, error_type=failure.error_type, message=failure.message)
        self.recovery.emit(fact, self.scope, source=self.source)

    def failure_of(self, error: object) -> Failure:
        """What an error is."""
        return self.recovery.failure_of(error, self.operation)

    def result(self) -> CompensationResult:
        """How it ended, or the cancel that ended it."""
        settled = self.ending
        if not isinstance(settled, Settled):
            note = self.scope.called_off_note if self.scope is not None else ""
            raise self.error if isinstance(self.error, BaseException) else RunCancelled(self.operation, note=note)
        retry_at = self.error.retry_at if isinstance(self.error, Refused) else None
        if settled.retry_in_s is not None:
            wall = datetime.fromtimestamp(self.recovery.clock.wall(), UTC)
            retry_at = wall + timedelta(seconds=settled.retry_in_s)
        is_success = settled.outcome is CompensationOutcome.SUCCEEDED_AFTER_COMPENSATION
        return CompensationResult(
            outcome=settled.outcome,
            verdict=settled.verdict,
            compensation=settled.compensation,
            failure=settled.failure,
            reason=settled.reason,
            attempts=settled.retries,
            value=self.value,
            error=None if is_success else self.error,
            retry_at=retry_at,
            escalation_id=self.escalation_id if settled.queue else None,
            queue=settled.queue,
        )

    def _seconds_until(self, at: datetime | None) -> float | None:
        return None if at is None else max(0.0, at.timestamp() - self.recovery.clock.wall())


def _perform(work: _Dispatch, step: AnyStep) -> Answer:
    if isinstance(step, Wait):
        try:
            return work.woke(work.recovery.waker.wait(step.delay_s))
        except BaseException as error:  # an interrupt ends the dispatch in order, then goes on
            work.error = error
            return work.woke(Cause.CANCELLED)
    if isinstance(step, Ask):
        try:
            (work.said.get("escalate") or _nobody)(step.question)
        except Exception as error:  # a hook's trouble must not become the caller's
            work.hook_failed("escalate", error)
        return None
    if isinstance(step, Reverse) and work.is_spent():
        return Spent(work.recovery.clock.now())
    began, token = work.recovery.clock.now(), ATTEMPT.set(work.attempt_of(step))
    try:
        return work.returned(step, work.function_of(step)(), began)
    except BaseException as error:  # what is not an Exception is a cancel, and raised again at the end
        return work.raised(error, began)
    finally:
        ATTEMPT.reset(token)


async def _perform_async(work: _Dispatch, step: AnyStep) -> Answer:
    if isinstance(step, Wait):
        try:
            return work.woke(await work.recovery.waker.wait_async(step.delay_s))
        except BaseException as error:
            work.error = error
            return work.woke(Cause.CANCELLED)
    if isinstance(step, Ask):
        try:
            await _awaited((work.said.get("escalate") or _nobody)(step.question))
        except Exception as error:  # a hook's trouble must not become the caller's
            work.hook_failed("escalate", error)
        return None
    if isinstance(step, Reverse) and await to_its_end(work.is_spent):
        return Spent(work.recovery.clock.now())
    began, token = work.recovery.clock.now(), ATTEMPT.set(work.attempt_of(step))
    try:
        async with current_library().timeout(step.deadline_s if isinstance(step, Call) else None):
            value = await _awaited(work.function_of(step)())
        return work.returned(step, value, began)
    except BaseException as error:  # as in `_perform`
        return work.raised(error, began)
    finally:
        ATTEMPT.reset(token)


def _nobody(question: Escalated) -> None:
    """Without a hook the fact alone carries the question."""


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _playbook(given: Playbook | Mapping[str, Any] | None, live: Playbook) -> Playbook:
    if given is None or isinstance(given, Playbook):
        return given or live
    problems: list[Problem] = []
    playbook = parse_playbook(given, "playbook", problems)
    if problems:
        raise PolicyInvalid(problems)
    return playbook


def _refusal_of(error: Refused) -> Refusal:
    if isinstance(error, DeadlineExceeded):
        return Refusal.DEADLINE
    return Refusal.GATE if isinstance(error, GateClosed) else Refusal.BREAKER
