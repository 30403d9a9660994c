"""Repeated calls of tools at work: counts them in their run, and asks a person where the policy says so.

Calls of a registry are counted by `Calling`, those of a guard of kind `tool` by the guard. A call inside another tool's
call is a part of that, and is not counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from recovery_ops.rules.repeated_calls import mark_of_call
from recovery_ops.rules.run_limits import OFF, REPEATED_CALLS, Effect, Ruling
from recovery_ops.runtime.aio.context_variables import take_back
from recovery_ops.runtime.calls.drivers import Either, Steps
from recovery_ops.runtime.calls.operation import ATTEMPT, UNTROUBLED, Plan
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import RunCancelled
from recovery_ops.runtime.runs.context import RunContext
from recovery_ops.runtime.runs.limits import count_call, end_for_repeats, limits_of, stopped_by

TOOLS = ("tool", "document", "sandbox")
"""The kinds of operation that a model calls."""
COMPARED = "are_calls_compared"
"""An attribute of functions whose calls somebody else counts."""
QUEUE = "budgets"
"""The queue of questions about run limits."""
_UNCOUNTED = Ruling()
_IS_INSIDE: ContextVar[bool] = ContextVar("recovery_ops_inside_tool", default=False)
"""Whether this task is in a tool's call on the fast path, which has no attempt of its own."""


def count(
    recovery: Engine,
    scope: RunContext,
    tool: str,
    arguments: object,
    result: object,
    *,
    is_polling: bool,
    whose: Callable[[], object] | None = None,
) -> Ruling:
    """Count a call by its arguments and its result. A call of a polling tool ends the row. May set the run's end.

    `whose` is a reference to the object whose id is among the arguments.
    """
    if recovery.is_off or limits_of(recovery).repeat_action == OFF:
        return _UNCOUNTED
    mark = None if is_polling else mark_of_call((tool, arguments), result)
    return count_call(recovery, scope, tool, mark if mark is None else mark._replace(whose=whose))


def question_about(tool: str, calls: int) -> str:
    """What a person is asked."""
    return f"{tool} was called {calls} times with the same arguments and the same result. May the run go on?"


def decided(recovery: Engine, scope: RunContext, tool: str, calls: int) -> Steps[None]:
    """Wait for a person's decision; without a yes the run is marked as ended."""
    from recovery_ops.runtime.human_input import QuestionOptions, escalate, escalate_async  # hardly ever needed

    question = question_about(tool, calls)
    said = QuestionOptions(queue=QUEUE, reason=REPEATED_CALLS, operation=tool, default="deny")
    try:
        decision = yield Either(
            lambda: escalate(recovery, question, said), lambda: escalate_async(recovery, question, said)
        )
    except RunCancelled:
        return  # the next call of the run raises it
    if not decision.is_approved:
        end_for_repeats(recovery, scope, tool)


def compare(
    recovery: Engine, plan: Plan, scope: RunContext, args: tuple[Any, ...], kwargs: dict[str, Any], *result: object
) -> Ruling | None:
    """Count a call of a guard that is over. Raises StopRun where it ends the run.

    The result is None, or a ruling by which a person is to be asked: `decided_or_stopped` does.
    """
    if scope.owner is None or limits_of(recovery).repeat_action == OFF or _is_inside_a_tool(recovery):
        return None
    own, whose = args, None
    if plan.is_method and args:  # an object says nothing of itself; the same one is the same
        own, whose = (id(args[0]), *args[1:]), _reference(args[0])
    ruling = count(recovery, scope, plan.operation.name, (own, kwargs), result, is_polling=plan.is_polling, whose=whose)
    if ruling.effect is Effect.STOP_RUN and scope.guards.stop is not None:
        raise stopped_by(scope.guards.stop)
    return ruling if ruling.effect is Effect.ASK_A_PERSON else None


def _reference(one: object) -> Callable[[], object]:
    """The object while it lives; one that takes no weak reference lives on."""
    try:
        return weakref.ref(one)
    except TypeError:
        return lambda: one


def decided_or_stopped(recovery: Engine, plan: Plan, scope: RunContext, ruling: Ruling) -> Steps[None]:
    """Wait for a person's decision; without a yes raise StopRun."""
    yield from decided(recovery, scope, plan.operation.name, ruling.count)
    if scope.guards.stop is not None:
        raise stopped_by(scope.guards.stop)


async def called_inside(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a tool's function in this task; guards in it are a part of the call."""
    token = _IS_INSIDE.set(True)
    try:
        return await function(*args, **kwargs)
    finally:
        take_back(token)


def _is_inside_a_tool(recovery: Engine) -> bool:
    around = ATTEMPT.get()
    if around is UNTROUBLED:
        return _IS_INSIDE.get()
    operation = recovery.operations.get(around.operation)
    return _IS_INSIDE.get() or (operation is not None and operation.declaration.kind in TOOLS)
