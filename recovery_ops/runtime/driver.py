"""Drives the ladder with real calls and real waits: one small loop for threads, one for tasks, the rest shared."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.facts import HookFailed
from recovery_ops.rules.ladder import climb
from recovery_ops.rules.model_chain import NO_NEEDS
from recovery_ops.rules.standing import Climb
from recovery_ops.rules.steps import (
    Answered,
    Call,
    CalledOff,
    Cancelled,
    Cause,
    Emit,
    Ending,
    Failed,
    Raised,
    Refused,
    Reply,
    Returned,
    Stopped,
    Wait,
    Withdrawn,
    Woke,
)
from recovery_ops.rules.words import Adjustment, Refusal
from recovery_ops.runtime.errors import (
    CircuitOpen,
    DeadlineExceeded,
    GateClosed,
    RecoveryError,
    RecoveryExhausted,
    RunCancelled,
    RunStopped,
)
from recovery_ops.runtime.operation import ATTEMPT, Attempt, Degraded, Outcome, Plan
from recovery_ops.runtime.run import CURRENT
from recovery_ops.runtime.signals import classify
from recovery_ops.runtime.task_libraries import current_library

if TYPE_CHECKING:
    from recovery_ops.runtime.recovery import Recovery


class Ascent:
    """One logical call on its way up the ladder; the part that threads and tasks share."""

    def __init__(self, recovery: Recovery, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recovery = recovery
        self.plan = plan
        self.scope = CURRENT.get()
        self.source = plan.source or (self.scope.source if self.scope else "")
        self.cell = plan.operation.cell(self.source)
        self._args, self._kwargs = args, kwargs
        # Without a key of its own it is the key of what it is called from: a step of a workflow has one.
        self._key = plan.idempotency_key(*args, **kwargs) if plan.idempotency_key else ATTEMPT.get().idempotency_key
        self.value: Any = None
        self.last_error: BaseException | None = None
        self.ending: Ending | None = None
        self._quick_attempts = 0

    def begin(self, now: float, quick: tuple[BaseException, float] | None) -> Call | Wait | None:
        """The first step; `quick` is the error and the start of an attempt that the quick path made."""
        began, first = now, None
        if quick is not None:
            self.last_error, began = quick
            self._quick_attempts = 1
            first = Raised(now, self._failure(self.last_error), max(0.0, now - began))
        plan = self.plan
        self._climbing = climb(
            Climb(
                standing=plan.operation.standing,
                source=self.source,
                started_at=began,
                deadline_at=self.recovery.deadline_at(plan.operation, self.scope, began),
                chance=self.recovery.chance,
                alternatives=tuple(other for other, _ in plan.alternatives),
                is_optional=plan.is_optional,
                is_repeatable=plan.is_repeatable,
                fixes=plan.fixes,
                model=plan.model,
                tool=plan.tool,
                needs=plan.needs(*self._args, **self._kwargs) if plan.needs else NO_NEEDS,
            ),
            first,
        )
        if quick is None:
            with self.recovery.lock:
                self.cell.calls += 1
        return self.advance(None)

    def advance(self, reply: Reply) -> Call | Wait | None:
        """Send what happened, record what follows, and return the next call or wait; None at the end."""
        recovery = self.recovery
        with recovery.lock:
            try:
                step = self._climbing.send(reply)
                while isinstance(step, Emit):
                    recovery.record(step.fact, source=self.source, scope=self.scope)
                    step = self._climbing.send(None)
            except StopIteration as end:
                self.ending = end.value
                self._settle()
                recovery.refresh(self.plan.operation)
                return None
            if isinstance(step, Call):
                recovery.cell_of(step.operation, self.source).attempts += 1
            else:
                self.cell.waiting += 1
            recovery.refresh(self.plan.operation)
            return step

    def prepare(self, step: Call) -> Any:
        """The callable for a step, with its context variable set; the token must be given to `release`."""
        attempt = Attempt(
            step.operation, step.attempt, step.deadline_s, step.adjustment, step.max_tokens, self._key, step.model
        )
        return self.plan.function_of(step.operation, step.level), ATTEMPT.set(attempt)

    def hook_for(self, step: Call) -> Any:
        """The caller's hook for an adjustment, None where there is none."""
        return self.plan.hooks.get(step.adjustment) if step.adjustment else None

    def hook_failed(self, adjustment: Adjustment | None, error: Exception) -> None:
        """The caller's hook raised: said, and gone on without."""
        name = adjustment.value if adjustment else ""
        failure = self._failure(error)
        fact = HookFailed(
            operation=self.plan.operation.name, hook=name, error_type=failure.error_type, message=failure.message
        )
        with self.recovery.lock:
            self.recovery.record(fact, source=self.source, scope=self.scope)

    def returned(self, value: Any, began: float) -> Returned:
        """The attempt succeeded."""
        now = self.recovery.clock.now()
        self.value = value
        self.cell.took(now - began)
        with self.recovery.lock:
            self.cell.counts["successes"] += 1
        return Returned(now, now - began)

    def raised(self, error: BaseException, began: float) -> Reply:
        """The attempt failed; whatever is not an `Exception` is a cancel."""
        self.last_error = error
        now = self.recovery.clock.now()
        if not isinstance(error, Exception):
            return Cancelled(now)
        return Raised(now, self._failure(error), now - began)

    def woke(self, cause: Cause) -> Woke:
        """A wait is over."""
        with self.recovery.lock:
            self.cell.waiting -= 1
        return Woke(self.recovery.clock.now(), cause)

    def outcome(self) -> Outcome:
        """The result, or the error the caller gets."""
        ending = self.ending
        if isinstance(ending, Answered):
            if ending.level and self.scope and ending.warning:
                self.scope.warnings.append(ending.warning)
            fallback = ending.name if ending.level else None
            return Outcome(self.value, ending.attempts, fallback, ending.warning, ending.data_age_s)
        if isinstance(ending, Withdrawn):
            name = self.plan.operation.name
            if self.scope:
                self.scope.withdrawn.add(name)
            return Outcome(Degraded(name, ending.reason))
        error = self._error(ending)
        if error is self.last_error:
            raise error
        raise error from self.last_error

    def _error(self, ending: Ending | None) -> BaseException:
        name = self.plan.operation.name
        if isinstance(ending, Refused):
            return self._refused(ending)
        if isinstance(ending, Stopped):
            return RunStopped(ending.failure.category, ending.failure.user_message, operation=name)
        if isinstance(ending, Failed):
            failure = ending.failure
            return RecoveryExhausted(
                name,
                last_error=self.last_error,
                attempts=ending.attempts,
                rungs=ending.rungs,
                reason=ending.reason,
                category=failure.category if failure else None,
                retry_at=self._at(ending.retry_in_s),
                user_message=failure.user_message if failure else "",
                suggestion=failure.suggestion if failure else "",
            )
        if isinstance(ending, CalledOff) and self.last_error is not None:
            return self.last_error
        return RunCancelled(name)

    def _refused(self, ending: Refused) -> RecoveryError:
        name, breaker = self.plan.operation.name, self.plan.operation.standing.breaker
        if ending.refusal is Refusal.DEADLINE:
            return DeadlineExceeded(name)
        retry_at = self._at(ending.retry_in_s)
        if ending.refusal is Refusal.GATE:
            return GateClosed(name, retry_at=retry_at)
        note = self.recovery.note_on(breaker.name, self.plan.operation.place)
        return CircuitOpen(name, breaker=breaker.name, state=ending.state, retry_at=retry_at, note=note)

    def _at(self, in_s: float | None) -> datetime | None:
        if in_s is None:
            return None
        return datetime.fromtimestamp(self.recovery.clock.wall(), UTC) + timedelta(seconds=in_s)

    def _failure(self, error: BaseException) -> Any:
        return classify(error, now=self.recovery.clock.wall())

    def _settle(self) -> None:
        self.cell.climbed()
        if self.scope is not None and isinstance(self.ending, Answered | Failed):
            self.scope.attempts += self.ending.attempts


