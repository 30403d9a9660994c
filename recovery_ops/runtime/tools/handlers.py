"""Calls handlers: by name, with fresh arguments, in a thread or a task, and notes how each attempt went."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from typing import Any

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.tools.result_text import plain_json
from recovery_ops.rules.tools.results import AttemptRecord
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.aio.libraries import is_under_trio
from recovery_ops.runtime.aio.task_group import in_thread
from recovery_ops.runtime.calls.operation import ATTEMPT, Fallback
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import ConfigurationError, SchemaMismatch
from recovery_ops.runtime.guards.plan import operation_of
from recovery_ops.runtime.runs.repeated_calls import COMPARED
from recovery_ops.runtime.tools.tool import Tool


@dataclass(slots=True)
class _Attempted:
    operation: str
    began: float
    ended: float
    error: BaseException | None


@dataclass(slots=True)
class Invocation:
    """One call of a tool on its way: what it is called with, and what was tried."""

    arguments: dict[str, Any]
    began: float
    key: str | None = None
    """The idempotency key."""
    tried: list[_Attempted] = field(default_factory=list)

    def recovery_key_parts(self) -> dict[str, Any]:
        """What tells this call from others: the arguments of the model."""
        return self.arguments

    def fresh_arguments(self) -> dict[str, Any]:
        """Arguments of its own for whoever gets them: one that changes them must not mislead the next."""
        return copy.deepcopy(self.arguments)

    def note(self, operation: str, began: float, ended: float, error: BaseException | None) -> None:
        """One attempt is over."""
        self.tried.append(_Attempted(operation, began, ended, error))

    def error_of(self, operation: str) -> BaseException | None:
        """The last error of that operation; a fallback's is not the tool's."""
        return next((one.error for one in reversed(self.tried) if one.operation == operation and one.error), None)

    def calls_of(self, operation: str) -> int:
        """How often that operation was called."""
        return sum(one.operation == operation for one in self.tried)

    def attempts(self, recovery: Engine) -> tuple[AttemptRecord, ...]:
        """The history of the call, for developers."""
        return tuple(_record(number, one, self.began, recovery) for number, one in enumerate(self.tried, start=1))


def _record(number: int, one: _Attempted, began: float, recovery: Engine) -> AttemptRecord:
    # In a call that failed, a cancel of one attempt was its deadline.
    error = one.error if one.error is None or isinstance(one.error, Exception) else TimeoutError()
    failure = recovery.failure_of(error, one.operation) if error is not None else None
    return AttemptRecord(
        operation=one.operation,
        number=number,
        began_s=round(one.began - began, 4),
        duration_s=round(one.ended - one.began, 4),
        category=failure.category if failure else None,
        error_type=failure.error_type if failure else "",
        message=failure.message if failure else "",
        request_id=failure.request_id if failure else None,
    )


Invoker = Callable[[Invocation], Any]


def invoker(recovery: Engine, tool: Tool, *, for_tasks: bool) -> Invoker:
    """What the guard of a tool guards; its calls are compared with each other by the registry."""
    make = _for_tasks if for_tasks else _for_threads
    made = make(recovery, tool, tool.handler, tool.name)
    vars(made)[COMPARED] = True
    return made


def fallback_invoker(recovery: Engine, tool: Tool, fallback: Fallback[Any], *, for_tasks: bool) -> Fallback[Any]:
    """A fallback that is called as the tool is: by name, and with its answer checked."""
    raw, guarded = fallback.function, operation_of(fallback.function)
    name = guarded.name if guarded is not None else fallback.name or getattr(raw, "__name__", f"{tool.name}.fallback")
    make = _for_tasks if for_tasks else _for_threads
    called = make(recovery, tool, raw, name)
    if guarded is not None:
        called.operation = guarded  # type: ignore[attr-defined]  # the mark by which a guard knows another
    return replace(fallback, function=called, name=name)


def _for_threads(recovery: Engine, tool: Tool, function: Callable[..., Any], name: str) -> Invoker:
    now = recovery.clock.now

    def invoke(call: Invocation) -> Any:
        began = now()
        try:
            value = _called(function, call)
            if inspect.isawaitable(value):
                value = _run_to_end(value, tool.name)
            _check_output(tool, value)
        except BaseException as error:
            call.note(name, began, now(), error)
            raise
        call.note(name, began, now(), None)
        return value

    return invoke


def _for_tasks(recovery: Engine, tool: Tool, function: Callable[..., Any], name: str) -> Invoker:
    now, is_awaited = recovery.clock.now, is_async(function)

    async def invoke(call: Invocation) -> Any:
        began = now()
        try:
            value = _called(function, call) if is_awaited else await in_thread(lambda: _called(function, call))
            if inspect.isawaitable(value):
                value = await value
            _check_output(tool, value)
        except BaseException as error:
            call.note(name, began, now(), error)
            raise
        call.note(name, began, now(), None)
        return value

    return invoke


def _called(function: Callable[..., Any], call: Invocation) -> Any:
    try:
        return function(**call.fresh_arguments())
    except StopIteration as error:  # in a coroutine it would be an error of another type than in a thread
        raise RuntimeError("the handler raised StopIteration") from error


def _check_output(tool: Tool, value: object) -> None:
    if tool.output_faults is None:
        return
    faults = tool.output_faults(plain_json(value, is_masked=False))
    if faults:
        raise SchemaMismatch(f"the answer of {tool.name}", tuple(faults))


def is_loop_running() -> bool:
    """Whether this thread runs tasks: then nothing here may start a loop of its own."""
    if is_under_trio():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_to_end(awaitable: Awaitable[Any], tool: str) -> Any:
    """An async handler in a thread without a loop: it gets one of its own, for this attempt."""
    if is_loop_running():
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        raise ConfigurationError(f"{tool} is async and a loop is running: await run_tool_async")
    return asyncio.run(_in_time(awaitable, ATTEMPT.get().remaining_s))


async def _in_time(awaitable: Awaitable[Any], deadline_s: float | None) -> Any:
    async with asyncio.timeout(deadline_s):
        return await awaitable
