"""All tool calls of one turn of the model: exactly one result for each, in order, however the turn ends.

results = run_tools(registry, tool_uses_in(answer))
messages.append({"role": "user", "content": [result.as_anthropic() for result in results]})
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from recovery_ops.rules.tools import outcomes as tool_outcomes
from recovery_ops.rules.tools.results import ToolResult
from recovery_ops.rules.tools.transcript import tool_use_of
from recovery_ops.runtime.concurrency.together import Job, run_together
from recovery_ops.runtime.errors import RunStopped
from recovery_ops.runtime.signals import classify
from recovery_ops.runtime.tools.calls import Calling, drive, drive_async
from recovery_ops.runtime.tools.registry import ToolRegistry

_log = logging.getLogger(__name__)


def run_tool(registry: ToolRegistry, tool_use: object, *, into: list[ToolResult] | None = None) -> ToolResult:
    """The result of one tool call, in this thread; see `run_tools`."""
    return run_tools(registry, [tool_use], into=into)[0]


async def run_tool_async(
    registry: ToolRegistry, tool_use: object, *, into: list[ToolResult] | None = None
) -> ToolResult:
    """The result of one tool call, in this task; see `run_tools_async`."""
    return (await run_tools_async(registry, [tool_use], into=into))[0]


def run_tools(
    registry: ToolRegistry, tool_uses: Iterable[object], *, into: list[ToolResult] | None = None
) -> list[ToolResult]:
    """One result for each call of a turn, in order, made one after the other in this thread.

    A call is a block of Anthropic's, a call of OpenAI's (mappings or the libraries' own objects), or a `ToolUse`.
    Async handlers get a loop of their own; where one is running, use `run_tools_async`.

    Failures of tools are results. Raised are only the terminal stop (RunStopped: upstream permission, a required tool
    that is away, a guard of the run), and cancels and interrupts, which are the caller's own. Before anything is
    raised every call has its result: `into`, a list of the caller's, receives them, and RunStopped has them too.
    """
    turn = Turn(registry, tool_uses, into)
    with turn:
        for index in turn:
            calling = turn.begin(index, for_tasks=False)
            try:
                result = drive(calling.steps())
            except Exception as error:
                result = turn.broken(index, error)
            turn.put(index, result)
    return turn.results


async def run_tools_async(
    registry: ToolRegistry,
    tool_uses: Iterable[object],
    *,
    into: list[ToolResult] | None = None,
    at_once: int = 8,
) -> list[ToolResult]:
    """Like `run_tools`, in this task, under asyncio or trio.

    Calls that stand side by side and do no harm when done twice (`is_destructive=False`) run together, at most so many
    at once; a destructive one runs alone, after those before it. Handlers that are not async run in threads: a
    deadline or a cancel ends the waiting for them, not the thread.
    """
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
            result = turn.broken(index, error)
        turn.put(index, result)
        return calling.stop is not None

    return job


class Turn:
    """The results of a turn as they come. Leaving it fills in whatever is missing, and raises the stop if there is one.

    Iterating gives the calls that are still to be made, and ends where the run does.
    """

    def __init__(self, registry: ToolRegistry, tool_uses: Iterable[object], into: list[ToolResult] | None) -> None:
        self.registry = registry
        self.uses = [tool_use_of(one) for one in tool_uses]
        self.stop: RunStopped | None = None
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
            if tool is not None and self.registry.caution_of(tool).is_destructive:
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
        return tool_outcomes.failed(self.uses[index], classify(error))

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
