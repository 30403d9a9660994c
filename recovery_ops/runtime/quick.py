"""The quick path: what a guarded call costs while nothing is wrong.

The ladder decides what happens to a call. While its operation is calm there is nothing to decide: it would admit the
call and count its success. So a calm call is counted, made and counted again without the ladder, and whatever fails is
handed to it as the first attempt of a climb. `guarded.outcome()` always climbs; tests hold the two ways together.

Why threads need no lock here: an operation's `is_calm` and `call_deadline_s` are single attributes that are replaced as
a whole, the counts are steps of C-level counters, and everything that changes a breaker happens in the ladder, under
the lock. A breaker that opens between the look at `is_calm` and the call was opened by a call that ended later than
this one began.

The bodies are alike and not shared on purpose: one call of a Python function costs a quarter of what they do.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.driver import drive, drive_async
from recovery_ops.runtime.operation import ATTEMPT, UNTROUBLED, Attempt, Plan
from recovery_ops.runtime.run import CURRENT

if TYPE_CHECKING:
    from recovery_ops.runtime.counting import Cell
    from recovery_ops.runtime.operation import Operation
    from recovery_ops.runtime.recovery import Recovery
    from recovery_ops.runtime.run import Scope


def quick(recovery: Recovery, plan: Plan) -> Callable[..., Any]:
    """For threads: two counters and one look at the clock."""
    function, operation, own_source = plan.function, plan.operation, plan.source
    cells, own, step, timed = operation.cells, operation.cell(plan.source), next, _timed(recovery, plan)
    now, current, outer = recovery.clock.quick_now, CURRENT.get, ATTEMPT.get

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        if scope is None or own_source:
            cell = own
        else:
            try:
                cell = cells[scope.source]
            except KeyError:
                cell = operation.cell(scope.source)
        step(cell.started)
        began = now()
        if not operation.is_calm or (
            scope is not None
            and (scope.deadline_at <= began or scope.is_called_off or (scope.outer is not None and scope.is_cancelled))
        ):
            return drive(recovery, plan, args, kwargs).value
        around = outer()
        if operation.call_deadline_s or around is not UNTROUBLED:
            return timed(cell, scope, began, around, args, kwargs)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            return drive(recovery, plan, args, kwargs, (error, began)).value
        except BaseException:
            recovery.count_cancelled(cell)
            raise
        step(cell.succeeded)
        if scope is not None:
            step(scope.untroubled.steps)
        return result

    return guarded


def _timed(recovery: Recovery, plan: Plan) -> Callable[..., Any]:
    """The same where there is a deadline: the callable is handed what is left of it, and how long it took is noted.

    Also within an attempt that is under way: this one must not read the other's adjustments.
    """
    function, operation, now = plan.function, plan.operation, recovery.clock.quick_now
    enter, leave, step = ATTEMPT.set, ATTEMPT.reset, next

    def timed(
        cell: Cell, scope: Scope | None, began: float, around: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if around is not UNTROUBLED and around.idempotency_key is not None:  # it is handed down
            return drive(recovery, plan, args, kwargs).value
        deadline_s, attempt = operation.call_deadline_s, operation.first_attempt
        if scope is not None and scope.deadline_at - began < deadline_s:
            attempt = Attempt(operation.name, deadline_s=scope.deadline_at - began)
        token = enter(attempt)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            leave(token)
            if isinstance(error, Exception):
                return drive(recovery, plan, args, kwargs, (error, began)).value
            recovery.count_cancelled(cell)
            raise
        leave(token)
        step(cell.succeeded)
        if scope is not None:
            step(scope.untroubled.steps)
        if deadline_s:
            cell.took(now() - began)
        return result

    return timed


def quick_async(recovery: Recovery, plan: Plan) -> Callable[..., Any]:
    """For tasks: the same. An entry in a queue sees to a call's deadline, the run's own timer to the run's."""
    from recovery_ops.runtime.concurrency.timers import end  # asyncio: who has no tasks should not wait for it

    function, operation, own_source = plan.function, plan.operation, plan.source
    cells, own, step, timers = operation.cells, operation.cell(plan.source), next, operation.own_timers()
    now, current, outer = recovery.clock.quick_now, CURRENT.get, ATTEMPT.get
    is_loop_time = type(recovery.clock) is Clock  # a pushed clock knows nothing of when a loop wakes

    @functools.wraps(function)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        if scope is None or own_source:
            cell = own
        else:
            try:
                cell = cells[scope.source]
            except KeyError:
                cell = operation.cell(scope.source)
        step(cell.started)
        began, entry = now(), None
        if not operation.is_calm or (
            scope is not None
            and (scope.deadline_at <= began or scope.is_called_off or (scope.outer is not None and scope.is_cancelled))
        ):
            return (await drive_async(recovery, plan, args, kwargs)).value
        if outer() is not UNTROUBLED:
            return (await drive_async(recovery, plan, args, kwargs)).value
        deadline_s = operation.call_deadline_s
        if deadline_s:
            entry = timers.begin(deadline_s, began if is_loop_time else None)
            if entry is None:  # not asyncio: the ladder knows how to time it
                return (await drive_async(recovery, plan, args, kwargs)).value
        try:
            result = await (function(*args, **kwargs) if kwargs else function(*args))
        except BaseException as error:
            failed = error if entry is None or not end(entry) else _timeout(error, operation, deadline_s)
            if isinstance(failed, Exception):
                return (await drive_async(recovery, plan, args, kwargs, (failed, began))).value
            recovery.count_cancelled(cell)
            raise
        step(cell.succeeded)
        if scope is not None:
            step(scope.untroubled.steps)
        if entry is not None:
            end(entry)
            cell.took(now() - began)
        return result

    return guarded


def _timeout(error: BaseException, operation: Operation, deadline_s: float) -> BaseException:
    """Our own cancel as what it stands for, with the place where the call hung; any other error as it is."""
    if not isinstance(error, sys.modules["asyncio"].CancelledError):
        return error
    return TimeoutError(f"{operation.name} took longer than {deadline_s:g} s").with_traceback(error.__traceback__)
