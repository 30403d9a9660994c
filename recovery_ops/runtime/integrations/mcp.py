"""MCP tools under our rules: each call gets exactly one CallToolResult, whatever happens.

from recovery_ops.runtime.integrations.mcp import RecoveringSession

async with Client("http://tools.example/mcp") as client:
    tools = RecoveringSession(client, registry, {"search": {"is_destructive": False, "require_permission": False}})
    result = await tools.call_tool("search", {"query": "breakers"})
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime.integrations.packages import missing
from recovery_ops.runtime.integrations.tool_bridge import (
    Beside,
    SaidOfATool,
    adapted,
    beside,
    called_async,
    is_own_answer,
)
from recovery_ops.runtime.tools.registry import ToolRegistry
from recovery_ops.runtime.tools.turns import run_tool_async

try:
    from mcp.types import CallToolResult
except ModuleNotFoundError as error:
    raise missing(__name__, "mcp", error) from None


class ToolReportedError(Exception):
    """The server's tool said in its result that it failed; `body` is the structured part of what it said."""

    def __init__(self, message: str, body: object = None) -> None:
        self.body = body
        super().__init__(message)


class RecoveringSession:
    """A `mcp.Client` or `ClientSession` whose `call_tool` goes through `run_tool`; the rest is the session's own.

    `said` has the words of `build_tool` for each tool by its name; a tool that is not in it is as restricted as any of
    which nothing is said. What the server says of its tools (read-only, idempotent) is not believed. After `list_tools`
    the model's arguments are held against the server's schemas.

    An error of the protocol, a broken connection or a result with `isError` is an `isError` result made of what the
    model may see; RunStopped is raised. A result of `isError` is classified by `error.kind`, a code or a status in its
    structured content, and is `unknown` without: then a person is asked.
    """

    def __init__(
        self, session: Any, registry: ToolRegistry, said: Mapping[str, SaidOfATool] | None = None, *, prefix: str = ""
    ) -> None:
        self._session = session
        self._registry = registry
        self._said = dict(said or {})
        self._prefix = prefix
        self._schemas: dict[str, Mapping[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def list_tools(self, *args: Any, **kwargs: Any) -> Any:
        """The server's tools; their schemas are remembered."""
        listed = await self._session.list_tools(*args, **kwargs)
        for tool in listed.tools:
            schema = getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None)
            if schema:
                self._schemas[tool.name] = schema
        return listed

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> CallToolResult:
        """Call a tool of the server."""
        ours = f"{self._prefix}{name}"
        if self._registry.get(ours) is None:
            self._add(name, ours)
        own = Beside(is_async=True, more=more)
        use = ToolUse(uuid.uuid4().hex, ours, arguments or {})
        result = await called_async(lambda: run_tool_async(self._registry, use), own)
        if is_own_answer(result, own):
            answer: CallToolResult = own.answer
            return answer
        content = [{"type": "text", "text": result.content}]
        return CallToolResult.model_validate({"content": content, "isError": result.is_error})

    def _add(self, name: str, ours: str) -> None:
        async def handler(**arguments: Any) -> Any:
            own = beside()
            answer = await self._session.call_tool(name, arguments, **own.more)
            if _is_error(answer):
                structured = getattr(answer, "structured_content", None) or getattr(answer, "structuredContent", None)
                raise ToolReportedError(_text_of(answer), structured)
            own.answer = answer
            return _text_of(answer)

        adapted(self._registry, ours, handler, "", self._schemas.get(name), **self._said.get(name, {}))


def _is_error(answer: Any) -> bool:
    return bool(getattr(answer, "is_error", False) or getattr(answer, "isError", False))


def _text_of(answer: Any) -> str:
    return "\n".join(text for part in answer.content if isinstance(text := getattr(part, "text", None), str))
