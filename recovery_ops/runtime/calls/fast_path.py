"""The fast path: what a guarded call costs while nothing is wrong.

The ladder decides what happens to a call. While its operation is calm there is nothing to decide: it would admit the
call and count its success. So a calm call is counted, made and counted again without the ladder, and whatever fails is
handed to it as the first attempt of a climb. `guarded.outcome()` always climbs; tests hold the two ways together.

Why threads need no lock here: an operation's `is_on_fast_path` and `call_deadline_s` are single attributes that are
replaced as a whole, the counts are steps of C-level counters, and everything that changes a breaker happens in the
ladder, under the lock. A breaker that opens between the look at `is_on_fast_path` and the call was opened by a call
that ended later than this one began.

The bodies are alike and not shared on purpose: one call of a Python function costs a quarter of what they do.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from recovery_ops.runtime.aio.awaitables import PLAIN, is_pending
from recovery_ops.runtime.calls.drivers import drive, drive_async
from recovery_ops.runtime.calls.executor import execute_async, execute_value
from recovery_ops.runtime.calls.metrics import CallCounters
from recovery_ops.runtime.calls.operation import ATTEMPT, UNTROUBLED, Attempt, Operation, Plan
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.runs.context import CURRENT, RunContext, source_of_run
from recovery_ops.runtime.runs.repeated_calls import called_inside, compare, decided_or_stopped


def fast_path(recovery: Engine, plan: Plan) -> Callable[..., Any]:
    """For threads: two counters and one look at the clock."""
    function, operation, own_source = plan.function, plan.operation, plan.source
    cells, step, timed = operation.cells, next, _timed(recovery, plan)
    now, current, outer, plain = recovery.clock.quick_now, CURRENT.get, ATTEMPT.get, PLAIN
    is_compared = plan.is_compared

    last_type: type = object  # of the last plain result: comparing costs half of a look into the set

    own: CallCounters

    def keep(cell: CallCounters) -> None:
        nonlocal own
        own = cell

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        nonlocal last_type
        scope, began = current(), now()
        if not operation.is_on_fast_path or (
            scope is not None
            and (scope.deadline_at <= began or scope.needs_ladder or (scope.outer is not None and scope.is_disturbed))
        ):
            step(operation.cell(own_source or source_of_run() or recovery.default_source).started)
            return execute_value(recovery, plan, args, kwargs)
        if scope is None or own_source:
            cell = own
        else:
            try:
                cell = cells[scope.source]
            except KeyError:
                cell = operation.cell(scope.source or recovery.default_source)
        step(cell.started)
        around = outer()
        if operation.call_deadline_s or around is not UNTROUBLED or (is_compared and scope is not None):
            return timed(cell, scope, began, around, args, kwargs)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            failed = error
        except BaseException:
            recovery.count_cancelled(cell)
            raise
        else:
            if type(result) is not last_type:
                if type(result) in plain:
                    last_type = type(result)
                elif is_pending(result):
                    operation.inherit(cell)
                    return execute_value(recovery, plan, args, kwargs, pending=result)
            step(cell.succeeded)
            if scope is not None:
                step(scope.untroubled.steps)
            return result
        try:  # not in the handler: what the ladder raises keeps its own context
            operation.inherit(cell)
            return execute_value(recovery, plan, args, kwargs, (failed, began))
        finally:
            del failed

    operation.hand_cell(own_source or recovery.default_source, keep)
    vars(guarded)["keep"] = keep  # lives as long as the guard
    return guarded


def _timed(recovery: Engine, plan: Plan) -> Callable[..., Any]:
    """The same where there is a deadline: the callable is handed what is left of it, and how long it took is noted.

    Also within an attempt that is under way: this one must not read the other's adjustments.
    """
    function, operation, now = plan.function, plan.operation, recovery.clock.quick_now
    enter, leave, step, shares, plain = ATTEMPT.set, ATTEMPT.reset, next, _shares(plan), PLAIN
    is_compared = plan.is_compared

    def timed(
        cell: CallCounters,
        scope: RunContext | None,
        began: float,
        around: Attempt,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if around is not UNTROUBLED and around.nested is not None:  # this call gets a key of its own
            return execute_value(recovery, plan, args, kwargs)
        deadline_s, attempt = operation.call_deadline_s, operation.first_attempt
        if is_compared and not deadline_s:
            attempt = Attempt(operation.name)
        if scope is not None and scope.deadline_at - began < deadline_s * shares:
            if shares > 1:  # so little is left of the run that the ladder has to keep time for the others
                return execute_value(recovery, plan, args, kwargs)
            attempt = Attempt(operation.name, remaining_s=scope.deadline_at - began)
        token = enter(attempt)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            leave(token)
            if not isinstance(error, Exception):
                recovery.count_cancelled(cell)
                raise
            failed = error
        else:
            leave(token)
            if type(result) not in plain and is_pending(result):
                operation.inherit(cell)
                return execute_value(recovery, plan, args, kwargs, pending=result)
            step(cell.succeeded)
            if scope is not None:
                step(scope.untroubled.steps)
            if deadline_s:
                cell.took(now() - began)
            if scope is not None and is_compared:
                ruling = compare(recovery, plan, scope, args, kwargs, result)
                if ruling is not None:
                    drive(decided_or_stopped(recovery, plan, scope, ruling))
            return result
        try:
            operation.inherit(cell)
            return execute_value(recovery, plan, args, kwargs, (failed, began))
        finally:
            del failed

    return timed


def fast_path_async(recovery: Engine, plan: Plan) -> Callable[..., Any]:
    """For tasks: the same. An entry in a queue sees to a call's deadline, the run's own timer to the run's."""
    from recovery_ops.runtime.aio.timeouts import end  # asyncio: who has no tasks should not wait for it

    function, operation, own_source = plan.function, plan.operation, plan.source
    cells, step, timers = operation.cells, next, operation.own_timers()
    now, current, outer, shares = recovery.clock.quick_now, CURRENT.get, ATTEMPT.get, _shares(plan)
    is_compared = plan.is_compared
    is_loop_time = type(recovery.clock) is Clock  # a pushed clock knows nothing of when a loop wakes

    own: CallCounters

    def keep(cell: CallCounters) -> None:
        nonlocal own
        own = cell

    @functools.wraps(function)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        scope, began = current(), now()
        if not operation.is_on_fast_path or (
            scope is not None
            and (scope.deadline_at <= began or scope.needs_ladder or (scope.outer is not None and scope.is_disturbed))
        ):
            step(operation.cell(own_source or source_of_run() or recovery.default_source).started)
            return (await execute_async(recovery, plan, args, kwargs)).value
        if scope is None or own_source:
            cell = own
        else:
            try:
                cell = cells[scope.source]
            except KeyError:
                cell = operation.cell(scope.source or recovery.default_source)
        step(cell.started)
        deadline_s, entry = operation.call_deadline_s, None
        if outer() is not UNTROUBLED or (
            deadline_s
            and (
                (shares > 1 and scope is not None and scope.deadline_at - began < deadline_s * shares)
                or (entry := timers.begin(deadline_s, began if is_loop_time else None)) is None  # not asyncio's loop
            )
        ):
            return (await execute_async(recovery, plan, args, kwargs)).value
        try:
            if is_compared and scope is not None:
                result = await called_inside(function, args, kwargs)
            else:
                result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            found = error if entry is None or not end(entry) else _timeout(error, operation, deadline_s)
            if not isinstance(found, Exception):
                recovery.count_cancelled(cell)
                raise
            failed = found
            del found
        else:
            step(cell.succeeded)
            if entry is not None:
                end(entry)
                cell.took(now() - began)
            if scope is None:
                return result
            step(scope.untroubled.steps)
            return await _compared(recovery, plan, scope, args, kwargs, result) if is_compared else result
        try:
            operation.inherit(cell)
            return (await execute_async(recovery, plan, args, kwargs, (failed, began))).value
        finally:
            del failed

    operation.hand_cell(own_source or recovery.default_source, keep)
    vars(guarded)["keep"] = keep  # lives as long as the guard
    return guarded


def _shares(plan: Plan) -> int:
    """Number of operations and models that may have to share the time of one call."""
    return 1 + len(plan.alternatives) + len(plan.operation.standing.models)


def _timeout(error: BaseException, operation: Operation, deadline_s: float) -> BaseException:
    """Our own cancel as what it stands for, with the place where the call hung; any other error as it is."""
    if not isinstance(error, sys.modules["asyncio"].CancelledError):
        return error
    return TimeoutError(f"{operation.name} took longer than {deadline_s:g} s").with_traceback(error.__traceback__)


async def _compared(
    recovery: Engine, plan: Plan, scope: RunContext, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    """Count a call's result among those of its run, and return it. Raises StopRun where its repeats end the run."""
    ruling = compare(recovery, plan, scope, args, kwargs, result)
    if ruling is not None:
        await drive_async(decided_or_stopped(recovery, plan, scope, ruling))
    return result
