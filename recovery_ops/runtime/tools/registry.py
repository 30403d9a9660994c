"""The registry of an agent's tools: runs the calls of a turn, and resumes conversations that broke off."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from recovery_ops.rules.tools.transcript import Message, ToolUse, tool_uses_in
from recovery_ops.runtime.default_client import in_force
from recovery_ops.runtime.tools.permission import AskPerson, Checker
from recovery_ops.runtime.tools.tool import Tool
from recovery_ops.runtime.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from recovery_ops.rules.tools.results import ToolResult
    from recovery_ops.runtime.client import Recovery
    from recovery_ops.runtime.tools.transcripts import Resumed


class ToolRegistry(Toolbox):
    """The tools of one agent. Thread-safe after it is filled.

    `recovery` defaults to that of the run, else of the process. `permission(tool, arguments)` returns True or the
    reason of a denial; without it every tool that requires permission is denied. `ask_person(tool, arguments, reason)`
    is called after too many denials in a foreground run; without it, or in background, an escalation is opened.
    `offered()` are the tools for the next turn. Rules:
    docs/guide/tools.md#declaration

    >>> registry = ToolRegistry(recovery, permission=lambda tool, arguments: tool.name == "add")
    >>> added = registry.add(build_tool("add", lambda a, b: a + b))
    >>> registry.run_tool({"id": "1", "name": "add", "input": {"a": 1, "b": 2}}).content
    '3'
    """

    recovery: Recovery

    def __init__(
        self,
        recovery: Recovery | None = None,
        permission: Checker | None = None,
        *,
        ask_person: AskPerson | None = None,
        tools: Iterable[Tool] = (),
    ) -> None:
        super().__init__(recovery or in_force(), permission, ask_person, tools)

    def run_tool(self, tool_use: object, *, into: list[ToolResult] | None = None) -> ToolResult:
        """The result of one tool call, in this thread; see `run_tools`."""
        return self.run_tools([tool_use], into=into)[0]

    async def run_tool_async(self, tool_use: object, *, into: list[ToolResult] | None = None) -> ToolResult:
        """The result of one tool call, in this task; see `run_tools_async`."""
        return (await self.run_tools_async([tool_use], into=into))[0]

    def run_tools(self, tool_uses: Iterable[object], *, into: list[ToolResult] | None = None) -> list[ToolResult]:
        """Run the calls of a turn in order, in this thread; one result for each.

        A call is a block of Anthropic's or a call of OpenAI's, as a mapping or as the library's own object; see
        `tool_uses_in`. Async handlers get a loop of their own; where one is running, use `run_tools_async`.

        Failures of tools are results. Raised are only the terminal stop (StopRun: upstream permission, a required tool
        that is down, a limit of the run), cancels and interrupts, and a framework's control flow (an interrupt of
        LangGraph, a `ModelRetry` of pydantic-ai). Before anything is raised every call has its result: `into`, a list
        of the caller's, receives them, and StopRun has them too. Rules: docs/guide/tools.md#the-loop

        >>> registry = ToolRegistry(recovery, tools=[build_tool("add", lambda a, b: a + b, require_permission=False)])
        >>> [result] = registry.run_tools([{"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1, "b": 2}}])
        >>> result.kind == "succeeded", result.content
        (True, '3')
        """
        from recovery_ops.runtime.tools import turns

        return turns.run_tools(self, tool_uses, into)

    async def run_tools_async(
        self, tool_uses: Iterable[object], *, into: list[ToolResult] | None = None, at_once: int = 8
    ) -> list[ToolResult]:
        """Like `run_tools`, in this task, under asyncio or trio.

        Neighbours that do no harm when done twice (`idempotent`) run together, at most `at_once` of them; any other
        runs alone, after those before it. Handlers that are not async run in threads: a deadline or a cancel ends the
        waiting for them, not the thread.
        """
        from recovery_ops.runtime.tools import turns

        return await turns.run_tools_async(self, tool_uses, into, at_once=at_once)

    @staticmethod
    def tool_uses_in(message: object) -> list[ToolUse]:
        """The tool calls of a message of the model, in order; a mapping or the message object of the vendor.

        >>> ToolRegistry.tool_uses_in({"role": "assistant", "content": "No tool is needed."})
        []
        """
        return tool_uses_in(message)

    def resume(
        self,
        messages: Sequence[Message],
        *,
        files: Mapping[str, str] | Iterable[str] = (),
        plan: Iterable[object] = (),
    ) -> Resumed:
        """Complete a conversation: every tool call without a result gets one. For messages of Anthropic and OpenAI.

        A tool with a `state_probe` is asked whether the call was carried out; of all others the outcome is unknown, and
        the model is told to check. `files` are marks from `file_marks`, or bare paths (then only missing files are
        noticed); paths in the `file_arguments` of the calls are checked too. `plan` holds steps as the agent keeps
        them: names, or mappings of `name`, `status` (`done`, `failed`, or anything else for to do) and `tool_use_id`.

        The result has the whole `messages`, what was `filled` and `dropped`, `files_gone`, `files_changed`, the `plan`,
        and a `briefing` for the model. Never raises for what the messages hold.
        Rules: docs/guide/tools.md#resuming-a-conversation

        >>> call = {"type": "tool_use", "id": "1", "name": "pay", "input": {}}
        >>> messages = [{"role": "user", "content": "Pay."}, {"role": "assistant", "content": [call]}]
        >>> resumed = ToolRegistry(recovery).resume(messages)
        >>> [(result.tool_use_id, result.detail == "interrupted") for result in resumed.filled]
        [('1', True)]
        """
        from recovery_ops.runtime.tools import transcripts

        return transcripts.resume(self, messages, files, plan)

    async def resume_async(
        self,
        messages: Sequence[Message],
        *,
        files: Mapping[str, str] | Iterable[str] = (),
        plan: Iterable[object] = (),
    ) -> Resumed:
        """`resume` where probes are async."""
        from recovery_ops.runtime.tools import transcripts

        return await transcripts.resume_async(self, messages, files, plan)

    @staticmethod
    def file_marks(paths: Iterable[str | os.PathLike[str]]) -> dict[str, str]:
        """A hash of the content of each file, to store with a conversation and pass to `resume`; `gone` for no file."""
        from recovery_ops.runtime.tools import transcripts

        return transcripts.file_marks(paths)
