"""One tool call, from the model's words to exactly one result, whatever happens on the way.

The way is a generator that two small loops drive, one for threads and one for tasks: it yields what is to be called,
and is sent what that returned or thrown what it raised. The call itself goes up the ladder like any guarded call.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from recovery_ops.rules import facts
from recovery_ops.rules.budget import Effect, RunStop
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.tools import outcomes
from recovery_ops.rules.tools.caution import Caution
from recovery_ops.rules.tools.results import (
    ANSWER_WITH_WHAT_THERE_IS,
    CHANGE_APPROACH,
    Detail,
    DeveloperRecord,
    ResultKind,
    ToolResult,
    outside_message,
    plain_name,
)
from recovery_ops.rules.tools.showing import shown
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.rules.words import Category, Family, StopReason
from recovery_ops.runtime import budgets
from recovery_ops.runtime.errors import (
    NotConfigured,
    RecoveryExhausted,
    Refused,
    RunCancelled,
    RunStopped,
    SchemaMismatch,
)
from recovery_ops.runtime.operation import Degraded, Outcome
from recovery_ops.runtime.run import CURRENT, Scope
from recovery_ops.runtime.signals import classify
from recovery_ops.runtime.tools.building import Tool
from recovery_ops.runtime.tools.invoking import Invocation, is_loop_running
from recovery_ops.runtime.tools.permission import Work, hook_failed, permitted
from recovery_ops.runtime.tools.registry import ToolRegistry
from recovery_ops.runtime.tools.schemas import read_arguments

T = TypeVar("T")
Steps = Generator[Work, Any, ToolResult]

REQUIRED = "required_tool_failed"
"""Why a run was ended: a tool it cannot do without is away, and there is no way on."""


class Calling:
    """One tool call on its way; `stop` is set when it ends the run."""

    def __init__(self, registry: ToolRegistry, use: ToolUse, *, for_tasks: bool) -> None:
        self.use = use
        self.stop: RunStopped | None = None
        self._registry = registry
        self._recovery = registry.recovery
        self._for_tasks = for_tasks
        self._scope = CURRENT.get()
        self._began = self._recovery.clock.now()
        self._invocation: Invocation | None = None

    @property
    def was_called(self) -> bool:
        """Whether the handler was reached."""
        return self._invocation is not None and bool(self._invocation.tried)

    @property
    def _outside_chars(self) -> int:
        """How much the model may see of a message from outside."""
        return budgets.limits_of(self._recovery).outside_chars

    def steps(self) -> Steps:
        """The whole way. Raises nothing but cancels and interrupts."""
        tool = self._registry.get(self.use.name)
        try:
            result = self._turned_away(tool) or ((yield from self._called(tool)) if tool else self._unknown())
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            result = outcomes.cancelled(self.use, was_called=self.was_called)  # the tool's own cancel
        except RunStopped as stop:
            self.stop = stop
            result = self._stopped(tool, stop)
        except Exception as error:
            result = self._failed(tool, error)
        return self._settled(result)

    def _turned_away(self, tool: Tool | None) -> ToolResult | None:
        """What this run does not call any more."""
        scope = self._scope
        if scope is not None and scope.guards.stop is not None:
            raise budgets.stopped_by(scope.guards.stop)
        if scope is not None and scope.is_cancelled:
            return outcomes.cancelled(self.use, was_called=False, why="the task was called off")
        if scope is None or tool is None:
            return None
        if tool.name in scope.withdrawn:
            return outcomes.withdrawn(self.use, "")
        if tool.name in scope.guards.waits_for_a_person:
            return outcomes.stopped_tool(self.use, waits_for_a_person=True)
        if tool.name in scope.guards.stopped_tools:
            return outcomes.stopped_tool(self.use, waits_for_a_person=False)
        return None

    def _called(self, tool: Tool) -> Steps:
        if tool.is_async and not self._for_tasks and is_loop_running():
            raise NotConfigured(f"{tool.name} is async and a loop is running: await run_tool_async")
        try:
            arguments = read_arguments(self.use.arguments)
            faults = tuple(tool.argument_faults(arguments))
            if faults:
                raise SchemaMismatch(f"the call of {tool.name}", faults, is_model_output=True)
        except (ValueError, TypeError, RecursionError, SchemaMismatch) as error:
            return self._invalid(tool, error)
        caution = self._registry.caution_of(tool)
        if caution.require_permission:
            no = yield from self._asked(tool, arguments)
            if no is not None:
                return no
        return (yield from self._climbed(tool, caution, arguments))

    def _asked(self, tool: Tool, arguments: dict[str, Any]) -> Generator[Work, Any, ToolResult | None]:
        """None where our own check, or a person, allows the call."""
        is_attended = self._recovery.desired.policy.foreground_sources.__contains__(self._source(tool))
        ask_person = self._registry.ask_person if is_attended else None
        reason = yield from permitted(
            self._recovery,
            self._scope,
            tool,
            arguments,
            checker=self._registry.permission,
            ask_person=ask_person,
        )
        if not reason:
            return None
        is_asked = ask_person is None and self._scope is not None and self._scope.guards.asks_a_person
        return outcomes.denied(self.use, reason, is_person_asked=is_asked, outside_chars=self._outside_chars)

    def _climbed(self, tool: Tool, caution: Caution, arguments: dict[str, Any]) -> Steps:
        """The call itself, behind its ladder."""
        guarded = self._registry.guarded(tool, caution, for_tasks=self._for_tasks)
        invocation = self._invocation = Invocation(arguments, self._recovery.clock.now())
        invocation.key = self._key(tool, invocation)
        climb: Callable[..., Any] = getattr(guarded, "outcome", guarded)
        try:
            found = yield lambda: climb(invocation)
        except Refused as error:
            record = self._record(tool, None, Detail.REFUSED.value, error)
            return outcomes.refused(self.use, error.operation, error.reason, error.retry_at, record)
        except RunCancelled:
            return outcomes.cancelled(self.use, was_called=self.was_called, why="the task was called off")
        except RecoveryExhausted as error:
            return self._exhausted(tool, caution, error)
        # Where the runtime is switched off, a guard is the handler itself.
        outcome = found if isinstance(found, Outcome) else Outcome(found)
        if isinstance(outcome.value, Degraded) and outcome.value.operation == tool.name:
            return outcomes.withdrawn(self.use, outcome.value.reason)
        return outcomes.succeeded(
            self.use,
            outcome.value,
            shown(outcome.value, is_masked=tool.masks_output),
            fallback=outcome.fallback,
            warning=outcome.warning,
            data_age_s=outcome.data_age_s,
        )

    def _key(self, tool: Tool, invocation: Invocation) -> str | None:
        """The idempotency key. A call that should have one is not made without."""
        make_key = tool.more.get("idempotency_key")
        if make_key is None:
            return None
        try:
            key = make_key(**invocation.fresh_arguments())
            if not key or not isinstance(key, str):
                raise NotConfigured(f"the idempotency_key of {tool.name} must return a text")
        except Exception as error:
            hook_failed(self._recovery, self._scope, tool, "idempotency_key", error)
            raise
        return key

    def _exhausted(self, tool: Tool, caution: Caution, error: RecoveryExhausted) -> ToolResult:
        """No rung held. A required tool that is away for now ends the run; everything else is the model's to know."""
        own = self._invocation.error_of(tool.name) if self._invocation else None
        failure = self._classified(own or error.last_error or error)
        if error.category not in (None, failure.category):
            failure = self._classified(error)  # a deadline: what the handler saw of it was a cancel
        is_spent = error.reason is StopReason.ATTEMPTS and failure.family is Family.TRANSIENT
        record = self._record(tool, failure, error.reason.value, error, error.rungs)
        if is_spent and not caution.optional:
            stop = RunStop(REQUIRED, failure.category, failure.user_message, tool.name)
            self.stop = budgets.end_run(self._recovery, self._scope, stop)
            return outcomes.run_stopped(self.use, stop, record)
        if failure.category is Category.POLICY_DENIED and self._scope is not None:
            self._scope.guards.waits_for_a_person.add(tool.name)
        return outcomes.failed(
            self.use,
            failure,
            attempts=error.attempts,
            retry_at=error.retry_at,
            is_destructive=caution.is_destructive,
            record=record,
            outside_chars=self._outside_chars,
        )

    def _failed(self, tool: Tool | None, error: Exception) -> ToolResult:
        """Something was raised that is none of the ladder's endings: a cancel of the tool's, or a defect of ours."""
        failure = self._classified(error)
        if failure.category is Category.CANCELLED:
            return outcomes.cancelled(self.use, was_called=self.was_called)
        if failure.category is Category.PERMISSION and tool is not None:  # only where the runtime is switched off
            stop = RunStop(failure.category.value, failure.category, failure.user_message, tool.name)
            self.stop = budgets.end_run(self._recovery, self._scope, stop)
            return outcomes.run_stopped(self.use, stop)
        record = self._record(tool, failure, failure.category.value, error) if tool else None
        return outcomes.failed(self.use, failure, record=record, outside_chars=self._outside_chars)

    def _stopped(self, tool: Tool | None, stop: RunStopped) -> ToolResult:
        """The run ended, here or before: the model learns nothing of what an upstream said."""
        seen = RunStop(stop.reason, stop.category, stop.user_message, stop.operation)
        is_old = self._scope is not None and self._scope.guards.stop is not None
        budgets.end_run(self._recovery, self._scope, seen, is_recorded=True)
        if is_old and not self.was_called:
            return outcomes.cancelled(self.use, was_called=False, why="the task was ended")
        error = self._invocation.error_of(tool.name) if tool and self._invocation else None
        record = self._record(tool, self._classified(error), stop.reason, stop) if tool and error else None
        return outcomes.run_stopped(self.use, seen, record)

    def _invalid(self, tool: Tool, error: Exception) -> ToolResult:
        failure = classify(error, now=self._recovery.clock.wall(), is_model_output=True)
        if failure.category is not Category.MODEL_OUTPUT:
            # Whatever reading the arguments raised, the model wrote them.
            mismatch = SchemaMismatch(f"the call of {tool.name}", (str(error)[:200],), is_model_output=True)
            failure = classify(mismatch, now=self._recovery.clock.wall(), is_model_output=True)
        self._tell(failure, tool.name, tool.source)
        record = self._record(tool, failure, failure.category.value, error)
        faults = error.faults if isinstance(error, SchemaMismatch) else ()
        return outcomes.invalid_arguments(
            self.use, failure, faults, tool.schema_text, record, outside_chars=self._outside_chars
        )

    def _unknown(self) -> ToolResult:
        mismatch = SchemaMismatch("the call", ("no such tool",), is_model_output=True)
        self._tell(self._classified(mismatch), "", "")
        return outcomes.unknown_tool(self.use, [one.name for one in self._registry.offered()])

    def _tell(self, failure: Failure, operation: str, source: str) -> None:
        """What the model got wrong never reaches the ladder, so it is told here."""
        fact = facts.FailureClassified(
            operation=operation,
            category=failure.category,
            evidence=failure.evidence,
            retryable=False,
            attempt=1,
            error_type=failure.error_type,
            exception_type=failure.exception_type,
            message=failure.message,
            fingerprint=failure.fingerprint,
            tool=plain_name(self.use.name),
            error_code=failure.code,
            rule=failure.rule,
            instead_of=failure.instead_of,
        )
        self._recovery.emit(fact, self._scope, source=source)

    def _settled(self, result: ToolResult) -> ToolResult:
        """Count the result, tell what was returned, and add what the guards have to say to the model."""
        if result.is_error and result.detail is not Detail.RUN_STOPPED:
            tool = self._registry.get(self.use.name)
            fact = facts.ToolErrorReturned(
                operation=tool.name if tool else "",
                tool=result.tool,
                category=result.category,
                call_id=plain_name(self.use.id) if self.use.id else None,
                message=outside_message(result.content.partition("\n")[0]),
            )
            self._recovery.emit(fact, self._scope, source=tool.source if tool else "")
        counted = self._counted(self._scope, result) if self._scope else result
        if self.stop is None and self._scope is not None and self._scope.guards.stop is not None:
            self.stop = budgets.stopped_by(self._scope.guards.stop)  # by this result, or from within the handler
        return counted

    def _counted(self, scope: Scope, result: ToolResult) -> ToolResult:
        if result.kind is ResultKind.SUCCEEDED:
            budgets.count_success(self._recovery, scope, result.tool)
        is_unknown = result.kind is ResultKind.UNKNOWN_TOOL
        is_failure = result.kind is ResultKind.FAILED and result.detail in (Detail.NONE, Detail.INVALID_ARGUMENTS)
        if not is_failure and not is_unknown:
            return result
        name = "" if is_unknown else result.tool
        ruling = budgets.count_failure(self._recovery, scope, name, result.category)
        return outcomes.advised(result, _GUIDANCE.get(ruling.effect, ""))

    def _classified(self, error: BaseException) -> Failure:
        tool = self._registry.get(self.use.name)
        return self._recovery.failure_of(error, tool.name if tool else "")

    def _source(self, tool: Tool) -> str:
        return tool.source or (self._scope.source if self._scope else "")

    def _record(
        self,
        tool: Tool,
        failure: Failure | None,
        reason: str,
        error: BaseException,
        rungs: tuple[str, ...] = (),
    ) -> DeveloperRecord:
        """Everything for developers. Without a failure (the call was never made) the error speaks for itself."""
        recovery, operation = self._recovery, self._recovery.operations.get(tool.name)
        return DeveloperRecord(
            tool=tool.name,
            tool_use_id=self.use.id,
            reason=reason,
            category=failure.category if failure else None,
            error_type=failure.error_type if failure else type(error).__name__,
            message=failure.message if failure else outside_message(str(error)),
            causes=failure.causes if failure else (),
            status_code=failure.status_code if failure else None,
            request_id=failure.request_id if failure else None,
            attempts=self._invocation.attempts(recovery) if self._invocation else (),
            rungs=rungs,
            duration_s=round(recovery.clock.now() - self._began, 4),
            state=operation.standing.breaker.state.value if operation else "",
            run_id=self._scope.run_id if self._scope else "",
            source=self._source(tool),
            policy_version=recovery.desired.policy.version,
            error=error,
        )


_GUIDANCE = {
    Effect.STOP_CALLING: f"It failed too often in this task: do not call it again. {ANSWER_WITH_WHAT_THERE_IS}",
    Effect.CHANGE_APPROACH: CHANGE_APPROACH,
}


def is_being_cancelled() -> bool:
    """Whether somebody cancels the task that we are in: then the cancel must pass."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def drive(steps: Generator[Work, Any, T]) -> T:
    """Go the way in this thread."""
    try:
        work = next(steps)
        while True:
            try:
                value = work()
            except BaseException as error:  # the way itself decides what passes
                work = steps.throw(error)
            else:
                work = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_async(steps: Generator[Work, Any, T]) -> T:
    """Go the way in this task."""
    try:
        work = next(steps)
        while True:
            try:
                value = work()
                if inspect.isawaitable(value):
                    value = await value
            except BaseException as error:  # as in `drive`
                work = steps.throw(error)
            else:
                work = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result
