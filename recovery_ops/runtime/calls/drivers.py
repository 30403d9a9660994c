"""Drivers of decisions: a generator yields the work that it needs done; one loop serves threads, one serves tasks.

The generator is sent the result of its work, or the error is thrown into it. So a decision is written once.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from recovery_ops.runtime.aio.context_variables import take_back
from recovery_ops.runtime.aio.libraries import current_library, is_in_task
from recovery_ops.runtime.aio.waker import Waker
from recovery_ops.runtime.calls.operation import ATTEMPT, Attempt
from recovery_ops.runtime.calls.streams import RESPONSE_TIMEOUT, await_within, call_within

T = TypeVar("T")


class Invoke(NamedTuple):
    """Call a function of the user's, within `attempt` where there is one. A task is cancelled after `deadline_s`."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    deadline_s: float | None = None
    attempt: Attempt | None = None
    may_pend: bool = False
    """Whether an awaitable that it returns to a thread is awaited later; otherwise it is the result."""
    response_s: float | None = None
    """How long it may be silent: then a task is cancelled, and a thread of its own is left behind."""


class Pause(NamedTuple):
    """Wait for at most `delay_s` seconds; a change after `since` ends the wait. The result is the cause of its end."""

    waker: Waker
    delay_s: float
    since: int


class Blocking(NamedTuple):
    """Do blocking work of the runtime's own: for a task in a thread, to its end whatever is cancelled meanwhile."""

    function: Callable[[], Any]


class Either(NamedTuple):
    """Work that threads and tasks do each in their own way."""

    in_thread: Callable[[], Any]
    in_task: Callable[[], Awaitable[Any]]


Work = Callable[[], Any] | Invoke | Pause | Blocking | Either
"""A bare callable is called, and awaited in a task; its result is its own affair in a thread."""
Steps = Generator[Work, Any, T]


class Pending(NamedTuple, Generic[T]):
    """Steps whose work returned an awaitable to a thread; a task goes on with them."""

    steps: Steps[T]
    work: Invoke


def drive(steps: Steps[T]) -> T:
    """The result of steps that are done in this thread, none of which may pend."""
    return cast("T", drive_until_pending(steps))


def drive_until_pending(steps: Steps[T]) -> T | Pending[T]:
    """The result of steps that are done in this thread, or the rest of them where one has to be awaited."""
    reply, error = None, None
    try:
        while True:
            try:
                work = steps.send(reply) if error is None else steps.throw(error)
            except StopIteration as end:
                return cast("T", end.value)
            reply, error = None, None
            try:
                reply = _done(work)
            except BaseException as raised:  # the steps decide what passes
                error = raised
            if isinstance(work, Invoke) and work.may_pend and inspect.isawaitable(reply):
                return Pending(steps, _resumed(work, reply))
    finally:
        del error


async def drive_async(steps: Steps[T], begun: Work | None = None) -> T:
    """The result of steps that are done in this task; `begun` is work that they have yielded already."""
    reply, error, work = None, None, begun
    try:
        while True:
            if work is None:
                try:
                    work = steps.send(reply) if error is None else steps.throw(error)
                except StopIteration as end:
                    return cast("T", end.value)
            reply, error = None, None
            try:
                reply = await _done_async(work)
            except BaseException as raised:  # as in a thread
                error = raised
            work = None
    finally:
        del error


def _resumed(work: Invoke, result: Any) -> Invoke:
    """The work, once more, by a function that has returned already."""
    return work._replace(function=lambda *_, **__: result)


def _done(work: Work) -> Any:
    if isinstance(work, Pause):
        return work.waker.wait(work.delay_s, work.since)
    if isinstance(work, Blocking):
        return work.function()
    if isinstance(work, Either):
        return work.in_thread()
    if not isinstance(work, Invoke):
        return work()
    if work.attempt is None:
        return work.function(*work.args, **work.kwargs)
    token = ATTEMPT.set(work.attempt)
    try:
        if work.response_s is not None and not is_in_task():
            return call_within(work.function, work.args, work.kwargs, RESPONSE_TIMEOUT, work.response_s)
        return work.function(*work.args, **work.kwargs)
    finally:
        ATTEMPT.reset(token)


async def _done_async(work: Work) -> Any:
    if isinstance(work, Pause):
        return await work.waker.wait_async(work.delay_s, work.since)
    if isinstance(work, Blocking):
        from recovery_ops.runtime.aio.shielded import to_its_end  # asyncio: a program under trio need not have it

        return await to_its_end(work.function)
    if isinstance(work, Either):
        return await work.in_task()
    if not isinstance(work, Invoke):
        value = work()
        return await value if inspect.isawaitable(value) else value
    token = ATTEMPT.set(work.attempt) if work.attempt is not None else None
    try:
        async with current_library().timeout(work.deadline_s):
            value = work.function(*work.args, **work.kwargs)
            if not inspect.isawaitable(value):
                return value
            limit_s = work.response_s
            return await (value if limit_s is None else await_within(value, RESPONSE_TIMEOUT, limit_s, limit_s))
    finally:
        if token is not None:
            take_back(token)