def drive(
    recovery: Recovery,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    quick: tuple[BaseException, float] | None = None,
) -> Outcome:
    """Climb in this thread."""
    ascent = Ascent(recovery, plan, args, kwargs)
    now = recovery.clock.now
    step = ascent.begin(now(), quick)
    while step is not None:
        if isinstance(step, Wait):
            try:
                cause = recovery.waker.wait(step.delay_s)
            except BaseException as error:  # an interrupt ends the climb in order, then goes on
                ascent.last_error = error
                cause = Cause.CANCELLED
            step = ascent.advance(ascent.woke(cause))
            continue
        _run_hook(ascent, step)
        function, token = ascent.prepare(step)
        began = now()
        try:
            reply: Reply = ascent.returned(function(*args, **kwargs), began)
        except BaseException as error:  # what is not an Exception is a cancel, and raised again below
            reply = ascent.raised(error, began)
        finally:
            ATTEMPT.reset(token)
        step = ascent.advance(reply)
    return ascent.outcome()


async def drive_async(
    recovery: Recovery,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    quick: tuple[BaseException, float] | None = None,
) -> Outcome:
    """Climb in this task."""
    ascent = Ascent(recovery, plan, args, kwargs)
    now = recovery.clock.now
    step = ascent.begin(now(), quick)
    while step is not None:
        if isinstance(step, Wait):
            try:
                cause = await recovery.waker.wait_async(step.delay_s)
            except BaseException as error:
                ascent.last_error = error
                cause = Cause.CANCELLED
            step = ascent.advance(ascent.woke(cause))
            continue
        await _run_hook_async(ascent, step)
        function, token = ascent.prepare(step)
        began = now()
        try:
            async with current_library().timeout(step.deadline_s):
                value = function(*args, **kwargs)
                if inspect.isawaitable(value):
                    value = await value
            reply: Reply = ascent.returned(value, began)
        except BaseException as error:  # as in `drive`
            reply = ascent.raised(error, began)
        finally:
            ATTEMPT.reset(token)
        step = ascent.advance(reply)
    return ascent.outcome()


def _run_hook(ascent: Ascent, step: Call) -> None:
    hook = ascent.hook_for(step)
    if hook is None:
        return
    try:
        hook()
    except Exception as error:  # a hook's trouble must not become the caller's
        ascent.hook_failed(step.adjustment, error)


async def _run_hook_async(ascent: Ascent, step: Call) -> None:
    hook = ascent.hook_for(step)
    if hook is None:
        return
    try:
        found = hook()
        if inspect.isawaitable(found):
            await found
    except Exception as error:  # a hook's trouble must not become the caller's
        ascent.hook_failed(step.adjustment, error)
