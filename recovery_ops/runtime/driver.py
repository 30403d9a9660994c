"""Drives the ladder with real calls and real waits: one small loop for threads, one for tasks, the rest shared."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from recovery_ops.rules.escalations import ALLOW
from recovery_ops.rules.facts import HookFailed, WaitHeartbeat
from recovery_ops.rules.ladder import climb
from recovery_ops.rules.model_chain import NO_NEEDS
from recovery_ops.rules.standing import Climb
from recovery_ops.rules.steps import (
    Answered,
    AskUser,
    Call,
    CalledOff,
    Cancelled,
    Cause,
    Decided,
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
from recovery_ops.rules.words import Refusal
from recovery_ops.runtime.concurrency.task_libraries import current_library
from recovery_ops.runtime.errors import (
    CircuitOpen,
    DeadlineExceeded,
    GateClosed,
    LoadShed,
    RecoveryError,
    RecoveryExhausted,
    RunCancelled,
    RunStopped,
)
from recovery_ops.runtime.operation import ATTEMPT, Attempt, Degraded, Outcome, Plan
from recovery_ops.runtime.run import CURRENT

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
        self.args, self.kwargs = args, kwargs
        # Without a key of its own it is the key of what it is called from: a step of a workflow has one.
        own = plan.idempotency_key(*args, **kwargs) if plan.idempotency_key else None
        self._key = own if plan.idempotency_key else ATTEMPT.get().idempotency_key
        # A function that has no key for this call ("" or None) makes nothing safe to repeat.
        self._is_repeatable = plan.is_repeatable or bool(own)
        self.value: Any = None
        self.last_error: BaseException | None = None
        self.ending: Ending | None = None
        self.beats: list[WaitHeartbeat] = []
        """Heartbeats that the caller's hook has not been told yet."""
        self._is_holding = False

    def begin(self, now: float, quick: tuple[BaseException, float] | None) -> Call | Wait | AskUser | None:
        """The first step; `quick` is the error and the start of an attempt that the quick path made."""
        began, first = now, None
        if quick is not None:
            self.last_error, began = quick
            failure = self._failure(self.last_error, self.plan.operation.name)
            first = Raised(now, failure, max(0.0, now - began))
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
                is_repeatable=self._is_repeatable,
                fixes=plan.fixes,
                model=plan.model,
                tool=plan.tool,
                needs=plan.needs(*self.args, **self.kwargs) if plan.needs else NO_NEEDS,
                can_ask_user=plan.ask_user is not None,
            ),
            first,
        )
        if plan.operation.standing.policy.knobs.persistent and self.scope is not None:
            self._is_holding = True
            self.scope.hold(now)  # persistent mode replaces the deadline of the run by its own cap
        if quick is None:
            with self.recovery.lock:
                self.cell.calls += 1
        return self.advance(None)

    def advance(self, reply: Reply) -> Call | Wait | AskUser | None:
        """Send what happened, record what follows, and return the next thing to do; None at the end."""
        recovery = self.recovery
        with recovery.lock:
            try:
                step = self._climbing.send(reply)
                while isinstance(step, Emit):
                    recovery.record(step.fact, source=self.source, scope=self.scope)
                    if isinstance(step.fact, WaitHeartbeat) and self.plan.on_heartbeat is not None:
                        self.beats.append(step.fact)
                    step = self._climbing.send(None)
            except StopIteration as end:
                self.ending = end.value
                self._settle()
                recovery.refresh(self.plan.operation)
                return None
            if isinstance(step, Call):
                recovery.cell_of(step.operation, self.source).attempts += 1
            elif isinstance(step, Wait):
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

    @property
    def is_called_off(self) -> bool:
        """Whether the run was cancelled: then nothing is waited for, and nothing is called any more."""
        return self.scope is not None and self.scope.is_cancelled

    def let_go(self) -> None:
        """The deadline of the run goes on, if it stood still for the whole of the climb."""
        if self._is_holding and self.scope is not None:
            self._is_holding = False
            self.scope.let_go(self.recovery.clock.now())

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The deadline of the run stands still."""
        if self.scope is not None:
            self.scope.hold(self.recovery.clock.now())
        try:
            yield
        finally:
            if self.scope is not None:
                self.scope.let_go(self.recovery.clock.now())

    def decided(self, step: AskUser, answer: object) -> Decided:
        """What the user said; silence is the default answer."""
        is_yes = step.question.default_action == ALLOW if answer is None else answer is True
        return Decided(self.recovery.clock.now(), is_yes)

    def hook_failed(self, name: str, error: Exception) -> None:
        """The caller's hook raised: said, and gone on without."""
        failure = self._failure(error, "")
        fact = HookFailed(
            operation=self.plan.operation.name, hook=name, error_type=failure.error_type, message=failure.message
        )
        with self.recovery.lock:
            self.recovery.record(fact, source=self.source, scope=self.scope)

    def returned(self, value: Any, began: float) -> Returned:
        """The attempt succeeded."""
        now = self.recovery.clock.now()
        self.value = value
        if self.plan.operation.call_deadline_s:
            self.cell.took(now - began)
        with self.recovery.lock:
            self.cell.counts["successes"] += 1
        return Returned(now, now - began)

    def raised(self, step: Call, error: BaseException, began: float) -> Reply:
        """The attempt failed; whatever is not an `Exception` is a cancel."""
        self.last_error = error
        now = self.recovery.clock.now()
        if not isinstance(error, Exception):
            return Cancelled(now)
        return Raised(now, self._failure(error, step.operation), now - began)

    def interrupted(self, step: Call | Wait | AskUser, error: BaseException) -> Reply:
        """A cancel or an interrupt came before the step was done."""
        self.last_error = error
        return self.called_off(step)

    def called_off(self, step: Call | Wait | AskUser) -> Reply:
        """The run was cancelled before this step was taken."""
        return self.woke(Cause.CANCELLED) if isinstance(step, Wait) else Cancelled(self.recovery.clock.now())

    def beats_due(self) -> list[WaitHeartbeat]:
        """The heartbeats to tell the caller's hook of, once."""
        due, self.beats = self.beats, []
        return due

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
                failure=failure,
            )
        is_interrupt = self.last_error is not None and not isinstance(self.last_error, Exception)
        is_the_runs = self.is_called_off and not is_interrupt
        if isinstance(ending, CalledOff) and self.last_error is not None and not is_the_runs:
            return self.last_error
        return RunCancelled(name, note=self.scope.called_off_note if self.scope is not None else "")

    def _refused(self, ending: Refused) -> RecoveryError:
        name, breaker = self.plan.operation.name, self.plan.operation.standing.breaker
        if ending.refusal is Refusal.DEADLINE:
            return DeadlineExceeded(name)
        if ending.refusal is Refusal.SHED:
            held = self.recovery.load_shed()
            if held is None:
                return LoadShed(name)
            return LoadShed(
                name, retry_at=datetime.fromtimestamp(held.expires_at, UTC), note=f"{held.by}: {held.reason}"
            )
        retry_at = self._at(ending.retry_in_s)
        if ending.refusal is Refusal.GATE:
            return GateClosed(name, retry_at=retry_at)
        note = self.recovery.note_on(breaker.name, self.plan.operation.place)
        return CircuitOpen(name, breaker=breaker.name, state=ending.state, retry_at=retry_at, note=note)

    def _at(self, in_s: float | None) -> datetime | None:
        if in_s is None:
            return None
        return datetime.fromtimestamp(self.recovery.clock.wall(), UTC) + timedelta(seconds=in_s)

    def _failure(self, error: BaseException, operation: str) -> Any:
        return self.recovery.failure_of(error, operation)

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
    try:
        step = ascent.begin(recovery.clock.now(), quick)
        while step is not None:
            step = ascent.advance(_taken(ascent, step))
    finally:
        ascent.let_go()
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
    try:
        step = ascent.begin(recovery.clock.now(), quick)
        while step is not None:
            step = ascent.advance(await _taken_async(ascent, step))
    finally:
        ascent.let_go()
    return ascent.outcome()


