"""Blocks of code as guarded calls: `with recovery.guard("name"):` once, `recovery.attempts("name")` with retries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from recovery_ops.rules.resilience.steps import Action, Call
from recovery_ops.runtime.aio.context_variables import take_back
from recovery_ops.runtime.aio.libraries import current_library
from recovery_ops.runtime.calls.drivers import drive, drive_async
from recovery_ops.runtime.calls.execution import CallExecution
from recovery_ops.runtime.calls.executor import wait_for
from recovery_ops.runtime.calls.operation import ATTEMPT, Plan
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.runs.context import source_of_run

_Step = Action | None


class Block:
    """One attempt of a block, as a context manager. An error that will be retried is suppressed; the last is raised.

    `async with` also cancels the block when its timeout is over; a `with` is not interrupted. `number` counts from 1,
    `remaining_s` is what is left for this attempt in seconds.
    """

    def __init__(self, call: CallExecution, step: Call) -> None:
        self.number, self.remaining_s = step.attempt, step.deadline_s
        self.is_over = False
        self.next: _Step = step
        self._call, self._step = call, step
        self._timeout: AbstractAsyncContextManager[object] | None = None

    def __enter__(self) -> Self:
        _, attempt = self._call.prepare(self._step)
        self._token = ATTEMPT.set(attempt)
        self._began = self._call.recovery.clock.now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        call = self._call
        take_back(self._token)
        self.is_over = True
        if error is None:
            self.next = call.advance(call.returned(self._step, None, self._began))
            return False
        self.next = call.advance(call.raised(self._step, error, self._began))
        if self.next is not None:
            return True
        try:
            call.let_go()
            call.outcome()
        except BaseException as ended:
            if ended is error:
                return False
            raise
        return False

    async def __aenter__(self) -> Self:
        self._timeout = current_library().timeout(self.remaining_s)
        await self._timeout.__aenter__()
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._timeout is not None:
            try:
                await self._timeout.__aexit__(kind, error, trace)
            except TimeoutError as late:  # the cancel stood for it
                if self.__exit__(type(late), late, late.__traceback__):
                    return True
                raise
        return self.__exit__(kind, error, trace)


class Attempts:
    """`for attempt in recovery.attempts("name"): with attempt: …`, or `async for … async with`.

    The loop ends when the block succeeded. A call that may not be made raises where the loop asks for the attempt.
    """

    def __init__(self, recovery: Engine, plan: Plan) -> None:
        self._recovery, self._plan = recovery, plan

    def __iter__(self) -> Iterator[Block]:
        call, step = begun(self._recovery, self._plan)
        block = None
        try:
            while step is not None:
                if isinstance(step, Call):
                    block = Block(call, step)
                    yield block
                    step = _unless_called_off(call, _entered(block).next)
                else:
                    step = call.advance(drive(wait_for(call, step)))
            call.outcome()
        finally:
            _left(call, step, block)

    async def __aiter__(self) -> AsyncIterator[Block]:
        call, step = begun(self._recovery, self._plan)
        block = None
        try:
            while step is not None:
                if isinstance(step, Call):
                    block = Block(call, step)
                    yield block
                    step = _unless_called_off(call, _entered(block).next)
                else:
                    step = call.advance(await drive_async(wait_for(call, step)))
            call.outcome()
        finally:
            _left(call, step, block)


def begun(recovery: Engine, plan: Plan) -> tuple[CallExecution, _Step]:
    """A call whose function is a block, and its first step."""
    next(plan.operation.cell(plan.source or source_of_run() or recovery.default_source).started)
    call = CallExecution(recovery, plan, (), {})
    return call, _unless_called_off(call, call.begin(recovery.clock.now(), None))


def _unless_called_off(call: CallExecution, step: _Step) -> _Step:
    """The step; where the run was called off before it, the end of the call."""
    return step if step is None or not call.is_called_off else call.advance(call.called_off(step))


def _entered(block: Block) -> Block:
    if not block.is_over:
        raise ConfigurationError("an attempt is a context manager: put the block into `with attempt:`")
    return block


def _left(call: CallExecution, step: _Step, block: Block | None) -> None:
    """The loop was left between two attempts: the call ends like a cancelled one."""
    if block is not None and block.is_over:
        step = block.next
    if call.ending is None and step is not None:
        call.advance(call.called_off(step))
    call.let_go()


_OPEN: ContextVar[tuple[Block, ...]] = ContextVar("recovery_ops_blocks", default=())
"""The blocks of `with recovery.guard(…)` that this task or thread is in."""


def enter(recovery: Engine, plan: Plan) -> Block:
    """The one attempt of a block; raises where the call may not be made."""
    call, step = begun(recovery, plan)
    while step is not None and not isinstance(step, Call):
        step = call.advance(drive(wait_for(call, step)))
    return _opened(call, step)


async def enter_async(recovery: Engine, plan: Plan) -> Block:
    """`enter` in a task."""
    call, step = begun(recovery, plan)
    while step is not None and not isinstance(step, Call):
        step = call.advance(await drive_async(wait_for(call, step)))
    return _opened(call, step)


def _opened(call: CallExecution, step: Call | None) -> Block:
    if step is None:
        call.let_go()
        call.outcome()
        raise ConfigurationError("a block has no result of another")
    block = Block(call, step)
    _OPEN.set((*_OPEN.get(), block))
    return block


def innermost() -> Block:
    """The block that is left now."""
    *others, block = _OPEN.get()
    _OPEN.set(tuple(others))
    return block
