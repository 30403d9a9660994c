"""Carries the playbook out inside an agent, for calls that no guard looks after.

`Recovery.dispatch_failure` and `Recovery.dispatch_failure_async` lead here. The rules are
`rules/playbook/compensation.py`; in this package the form for tasks always bears the ending `_async`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import CompensationOutcome, Refusal
from recovery_ops.rules.playbook.compensation import (
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
from recovery_ops.rules.playbook.verdicts import Playbook, parse_playbook
from recovery_ops.rules.policy.model import OperationPolicy, PolicyInvalid
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.policy.settings import Problem
from recovery_ops.rules.resilience.steps import Call, Cancelled, Cause, Emit, Raised, Returned, Wait, Woke
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.calls.drivers import Blocking, Invoke, Pause, Steps, drive, drive_async
from recovery_ops.runtime.calls.exhaustion import report_of, was_reported
from recovery_ops.runtime.calls.idempotency import NestedCalls
from recovery_ops.runtime.calls.operation import ATTEMPT, Attempt
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import (
    CallRejected,
    ConfigurationError,
    DeadlineExceeded,
    RetryAfterActive,
    RunCancelled,
    RunsPaused,
    StopRun,
)
from recovery_ops.runtime.failures.control_flow import passes_unchanged
from recovery_ops.runtime.failures.signals import Response
from recovery_ops.runtime.guards.argument_checks import check_names
from recovery_ops.runtime.guards.hooks import UserHooks
from recovery_ops.runtime.guards.options import seconds
from recovery_ops.runtime.playbook.results import CompensationResult, DispatchOptions
from recovery_ops.runtime.process.clock import uuid7
from recovery_ops.runtime.runs.context import current_scope

Performed = Call | Refresh | Reverse
AnyStep = Performed | Wait | Ask


def dispatch_failure(
    recovery: Engine, failure: Failure | Response | BaseException, said: DispatchOptions
) -> CompensationResult:
    """Do what the playbook says about a failure, in this thread, and return how it ended."""
    token = said.get("reversal")
    hooks = (said.get("retry"), said.get("refresh_evidence"), said.get("escalate"), token.undo if token else None)
    for hook in hooks:
        if is_async(hook):
            raise ConfigurationError(f"{getattr(hook, '__name__', hook)} is async: use dispatch_failure_async")
    return drive(_dispatched(_Dispatch(recovery, failure, said)))


async def dispatch_failure_async(
    recovery: Engine, failure: Failure | Response | BaseException, said: DispatchOptions
) -> CompensationResult:
    """`dispatch_failure` for tasks: callables may be async, and deadlines cancel them."""
    return await drive_async(_dispatched(_Dispatch(recovery, failure, said)))


class _Dispatch:
    """One failure on its way through the playbook; the part that threads and tasks share."""

    def __init__(self, recovery: Engine, failure: Failure | Response | BaseException, said: DispatchOptions) -> None:
        check_names("dispatch_failure", said, DispatchOptions.__annotations__)
        self.recovery = recovery
        if isinstance(failure, BaseException) and self._passes(failure):
            raise failure
        self.said = said
        self.scope = current_scope()
        self.source = said.get("source") or (self.scope.source if self.scope else "") or self.recovery.default_source
        self.report = report_of(failure) if isinstance(failure, BaseException) else None
        self.operation = said.get("operation") or (self.report.operation if self.report else "")
        self.error: object = failure
        self.value: Any = None
        self._begin_keys()
        self.ending: object = None
        self.seen = 0
        """The changes that the last decision took into account."""
        self.escalation_id = uuid7(self.recovery.clock.wall_ns())
        classified = failure if isinstance(failure, Failure) else self.failure_of(failure)
        if isinstance(failure, CallRejected):
            self._compensating = None  # nothing was called, so there is nothing to make good
            self.ending = Settled(CompensationOutcome.EXHAUSTED, classified, "refused")
        else:
            self._compensating = compensate(self._case(failure), classified)

    def _begin_keys(self) -> None:
        """A retry sends the key of what it is called in; the guarded call that failed is met with its own key again."""
        around, given = ATTEMPT.get(), self.said.get("idempotency_key")
        self.key = given or around.idempotency_key
        self._parent = given
        if given is None and around.nested is not None:
            self._parent = around.nested.key_of(f"dispatch {self.operation}", (), {})
        failed = self.report.idempotency_key if self.report else None
        self._pinned = {self.operation: failed} if failed else {}

    def _case(self, failure: object) -> Case:
        recovery, said = self.recovery, self.said
        now = recovery.clock.now()
        known = recovery.operations.get(self.operation)
        policy = self._policy(known.standing.policy if known else None)
        foreground = said.get("foreground")
        timeout_s = seconds(said.get("timeout"))
        own = now + (recovery.desired.policy.guards.run_deadline_s if timeout_s is None else timeout_s)
        token, retry = said.get("reversal"), said.get("retry")
        # A guarded retry meets its own breaker, and must meet it: the probe is its to make.
        is_guarded = hasattr(retry, "operation")
        return Case(
            operation=self.operation,
            playbook=_playbook(said.get("playbook"), recovery.desired.policy.playbook),
            policy=policy,
            is_foreground=policy.is_foreground(self.source) if foreground is None else foreground,
            is_repeatable=said.get("idempotent", False) or said.get("idempotency_key") is not None,
            started_at=now,
            deadline_at=min(own, self.scope.deadline_at if self.scope else inf),
            chance=recovery.chance,
            can_retry=retry is not None,
            can_refresh=said.get("refresh_evidence") is not None,
            reverses=token.operation if token else None,
            action_id=token.action_id if token else None,
            attempt=said.get("attempt") or (self.report.attempts if self.report else 0) or 1,
            is_recorded=self.report is not None,
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
            self.seen = recovery.waker.changes
            try:
                step = self._compensating.send(answer)
                while isinstance(step, Emit):
                    recovery.emit(step.event, self.scope, source=self.source)
                    step = self._compensating.send(None)
            except StopIteration as end:
                self.ending = end.value
                return None
            if isinstance(step, Ask):
                recovery.emit(step.question, self.scope, source=self.source)
            return step

    def function_of(self, step: Performed) -> Callable[[], Any]:
        """The callable for a step."""
        if isinstance(step, Call):
            function = self.said.get("retry")
        elif isinstance(step, Refresh):
            function = self.said.get("refresh_evidence")
        else:
            token = self.said.get("reversal")
            function = token.undo if token else None
        if function is None:
            raise ConfigurationError(f"{self.operation} was not told how to do this")
        return function

    def is_spent(self) -> bool:
        """Redeem the token; True if somebody did before."""
        token, store = self.said.get("reversal"), self.said.get("store")
        return token is None or not token.redeem(store, now=self.recovery.clock.wall())

    def attempt_of(self, step: Performed) -> Attempt:
        """The attempt that the callable may read."""
        if not isinstance(step, Call):
            return Attempt(step.operation)
        nested = NestedCalls(self._parent, self._pinned) if self._parent else None
        return Attempt(step.operation, step.attempt, step.deadline_s, step.adjustment, None, self.key, nested=nested)

    def returned(self, step: Performed, value: Any, began: float) -> Answer:
        """The reply for a callable that returned."""
        if not isinstance(step, Refresh):
            self.value = value
        now = self.recovery.clock.now()
        return Returned(now, now - began)

    def raised(self, error: BaseException, began: float) -> Answer:
        """The reply for a callable that raised; a terminal stop, or no `Exception`, ends it like a cancel."""
        self.error = error
        now = self.recovery.clock.now()
        if self._passes(error):
            return Cancelled(now)
        if isinstance(error, CallRejected):
            return TurnedAway(now, _refusal_of(error), self._seconds_until(error.retry_at))
        kind = Recorded if was_reported(error, began, self.recovery.clock) else Raised
        return kind(now, self.failure_of(error), now - began)

    @property
    def is_called_off(self) -> bool:
        """Whether the run was cancelled: then nothing is waited for, and nothing is called any more."""
        return self.scope is not None and self.scope.is_cancelled

    def called_off(self, step: AnyStep) -> Answer:
        """The run was cancelled before this step was taken."""
        self.error = RunCancelled(self.operation, note=self.scope.called_off_note if self.scope is not None else "")
        return self.woke(Cause.CANCELLED) if isinstance(step, Wait) else Cancelled(self.recovery.clock.now())

    def _passes(self, error: BaseException) -> bool:
        is_end = isinstance(error, StopRun | RunCancelled)
        return is_end or passes_unchanged(error, self.recovery.control_flow)

    def woke(self, cause: Cause) -> Woke:
        """A wait is over."""
        return Woke(self.recovery.clock.now(), cause)

    def hook_failed(self, hook: str, error: Exception) -> None:
        """The caller's hook raised: said, and gone on without, because its trouble must not become the caller's."""
        if self._passes(error):
            raise error
        UserHooks(self.recovery, self.operation, self.source, self.scope).failed(hook, error)

    def failure_of(self, error: object) -> Failure:
        """The failure that an error stands for."""
        return self.recovery.failure_of(error, self.operation)

    def result(self) -> CompensationResult:
        """The result, or the cancel that ended it."""
        settled = self.ending
        if not isinstance(settled, Settled):
            raise self.error if isinstance(self.error, BaseException) else RunCancelled(self.operation)
        retry_at = self.error.retry_at if isinstance(self.error, CallRejected) else None
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


def _dispatched(work: _Dispatch) -> Steps[CompensationResult]:
    step = work.advance(None)
    while step is not None:
        step = work.advance((yield from _reply_to(work, step)))
    return work.result()


def _reply_to(work: _Dispatch, step: AnyStep) -> Steps[Answer]:
    """The result of a step."""
    recovery = work.recovery
    if work.is_called_off:
        return work.called_off(step)
    if isinstance(step, Wait):
        try:
            return work.woke((yield Pause(recovery.waker, step.delay_s, work.seen)))
        except BaseException as error:  # an interrupt ends the dispatch in order, then goes on
            work.error = error
            return work.woke(Cause.CANCELLED)
    if isinstance(step, Ask):
        hook = work.said.get("escalate")
        if hook is not None:
            try:
                yield Invoke(hook, (step.question,))
            except Exception as error:
                work.hook_failed("escalate", error)
        return None
    if isinstance(step, Reverse) and (yield Blocking(work.is_spent)):
        return Spent(recovery.clock.now())
    deadline_s = step.deadline_s if isinstance(step, Call) else None
    began = recovery.clock.now()
    try:
        value = yield Invoke(work.function_of(step), deadline_s=deadline_s, attempt=work.attempt_of(step))
        return work.returned(step, value, began)
    except BaseException as error:  # an error that is not an Exception is a cancel, and raised again at the end
        return work.raised(error, began)


def _playbook(given: Playbook | Mapping[str, Any] | None, live: Playbook) -> Playbook:
    if given is None or isinstance(given, Playbook):
        return given or live
    problems: list[Problem] = []
    playbook = parse_playbook(given, "playbook", problems)
    if problems:
        raise PolicyInvalid(problems)
    return playbook


def _refusal_of(error: CallRejected) -> Refusal:
    if isinstance(error, DeadlineExceeded):
        return Refusal.DEADLINE
    if isinstance(error, RunsPaused):
        return Refusal.STOPPED
    return Refusal.GATE if isinstance(error, RetryAfterActive) else Refusal.BREAKER
