"""One tool call, from the model's words to exactly one result, whatever happens on the way.

The way is a generator that two small loops drive, one for threads and one for tasks: it yields what is to be called,
and is sent what that returned or thrown what it raised. The call itself goes up the ladder like any guarded call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import TERMINAL, Category
from recovery_ops.rules.run_limits import Effect, Ruling, RunStop
from recovery_ops.rules.tools import outcomes
from recovery_ops.rules.tools.policy_limits import Caution
from recovery_ops.rules.tools.result_text import shown
from recovery_ops.rules.tools.results import (
    Detail,
    DeveloperRecord,
    ResultKind,
    ToolResult,
    on_failures_in_a_row,
    on_failures_of_tool,
    on_repeats,
    outside_message,
    plain_name,
)
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime.aio.cancellation import cancels_of_task
from recovery_ops.runtime.calls.drivers import Work
from recovery_ops.runtime.calls.exhaustion import report_of
from recovery_ops.runtime.calls.operation import Degraded, Outcome
from recovery_ops.runtime.errors import (
    CallRejected,
    ConfigurationError,
    RecoveryExhausted,
    RunCancelled,
    SchemaMismatch,
    StopRun,
)
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.failures.signals import classify
from recovery_ops.runtime.runs import limits as budgets
from recovery_ops.runtime.runs import repeated_calls as repeats
from recovery_ops.runtime.runs.context import RunContext, current_scope
from recovery_ops.runtime.tools.handlers import Invocation, is_loop_running
from recovery_ops.runtime.tools.permission import AskPerson, answered, hooks_of, permitted
from recovery_ops.runtime.tools.schemas import read_arguments
from recovery_ops.runtime.tools.tool import Tool
from recovery_ops.runtime.tools.toolbox import Toolbox

Steps = Generator[Work, Any, ToolResult]


class Calling:
    """One tool call on its way; `stop` is set when it ends the run."""

    def __init__(self, registry: Toolbox, use: ToolUse, *, for_tasks: bool) -> None:
        self.use = use
        self.stop: StopRun | None = None
        self._registry = registry
        self._recovery = registry.recovery
        self._for_tasks = for_tasks
        self._scope = current_scope()
        self._cancels = cancels_of_task()
        self._began = self._recovery.clock.now()
        self._invocation: Invocation | None = None
        self._arguments: object = use.arguments

    @property
    def was_called(self) -> bool:
        """Whether the handler was reached."""
        return self._invocation is not None and bool(self._invocation.tried)

    @property
    def _outside_chars(self) -> int:
        """How much the model may see of a message from outside."""
        return budgets.limits_of(self._recovery).outside_chars

    def _bypass_allowed(self, tool: Tool | None) -> bool:
        """Whether the model may be told of ways that do without the tool."""
        return tool is None or self._registry.caution_of(tool).bypass_allowed

    def steps(self) -> Steps:
        """The whole way. Raises nothing but cancels, interrupts and a framework's control flow."""
        tool = self._registry.get(self.use.name)
        try:
            result = self._turned_away(tool) or ((yield from self._called(tool)) if tool else self._unknown())
        except asyncio.CancelledError:
            if cancels_of_task() > self._cancels:
                raise
            result = outcomes.cancelled(self.use, was_called=self.was_called)  # the tool's own cancel
        except StopRun as stop:
            self.stop = stop
            result = self._stopped(tool, stop)
        except Exception as error:
            if is_control_flow(error, self._recovery.control_flow):
                raise
            result = self._failed(tool, error)
        return (yield from self._settled(result))

    def _turned_away(self, tool: Tool | None) -> ToolResult | None:
        """What this run does not call any more."""
        scope = self._scope
        if scope is not None and scope.guards.stop is not None:
            raise budgets.stopped_by(scope.guards.stop)
        if scope is not None and scope.is_cancelled:
            return outcomes.cancelled(self.use, was_called=False, why="the task was called off")
        if scope is None or tool is None:
            return None
        bypass_allowed, waits = self._bypass_allowed(tool), tool.name in scope.guards.waits_for_a_person
        if tool.name in scope.withdrawn:
            return outcomes.withdrawn(self.use, "", bypass_allowed=bypass_allowed)
        if waits or tool.name in scope.guards.stopped_tools:
            return outcomes.stopped_tool(self.use, waits_for_a_person=waits, bypass_allowed=bypass_allowed)
        return None

    def _called(self, tool: Tool) -> Steps:
        if tool.is_async and not self._for_tasks and is_loop_running():
            raise ConfigurationError(f"{tool.name} is async and a loop is running: await run_tool_async")
        try:
            arguments = self._arguments = read_arguments(self.use.arguments)
            faults = tuple(tool.argument_faults(arguments))
            if faults:
                raise SchemaMismatch(f"the call of {tool.name}", faults, is_model_output=True)
        except (ValueError, TypeError, RecursionError, SchemaMismatch) as error:
            return self._invalid(tool, error)
        caution = self._registry.caution_of(tool)
        if caution.require_permission:
            no = yield from self._asked(tool, caution, arguments)
            if no is not None:
                return no
        return (yield from self._climbed(tool, caution, arguments))

    def _asked(
        self, tool: Tool, caution: Caution, arguments: dict[str, Any]
    ) -> Generator[Work, Any, ToolResult | None]:
        """None where our own check, or a person, allows the call."""
        ask_person = self._ask_person_of(tool)
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
        return outcomes.denied(
            self.use,
            reason,
            is_person_asked=is_asked,
            bypass_allowed=caution.bypass_allowed,
            outside_chars=self._outside_chars,
        )

    def _ask_person_of(self, tool: Tool) -> AskPerson | None:
        """The caller's hook that asks the user; None where no user waits."""
        is_attended = self._recovery.desired.policy.foreground_sources.__contains__(self._source(tool))
        return self._registry.ask_person if is_attended else None

    def _climbed(self, tool: Tool, caution: Caution, arguments: dict[str, Any]) -> Steps:
        """The call itself, behind its ladder."""
        guarded = self._registry.guarded(tool, caution, for_tasks=self._for_tasks)
        invocation = self._invocation = Invocation(arguments, self._recovery.clock.now())
        invocation.key = self._key(tool, invocation)
        climb: Callable[..., Any] = getattr(guarded, "outcome", guarded)
        try:
            found = yield lambda: climb(invocation)
        except CallRejected as error:
            record = self._record(tool, None, Detail.REFUSED.value, error)
            return outcomes.refused(
                self.use,
                error.operation,
                error.reason,
                error.retry_at,
                record,
                bypass_allowed=caution.bypass_allowed,
            )
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
                raise ConfigurationError(f"the idempotency_key of {tool.name} must return a text")
        except Exception as error:
            hooks_of(self._recovery, self._scope, tool).failed("idempotency_key", error)
            raise
        return key

    def _exhausted(self, tool: Tool, caution: Caution, error: RecoveryExhausted) -> ToolResult:
        """No recovery step helped, and the run goes on: the model receives an error."""
        failure = self._classified(self._own_error(tool) or error.last_error or error)
        record = self._record(tool, failure, error.reason.value, error, error.steps)
        if failure.category is Category.POLICY_DENIED and self._scope is not None:
            self._scope.guards.waits_for_a_person.add(tool.name)
        return outcomes.failed(
            self.use,
            failure,
            attempts=self._invocation.calls_of(tool.name) if self._invocation else error.attempts,
            retry_at=error.retry_at,
            is_repeatable=caution.idempotent,
            bypass_allowed=caution.bypass_allowed,
            record=record,
            outside_chars=self._outside_chars,
        )

    def _own_error(self, tool: Tool) -> BaseException | None:
        """What the handler raised last."""
        own = self._invocation.error_of(tool.name) if self._invocation else None
        # In a call that failed, a cancel of one attempt was its deadline.
        return own if own is None or isinstance(own, Exception) else TimeoutError()

    def _failed(self, tool: Tool | None, error: Exception) -> ToolResult:
        """Something was raised that is none of the ladder's endings: a cancel of the tool's, or a defect of ours."""
        failure = self._classified(error)
        if failure.category is Category.CANCELLED:
            return outcomes.cancelled(self.use, was_called=self.was_called)
        # Only where the runtime is switched off does a 401 or 403 come by here as it is.
        if tool is not None and failure.category in TERMINAL and tool.more.get("permission") != "tell_model":
            stop = RunStop(failure.category.value, failure.category, failure.user_message, tool.name)
            self.stop = budgets.end_run(self._recovery, self._scope, stop)
            return outcomes.run_stopped(self.use, stop)
        record = self._record(tool, failure, failure.category.value, error) if tool else None
        return outcomes.failed(
            self.use,
            failure,
            bypass_allowed=self._bypass_allowed(tool),
            record=record,
            outside_chars=self._outside_chars,
        )

    def _stopped(self, tool: Tool | None, stop: StopRun) -> ToolResult:
        """The run ended, here or before: the model learns nothing of what an upstream said."""
        seen = RunStop(stop.reason, stop.category, stop.user_message, stop.operation)
        is_old = self._scope is not None and self._scope.guards.stop is not None
        budgets.end_run(self._recovery, self._scope, seen, is_recorded=True)
        if is_old and not self.was_called:
            return outcomes.cancelled(self.use, was_called=False, why="the task was ended")
        error = self._own_error(tool) if tool else None
        report = report_of(stop)
        steps = report.steps if report else ()
        record = self._record(tool, self._classified(error), stop.reason, stop, steps) if tool and error else None
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
        event = events.FailureClassified(
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
        self._recovery.emit(event, self._scope, source=source)

    def _settled(self, result: ToolResult) -> Steps:
        """Count the result, tell what was returned, and add what the guards have to say to the model."""
        if result.is_error and result.detail is not Detail.RUN_STOPPED:
            tool = self._registry.get(self.use.name)
            event = events.ToolErrorReturned(
                operation=tool.name if tool else "",
                tool=result.tool,
                category=result.category,
                call_id=plain_name(self.use.id) if self.use.id else None,
                message=outside_message(result.content.partition("\n")[0]),
            )
            self._recovery.emit(event, self._scope, source=tool.source if tool else "")
        counted = (yield from self._counted(self._scope, result)) if self._scope else result
        if self.stop is None and self._scope is not None and self._scope.guards.stop is not None:
            self.stop = budgets.stopped_by(self._scope.guards.stop)  # by this result, or from within the handler
        return counted

    def _counted(self, scope: RunContext, result: ToolResult) -> Steps:
        if result.kind is ResultKind.SUCCEEDED:
            budgets.count_success(self._recovery, scope, result.tool)
            return (yield from self._compared(scope, result))
        is_unknown = result.kind is ResultKind.UNKNOWN_TOOL
        is_failure = result.kind is ResultKind.FAILED and result.detail in (Detail.NONE, Detail.INVALID_ARGUMENTS)
        if not is_failure and not is_unknown:
            return result
        name = "" if is_unknown else result.tool
        ruling = budgets.count_failure(self._recovery, scope, name, result.category)
        advised = outcomes.advised(result, self._guidance(ruling))
        if is_unknown or ruling.effect in (Effect.STOP_CALLING, Effect.STOP_RUN):
            return advised
        return (yield from self._compared(scope, result, advised))

    def _guidance(self, ruling: Ruling) -> str:
        """What the limits of failures say to the model."""
        bypass_allowed = self._bypass_allowed(self._registry.get(self.use.name))
        if ruling.effect is Effect.STOP_CALLING:
            return on_failures_of_tool(bypass_allowed=bypass_allowed)
        return on_failures_in_a_row(bypass_allowed=bypass_allowed) if ruling.effect is Effect.CHANGE_APPROACH else ""

    def _compared(self, scope: RunContext, result: ToolResult, advised: ToolResult | None = None) -> Steps:
        """Count how often the run has made this call with this result; `advised` is what the model receives of it."""
        tool, seen = self._registry.get(self.use.name), advised or result
        if tool is None:
            return seen
        seen_by_model = (result.content, tool.whole_answer() if tool.whole_answer else None)
        ruling = repeats.count(
            self._recovery, scope, tool.name, self._arguments, seen_by_model, is_polling=tool.is_polling
        )
        if ruling.effect is Effect.ASK_A_PERSON:
            yield from self._asked_about_repeats(scope, tool, ruling)
        elif ruling.effect is Effect.CHANGE_APPROACH:
            note = on_repeats(tool.name, ruling.count, bypass_allowed=self._bypass_allowed(tool))
            return outcomes.advised(seen, note)
        return seen

    def _asked_about_repeats(self, scope: RunContext, tool: Tool, ruling: Ruling) -> Generator[Work, Any, None]:
        """A person decides whether the run goes on."""
        recovery, ask_person = self._recovery, self._ask_person_of(tool)
        if ask_person is None:
            yield from repeats.decided(recovery, scope, tool.name, ruling.count)
            return
        question = repeats.question_about(tool.name, ruling.count)
        arguments = self._arguments if isinstance(self._arguments, dict) else {}
        if (yield from answered(recovery, scope, tool, arguments, ask_person, question)):
            budgets.end_for_repeats(recovery, scope, tool.name)

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
        steps: tuple[str, ...] = (),
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
            steps=steps,
            duration_s=round(recovery.clock.now() - self._began, 4),
            state=operation.standing.breaker.state.value if operation else "",
            run_id=self._scope.run_id if self._scope else "",
            source=self._source(tool),
            policy_version=recovery.desired.policy.version,
            error=error,
        )
