"""One guarded call on its way through the recovery steps; the part that threads and tasks share."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.events import Event, WaitHeartbeat
from recovery_ops.rules.policy.escalation_rules import ALLOW
from recovery_ops.rules.resilience.call_context import CallContext
from recovery_ops.rules.resilience.call_steps import call_steps
from recovery_ops.rules.resilience.model_chain import NO_NEEDS
from recovery_ops.rules.resilience.steps import (
    Action,
    Answered,
    AskUser,
    Call,
    Cancelled,
    Cause,
    Decided,
    Emit,
    Ending,
    LeftOut,
    Raised,
    Reply,
    Reserve,
    Returned,
    Wait,
    Withdrawn,
    Woke,
)
from recovery_ops.runtime.calls import log_lines as logs
from recovery_ops.runtime.calls.drivers import Steps
from recovery_ops.runtime.calls.errors import CallErrors, CallHistory
from recovery_ops.runtime.calls.exhaustion import report_of, was_exhausted_inside
from recovery_ops.runtime.calls.operation import ATTEMPT, Attempt, Degraded, Outcome, Plan
from recovery_ops.runtime.calls.streams import Opened, opened
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.failures.control_flow import passes_unchanged
from recovery_ops.runtime.guards.hooks import UserHooks
from recovery_ops.runtime.guards.retry_conditions import RejectedResult
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.spending.calls import CallSpending


class CallExecution:
    """One logical call on its way up the ladder; the part that threads and tasks share."""

    def __init__(self, recovery: Engine, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recovery = recovery
        self.plan = plan
        self.scope = current_scope()
        self.source = plan.source or (self.scope.source if self.scope else "") or recovery.default_source
        self.cell = plan.operation.cell(self.source)
        self.args, self.kwargs = args, kwargs
        own = plan.idempotency_key(*args, **kwargs) if plan.idempotency_key else None
        around = ATTEMPT.get().nested if plan.idempotency_key is None else None
        key = own if around is None else around.key_of(plan.operation.name, args, kwargs)
        # A function that has no key for this call ("" or None) makes nothing safe to repeat.
        self._is_repeatable = plan.is_repeatable or bool(own)
        self._needs = plan.needs(*args, **kwargs) if plan.needs else NO_NEEDS
        self.history = CallHistory(key)
        self.hooks = UserHooks(recovery, plan.operation.name, self.source, self.scope)
        self.spending: CallSpending | None = None
        """Set by the first model call that spend caps limit."""
        self.value: Any = None
        self.ending: Ending | None = None
        self.part = ""
        """The text that the caller has of a stream that broke."""
        self.beats: list[WaitHeartbeat] = []
        """Heartbeats that the caller's hook has not been told yet."""
        self._is_holding = False
        self._attempts = 0
        self._fallback_keys: dict[str, str | None] = {}
        self._nested: object = None
        """Kept until the next attempt, for a fork between the two."""
        self.pending: Awaitable[Any] | None = None
        """The awaitable that the attempt of the fast path returned."""
        self.seen = 0
        """The changes that the last decision took into account."""

    def begin(self, now: float, quick: tuple[BaseException, float] | None) -> Action | None:
        """The first step; `quick` is the error and the start of an attempt that the fast path made."""
        began, first = now, None
        if quick is not None:
            error, began = quick
            self.history.last_error, self._attempts = error, 1
            try:
                failure = self._failure(error, self.plan.operation.name, began)
            except BaseException:  # control flow, or an interrupt, of a predicate
                self.recovery.count_cancelled(self.cell)
                raise
            first = Raised(now, failure, max(0.0, now - began))
        plan = self.plan
        self._steps = call_steps(
            CallContext(
                standing=plan.operation.standing,
                source=self.source,
                started_at=began,
                deadline_at=self.recovery.deadline_at(plan, self.scope, began),
                chance=self.recovery.chance,
                alternatives=tuple(other for other, _ in plan.alternatives),
                is_optional=plan.is_optional,
                is_foundational=plan.is_foundational,
                is_repeatable=self._is_repeatable,
                fixes=plan.fixes,
                model=plan.model,
                credentials=plan.credentials,
                tool=plan.tool,
                needs=self._needs,
                tells_model=plan.tells_model,
                on_broken_stream=plan.on_broken_stream,
                can_ask_user=plan.ask_user is not None,
                is_single=plan.is_single,
                is_full_jitter=plan.is_full_jitter,
                is_outside_of_runs=self.scope is None or not self.scope.is_in_run_of(self.recovery),
            ),
            first,
        )
        if plan.operation.standing.policy.settings.persistent and self.scope is not None:
            self._is_holding = True
            self.scope.hold(now)  # persistent mode replaces the deadline of the run by its own cap
        if quick is None:
            with self.recovery.lock:
                self.cell.calls += 1
        return self.advance(None)

    def advance(self, reply: Reply) -> Action | None:
        """Send what happened, record and log what follows, and return the next thing to do; None at the end."""
        noted: list[Event] = []
        step = self._advanced(reply, noted)
        if noted:
            is_foreground = self.plan.operation.standing.policy.is_foreground(self.source)
            logs.write(noted, source=self.source, is_foreground=is_foreground)
        return step

    def _advanced(self, reply: Reply, noted: list[Event]) -> Action | None:
        recovery = self.recovery
        with recovery.lock:
            self.seen = recovery.waker.changes  # before the decision: what changes after it ends its wait
            try:
                step = self._steps.send(reply)
                while isinstance(step, Emit):
                    recovery.record(step.event, source=self.source, scope=self.scope)
                    noted.append(step.event)
                    if isinstance(step.event, WaitHeartbeat) and self.plan.on_heartbeat is not None:
                        self.beats.append(step.event)
                    step = self._steps.send(None)
            except StopIteration as end:
                self.ending = end.value
                self._settle()
                recovery.operations.refresh(self.plan.operation)
                return None
            if isinstance(step, Call):
                if not self.plan.is_guarded(step.operation, step.level):
                    recovery.cell_of(step.operation, self.source).attempts += 1
            elif isinstance(step, Wait):
                self.cell.waiting += 1
                self.history.waits_s.append(step.delay_s)
            recovery.operations.refresh(self.plan.operation)
            return step

    def prepare(self, step: Call) -> tuple[Callable[..., Any], Attempt]:
        """The callable for a step, and the attempt that it may read."""
        silence = step.silence
        limits_s = [limit for limit in (step.deadline_s, silence.response_s) if limit is not None]
        attempt = Attempt(
            step.operation,
            step.attempt,
            min(limits_s, default=None),
            step.adjustment,
            step.max_tokens,
            self._key_for(step),
            step.model,
            self.part if step.continues else None,
            silence.first_token_s,
            silence.stall_s,
            step.credential,
        )
        attempt = attempt.keyed()
        if self.spending is not None:
            attempt = attempt._replace(meter=self.spending.open)
        self._nested, pending = attempt.nested, self.pending
        if pending is not None and not step.level:
            self.pending = None
            return (lambda *_, **__: pending), attempt
        discard(pending)
        return self.plan.function_of(step.operation, step.level), attempt

    def _key_for(self, step: Call) -> str | None:
        """The key of the call; a plain fallback is another write, so it has its own, in each of its attempts."""
        key = self.history.idempotency_key
        if not key or not step.level or self.plan.is_guarded(step.operation, step.level):
            return key
        if step.operation not in self._fallback_keys:
            nested = Attempt(idempotency_key=key).keyed().nested
            own = nested.key_of(step.operation, self.args, self.kwargs) if nested else None
            self._fallback_keys[step.operation] = own
        return self._fallback_keys[step.operation]

    def stream_of(self, step: Call, value: Any) -> Opened | None:
        """The stream that an attempt of a model returned; None for any other result."""
        if self.plan.is_guarded(step.operation, step.level):
            return None
        is_model = self.plan.operation.declaration.kind == "model"
        return opened(value) if is_model or isinstance(value, Opened) else None

    def hook_for(self, step: Call) -> Any:
        """The caller's hook for an adjustment, None where there is none."""
        return self.plan.hooks.get(step.adjustment) if step.adjustment else None

    @property
    def is_compared(self) -> bool:
        """Whether it is a tool's call in a run, which counts as repeated where it is."""
        return self.plan.is_compared and self.scope is not None

    @property
    def is_called_off(self) -> bool:
        """Whether the run was cancelled: then nothing is waited for, and nothing is called any more."""
        return self.scope is not None and self.scope.is_cancelled

    def let_go(self) -> None:
        """The deadline of the run goes on, if it stood still for the whole of the call."""
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
        """The decision of the user; silence is the default answer."""
        is_yes = step.question.default_action == ALLOW if answer is None else answer is True
        return Decided(self.recovery.clock.now(), is_yes)

    def returned(self, step: Call, value: Any, began: float) -> Reply:
        """The attempt succeeded, unless a fallback's own guard left it out."""
        now = self.recovery.clock.now()
        self._charge()
        if isinstance(value, Degraded) and self.plan.is_guarded(step.operation, step.level):
            return LeftOut(now)
        self.value = value
        self._note_attempt(step)
        if step.level:
            if not self.plan.is_guarded(step.operation, step.level):
                self.recovery.cell_of(step.operation, self.source).took(now - began)
        elif self.plan.operation.call_deadline_s:
            self.cell.took(now - began)
        with self.recovery.lock:
            self.cell.counts["successes"] += 1
        return Returned(now, now - began)

    def raised(self, step: Call, error: BaseException, began: float) -> Reply:
        """The attempt failed; whatever is not an `Exception`, or a framework's control flow, ends it like a cancel."""
        history = self.history
        history.last_error = error
        self._charge()
        self._note_attempt(step)
        if self.plan.is_guarded(step.operation, step.level) and (report := report_of(error)) is not None:
            history.attempts_inside += max(0, report.attempts - 1)
        now = self.recovery.clock.now()
        if passes_unchanged(error, self.recovery.control_flow):
            return Cancelled(now)
        try:
            return Raised(now, self._failure(error, step.operation, began), now - began)
        except BaseException as passing:  # control flow, or an interrupt, of a predicate
            history.last_error = passing
            return Cancelled(now)

    def _note_attempt(self, step: Call) -> None:
        """An attempt was made; those of a guarded fallback are counted by its own guard."""
        self._attempts += not self.plan.is_guarded(step.operation, step.level)

    def interrupted(self, step: Action, error: BaseException) -> Reply:
        """A cancel or an interrupt came before the step was done."""
        self.history.last_error = error
        return self.called_off(step)

    def called_off(self, step: Action) -> Reply:
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

    def outcome(self) -> Outcome[Any]:
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
        history = self.history
        if isinstance(history.last_error, RejectedResult):
            history.last_result, history.last_error = history.last_error.result, None
        error, cause = CallErrors(self.recovery, self.plan, self.scope, history).error_for(ending), history.last_error
        history.last_error = None  # the traceback of the one that is raised leads here
        try:
            if error is cause:
                raise error
            raise error from cause
        finally:
            del error, cause

    def _failure(self, error: BaseException, operation: str, began: float) -> Failure:
        failure = self.recovery.failure_of(error, operation)
        if was_exhausted_inside(error, operation, began, self.recovery.clock):
            return replace(failure, is_exhausted=True)
        declared = self.plan.retry_conditions
        if declared is None or operation != self.plan.operation.name or not declared.holds(error, self.hooks.ask):
            return failure
        return replace(failure, is_declared_transient=True)

    def reserve(self, step: Reserve) -> Steps[Reply]:
        """Reserve an attempt of a model under the spend caps."""
        if self.spending is None:
            self.spending = CallSpending(self.recovery, self.scope, self.source)
        ask_user = self.plan.ask_user if self.plan.operation.standing.policy.is_foreground(self.source) else None
        request: Any = self.args[0] if self.args else None
        is_bounded = hasattr(type(request), "spend_bound")  # a request of an integration
        return self.spending.reserve(step, bound_of=request.spend_bound if is_bounded else None, ask_user=ask_user)

    def _charge(self) -> None:
        """An attempt was made: charge what it has spent."""
        if self.spending is not None:
            self.spending.charge()

    def _settle(self) -> None:
        if self.spending is not None:
            self.spending.release()
        self.cell.climbed()
        if self.scope is not None:
            self.scope.spent.attempts += self._attempts


def discard(result: Awaitable[Any] | None) -> None:
    """Let go of an awaitable that will not be awaited: the call was rejected before it."""
    for name in ("close", "cancel"):
        if callable(end := getattr(result, name, None)):
            end()
            return