def _taken(ascent: Ascent, step: Call | Wait | AskUser) -> Reply:
    """What came of a step. An interrupt ends the climb in order, and is raised again when it has ended."""
    plan, recovery = ascent.plan, ascent.recovery
    try:
        for beat in ascent.beats_due():
            _told(ascent, "on_heartbeat", plan.on_heartbeat, beat)
        if ascent.is_called_off:
            return ascent.called_off(step)
        if isinstance(step, Wait):
            return ascent.woke(recovery.waker.wait(step.delay_s))
        if isinstance(step, AskUser):
            with ascent.held():
                return ascent.decided(step, _told(ascent, "ask_user", plan.ask_user, step.question))
        hook = ascent.hook_for(step)
        if hook is not None and step.adjustment is not None:
            _told(ascent, step.adjustment.value, hook)
        function, token = ascent.prepare(step)
    except BaseException as error:
        return ascent.interrupted(step, error)
    began = recovery.clock.now()
    try:
        return ascent.returned(function(*ascent.args, **ascent.kwargs), began)
    except BaseException as error:  # what is not an Exception is a cancel
        return ascent.raised(step, error, began)
    finally:
        ATTEMPT.reset(token)


async def _taken_async(ascent: Ascent, step: Call | Wait | AskUser) -> Reply:
    """`_taken` for tasks."""
    plan, recovery = ascent.plan, ascent.recovery
    try:
        for beat in ascent.beats_due():
            await _told_async(ascent, "on_heartbeat", plan.on_heartbeat, beat)
        if ascent.is_called_off:
            return ascent.called_off(step)
        if isinstance(step, Wait):
            return ascent.woke(await recovery.waker.wait_async(step.delay_s))
        if isinstance(step, AskUser):
            with ascent.held():
                question = step.question
                asked = _told_async(ascent, "ask_user", plan.ask_user, question, patience_s=question.deadline_s)
                return ascent.decided(step, await asked)
        hook = ascent.hook_for(step)
        if hook is not None and step.adjustment is not None:
            await _told_async(ascent, step.adjustment.value, hook)
        function, token = ascent.prepare(step)
    except BaseException as error:
        return ascent.interrupted(step, error)
    began = recovery.clock.now()
    try:
        async with current_library().timeout(step.deadline_s):
            value = function(*ascent.args, **ascent.kwargs)
            if inspect.isawaitable(value):
                value = await value
        return ascent.returned(value, began)
    except BaseException as error:  # as in `_taken`
        return ascent.raised(step, error, began)
    finally:
        ATTEMPT.reset(token)


def _told(ascent: Ascent, name: str, hook: Callable[..., Any] | None, *what: object) -> object:
    """What a hook of the caller says; nothing where it raises: its trouble must not become the caller's."""
    try:
        return hook(*what) if hook is not None else None
    except Exception as error:
        ascent.hook_failed(name, error)
        return None


async def _told_async(
    ascent: Ascent, name: str, hook: Callable[..., Any] | None, *what: object, patience_s: float | None = None
) -> object:
    """`_told` for tasks; nothing also where the hook does not come back in time."""
    try:
        async with current_library().timeout(patience_s):
            found = hook(*what) if hook is not None else None
            return await found if inspect.isawaitable(found) else found
    except Exception as error:
        ascent.hook_failed(name, error)
        return None
