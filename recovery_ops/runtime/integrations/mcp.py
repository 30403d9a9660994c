"""MCP tools under our rules: each call gets exactly one CallToolResult, whatever happens.

from recovery_ops.runtime.integrations.mcp import RecoveringSession

said = {"search": {"read_only": True, "require_permission": False}}
connect = lambda: Client("http://tools.example/mcp")
async with RecoveringSession(connect, registry, said, server="tools") as tools:
    result = await tools.call_tool("search", {"query": "breakers"})
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from recovery_ops.rules.tools.results import plain_name
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime.errors import ConfigurationError
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

try:
    from mcp.types import CallToolResult

    from recovery_ops.runtime.integrations.mcp_sessions import Connect, SessionKeeper
except ModuleNotFoundError as error:
    raise missing(__name__, "mcp", error) from None


class ToolReportedError(Exception):
    """The server's tool said in its result that it failed; `body` is the structured part of what it said."""

    def __init__(self, message: str, body: object = None) -> None:
        self.body = body
        super().__init__(message)


class RecoveringSession:
    """A `mcp.Client` or `ClientSession` whose `call_tool` goes through `run_tool`; the rest is the session's own.

    `session` is one that is open, or a function that makes one. A function needs `async with` around all calls and a
    `server`: sessions are then opened and closed here, and one that died is replaced once per attempt.

    All tools of a server share its breaker, `mcp:<server>`: its timeouts and transport failures count, errors that its
    tools report do not. `server` is by default the `prefix` without its last separators, else the name that the server
    states; a tool of a server without a name has a breaker of its own, and so has one with the option `breaker`.

    `said` has the words of `build_tool` for each tool by its name; a tool that is not in it is as restricted as any of
    which nothing is said. What the server says of its tools (read-only, idempotent) is not believed. After `list_tools`
    the model's arguments are held against the server's schemas.

    An error of the protocol, a broken connection or a result with `isError` is an `isError` result made of what the
    model may see; StopRun is raised. A result of `isError` is classified by `error.kind`, a code or a status in its
    structured content, and is `unknown` without: then a person is asked.
    """

    def __init__(
        self,
        session: Any | Connect,
        registry: ToolRegistry,
        said: Mapping[str, SaidOfATool] | None = None,
        *,
        prefix: str = "",
        server: str = "",
    ) -> None:
        name = server or prefix.rstrip("_-./:")
        self._keeper: SessionKeeper | None = None
        if callable(session):
            if not name:
                raise ConfigurationError("RecoveringSession of a function needs server=, the name of its breaker")
            self._keeper = SessionKeeper(session, name)
        self._session = session
        self._server = name
        self._registry = registry
        self._said = dict(said or {})
        self._prefix = prefix
        self._schemas: dict[str, Mapping[str, Any]] = {}

    async def __aenter__(self) -> Self:
        if self._keeper is not None:
            await self._keeper.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._keeper is not None:
            await self._keeper.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        session = self._session if self._keeper is None else self._keeper.live
        if session is None:
            raise AttributeError(f"no session of MCP server {self._server} is open, so it has no {name}")
        return getattr(session, name)

    async def list_tools(self, *args: Any, **kwargs: Any) -> Any:
        """The server's tools; their schemas are remembered."""
        listed = await self._on_session(lambda session: session.list_tools(*args, **kwargs), is_repeatable=True)
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
        result = await called_async(lambda: self._registry.run_tool_async(use), own)
        if is_own_answer(result, own):
            answer: CallToolResult = own.answer
            return _advised(answer, result.advice)
        content = [{"type": "text", "text": result.content}]
        return CallToolResult.model_validate({"content": content, "isError": result.is_error})

    def _add(self, name: str, ours: str) -> None:
        async def handler(**arguments: Any) -> Any:
            own = beside()
            answer = await self._on_session(
                lambda session: session.call_tool(name, arguments, **own.more),
                is_repeatable=self._registry.caution_of(tool).idempotent,
            )
            if _is_error(answer):
                structured = getattr(answer, "structured_content", None) or getattr(answer, "structuredContent", None)
                raise ToolReportedError(_text_of(answer), structured)
            own.answer = answer
            return _text_of(answer)

        said: SaidOfATool = {**self._said.get(name, {})}
        if breaker := self._breaker():
            said.setdefault("breaker", breaker)
        tool = adapted(self._registry, ours, handler, "", self._schemas.get(name), **said)

    async def _on_session(self, function: Callable[[Any], Awaitable[Any]], *, is_repeatable: bool) -> Any:
        if self._keeper is None:
            return await function(self._session)
        return await self._keeper.call(function, is_repeatable=is_repeatable)

    def _breaker(self) -> str:
        """The breaker of the server; empty where it has no name."""
        stated = getattr(getattr(self._session, "server_info", None), "name", None)
        name = self._server or (stated if isinstance(stated, str) else "")
        return f"mcp:{_UNFIT.sub('-', plain_name(name))}" if name.strip() else ""


_UNFIT = re.compile(r"[^\w.:/@-]+")
"""What a breaker's name has not: spaces, and the wildcards of patterns."""


def _advised(answer: CallToolResult, advice: str) -> CallToolResult:
    """The server's answer, with what a run limit says to the model as a further text."""
    if not advice:
        return answer
    more = CallToolResult.model_validate({"content": [{"type": "text", "text": advice}]}).content
    return answer.model_copy(update={"content": [*answer.content, *more]})


def _is_error(answer: Any) -> bool:
    return bool(getattr(answer, "is_error", False) or getattr(answer, "isError", False))


def _text_of(answer: Any) -> str:
    return "\n".join(text for part in answer.content if isinstance(text := getattr(part, "text", None), str))
