"""Executes guarded calls with real attempts and real waits, in threads and in tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from recovery_ops.rules.resilience.steps import Action, Answered, AskUser, Cancelled, Failed, Reply, Reserve, Wait
from recovery_ops.runtime.calls.drivers import Invoke, Pause, Pending, Steps, drive, drive_async, drive_until_pending
from recovery_ops.runtime.calls.execution import CallExecution, discard
from recovery_ops.runtime.calls.operation import Outcome, Plan
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.failures.control_flow import passes_unchanged
from recovery_ops.runtime.guards.streams import (
    AsyncGuardedStream,
    GuardedStream,
    OpenStream,
    Took,
    read_ahead,
    settle_left,
)
from recovery_ops.runtime.runs.context import current_scope
from recovery_ops.runtime.runs.repeated_calls import compare, decided_or_stopped


def execute(
    recovery: Engine,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    quick: tuple[BaseException, float] | None = None,
    pending: Awaitable[Any] | None = None,
) -> Outcome[Any] | Coroutine[Any, Any, Outcome[Any]]:
    """Make the call in this thread. Where the callable returns an awaitable the rest of the call is a coroutine.

    `quick` is the error and the start of a first attempt that the fast path made; `pending` is an awaitable that this
    attempt returned.
    """
    call, rest, is_open = _execution(recovery, plan, args, kwargs, quick), None, False
    call.pending = pending
    try:
        step = call.begin(recovery.clock.now(), quick)
        while step is not None:
            reply = drive_until_pending(reply_to(call, step))
            if isinstance(reply, Pending):
                rest = _finish(call, reply)
                return rest
            if isinstance(reply, OpenStream):
                is_open = True
                return GuardedStream(call, reply, reply_to).outcome()
            step = call.advance(reply)
    finally:
        if rest is None:
            discard(call.pending)
        if rest is None and not is_open:
            call.let_go()
    return drive(_ended(call)) if call.is_compared else call.outcome()


def execute_value(
    recovery: Engine,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    quick: tuple[BaseException, float] | None = None,
    pending: Awaitable[Any] | None = None,
) -> Any:
    """The value of a call that is made in this thread; an awaitable of it as in `execute`."""
    found = execute(recovery, plan, args, kwargs, quick, pending)
    return found.value if isinstance(found, Outcome) else _value_of(found)


async def execute_async(
    recovery: Engine,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    quick: tuple[BaseException, float] | None = None,
) -> Outcome[Any]:
    """Make the call in this task."""
    call = _execution(recovery, plan, args, kwargs, quick)
    try:
        step = call.begin(recovery.clock.now(), quick)
    except BaseException:
        call.let_go()
        raise
    return await _finish(call, step)


async def _finish(call: CallExecution, step: Action | Pending[Took] | None) -> Outcome[Any]:
    """Make the rest of the call in this task, from a step or from an attempt that has to be awaited."""
    is_open = False
    try:
        while step is not None:
            if isinstance(step, Pending):
                reply = await drive_async(step.steps, step.work)
            else:
                reply = await drive_async(reply_to(call, step))
            if isinstance(reply, OpenStream):
                is_open = True
                return AsyncGuardedStream(call, reply, reply_to).outcome()
            step = call.advance(reply)
    except GeneratorExit:  # the coroutine is closed: nobody awaits the next step
        call.advance(Cancelled(call.recovery.clock.now()))
        raise
    finally:
        if not is_open:
            call.let_go()
    return await drive_async(_ended(call)) if call.is_compared else call.outcome()


def _ended(call: CallExecution) -> Steps[Outcome[Any]]:
    """The outcome of a tool's call, which is counted among those of its run."""
    try:
        outcome = call.outcome()
    except Exception as error:
        if isinstance(call.ending, Failed):
            yield from _compared(call, type(error).__qualname__, str(error))
        raise
    if isinstance(call.ending, Answered):
        yield from _compared(call, outcome.value)
    return outcome


def _compared(call: CallExecution, *result: object) -> Steps[None]:
    recovery, plan, scope = call.recovery, call.plan, call.scope
    if scope is None:
        return
    ruling = compare(recovery, plan, scope, call.args, call.kwargs, *result)
    if ruling is not None:
        yield from decided_or_stopped(recovery, plan, scope, ruling)


def _execution(
    recovery: Engine,
    plan: Plan,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    quick: tuple[BaseException, float] | None,
) -> CallExecution:
    """The call. Control flow that the fast path met passes here, and so does an error of the guard's own functions."""
    try:
        if quick is not None and passes_unchanged(quick[0], recovery.control_flow):
            raise quick[0]
        return CallExecution(recovery, plan, args, kwargs)
    except BaseException:
        scope = current_scope()
        recovery.count_cancelled(plan.operation.cell(plan.source or (scope.source if scope else "")), quick is None)
        raise


def wait_for(call: CallExecution, step: Wait | AskUser | Reserve) -> Steps[Reply]:
    """The result of a step that calls nothing."""
    reply = yield from reply_to(call, step)
    if isinstance(reply, OpenStream):
        raise TypeError("a wait has no stream")
    return reply


def reply_to(call: CallExecution, step: Action) -> Steps[Took]:
    """The result of a step. An interrupt ends the call in order, and is raised again when it has ended."""
    plan, clock = call.plan, call.recovery.clock
    try:
        for beat in call.beats_due():
            yield from _asked(call, "on_heartbeat", plan.on_heartbeat, beat)
        if call.is_called_off:
            return call.called_off(step)
        if isinstance(step, Wait):
            return call.woke((yield Pause(call.recovery.waker, step.delay_s, call.seen)))
        if isinstance(step, AskUser):
            question = step.question
            with call.held():
                answer = yield from _asked(call, "ask_user", plan.ask_user, question, deadline_s=question.deadline_s)
                return call.decided(step, answer)
        if isinstance(step, Reserve):
            settle_left()
            return (yield from call.reserve(step))
        hook = call.hook_for(step)
        if hook is not None and step.adjustment is not None:
            yield from _asked(call, step.adjustment.value, hook)
        function, attempt = call.prepare(step)
    except BaseException as error:
        return call.interrupted(step, error)
    began = clock.now()
    try:
        value = yield Invoke(
            function,
            call.args,
            call.kwargs,
            step.deadline_s,
            attempt,
            may_pend=True,
            response_s=step.silence.response_s,
        )
        stream = call.stream_of(step, value)
        if stream is not None:
            return (yield from read_ahead(call, step, stream, began))
        return call.returned(step, value, began)
    except BaseException as error:  # an error that is not an Exception is a cancel
        return call.raised(step, error, began)


def _asked(
    call: CallExecution, name: str, hook: Callable[..., Any] | None, *about: object, deadline_s: float | None = None
) -> Steps[object]:
    """The answer of a hook; None where it raises, or does not return to a task in time."""
    if hook is None:
        return None
    try:
        return (yield Invoke(hook, about, deadline_s=deadline_s))
    except Exception as error:
        call.hooks.failed(name, error)
        return None


async def _value_of(outcome: Awaitable[Outcome[Any]]) -> Any:
    return (await outcome).value
