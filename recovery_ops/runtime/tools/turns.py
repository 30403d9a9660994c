"""All tool calls of one turn of the model: exactly one result for each, in order, however the turn ends.

`ToolRegistry.run_tools` and its twins lead here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from recovery_ops.rules.tools import outcomes as tool_outcomes
from recovery_ops.rules.tools.results import ToolResult
from recovery_ops.rules.tools.transcript import tool_use_of
from recovery_ops.runtime.aio.task_group import Job, run_together
from recovery_ops.runtime.calls.drivers import drive, drive_async
from recovery_ops.runtime.errors import StopRun
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.failures.signals import classify
from recovery_ops.runtime.tools.calls import Calling
from recovery_ops.runtime.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)


def run_tools(registry: Toolbox, tool_uses: Iterable[object], into: list[ToolResult] | None) -> list[ToolResult]:
    """Run the calls of a turn in order, in this thread; one result for each."""
    turn = Turn(registry, tool_uses, into)
    with turn:
        for index in turn:
            calling = turn.begin(index, for_tasks=False)
            try:
                result = drive(calling.steps())
            except Exception as error:
                if is_control_flow(error, registry.recovery.control_flow):
                    raise
                result = turn.broken(index, error)
            turn.put(index, result)
    return turn.results


async def run_tools_async(
    registry: Toolbox, tool_uses: Iterable[object], into: list[ToolResult] | None, *, at_once: int
) -> list[ToolResult]:
    """One result for each call of a turn, in order, in this task; at most `at_once` calls run together."""
    turn = Turn(registry, tool_uses, into)
    with turn:
        for group in turn.groups():
            await run_together([_job(turn, index) for index in group], at_once=at_once)
            if turn.stop is not None:
                break
    return turn.results


def _job(turn: Turn, index: int) -> Job:
    async def job() -> bool:
        calling = turn.begin(index, for_tasks=True)
        try:
            result = await drive_async(calling.steps())
        except Exception as error:
            if is_control_flow(error, turn.registry.recovery.control_flow):
                raise
            result = turn.broken(index, error)
        turn.put(index, result)
        return calling.stop is not None

    return job


class Turn:
    """The results of a turn as they come. Leaving it fills in whatever is missing, and raises the stop if there is one.

    Iterating gives the calls that are still to be made, and ends where the run does.
    """

    def __init__(self, registry: Toolbox, tool_uses: Iterable[object], into: list[ToolResult] | None) -> None:
        self.registry = registry
        self.uses = [tool_use_of(one) for one in tool_uses]
        self.stop: StopRun | None = None
        self._into = into
        self._found: list[ToolResult | None] = [None] * len(self.uses)
        self._callings: list[Calling | None] = [None] * len(self.uses)

    @property
    def results(self) -> list[ToolResult]:
        """One for each call, in order."""
        return [self._filled(index) for index in range(len(self.uses))]

    def __iter__(self) -> Iterator[int]:
        for index in range(len(self.uses)):
            if self.stop is None:
                yield index

    def groups(self) -> Iterator[list[int]]:
        """The calls that may run together: neighbours that do no harm when done twice; each other one alone."""
        group: list[int] = []
        for index, use in enumerate(self.uses):
            tool = self.registry.get(use.name)
            if tool is not None and not self.registry.caution_of(tool).idempotent:
                yield from ([group] if group else [])
                yield [index]
                group = []
            else:
                group.append(index)
        if group:
            yield group

    def begin(self, index: int, *, for_tasks: bool) -> Calling:
        """Set out on one call."""
        calling = self._callings[index] = Calling(self.registry, self.uses[index], for_tasks=for_tasks)
        return calling

    def put(self, index: int, result: ToolResult) -> None:
        """One call has its result."""
        calling = self._callings[index]
        self._found[index] = result
        if calling is not None and calling.stop is not None and self.stop is None:
            self.stop = calling.stop

    def broken(self, index: int, error: Exception) -> ToolResult:
        """A defect of ours, or of a caller's object that we had to look at, must not cost the transcript a result."""
        _log.warning("recovery-ops could not settle the result of %s", self.uses[index].name, exc_info=error)
        tool = self.registry.get(self.uses[index].name)
        bypass_allowed = tool is None or self.registry.caution_of(tool).bypass_allowed
        return tool_outcomes.failed(self.uses[index], classify(error), bypass_allowed=bypass_allowed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index in range(len(self.uses)):
            self._found[index] = self._filled(index)
        if self._into is not None:
            self._into.extend(self.results)
        if self.stop is not None:
            self.stop.results = tuple(self.results)
            if error is None:
                raise self.stop

    def _filled(self, index: int) -> ToolResult:
        found = self._found[index]
        if found is not None:
            return found
        calling = self._callings[index]
        was_called = calling is not None and calling.was_called
        why = "the task was ended" if self.stop is not None else "the turn was cancelled"
        return tool_outcomes.cancelled(self.uses[index], was_called=was_called, why=why)
