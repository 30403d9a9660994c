"""What the adapters for tools of other frameworks share: their tool stands in our registry, and is called by our rules.

The framework's own things (its context, its objects for state) travel beside the arguments, which are the model's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any, Unpack

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.tools.results import ResultKind, ToolResult
from recovery_ops.runtime.aio.context_variables import take_back
from recovery_ops.runtime.calls.deadline import Duration
from recovery_ops.runtime.guards.options import AnyFallback, Kind
from recovery_ops.runtime.tools.registry import ToolRegistry
from recovery_ops.runtime.tools.tool import MoreOfATool, Tool, build_tool

ANYTHING: dict[str, Any] = {"type": "object"}


class SaidOfATool(MoreOfATool, total=False):
    """The words of `build_tool`, for a tool whose name, description and schema the framework has."""

    idempotent: bool
    read_only: bool
    is_destructive: bool
    optional: bool
    require_permission: bool
    fallback: AnyFallback | list[AnyFallback] | None
    max_retries: int | None
    attempt_timeout: Duration | None
    kind: Kind
    source: str


@dataclass(slots=True)
class Beside:
    """What belongs to one call and is none of the model's business."""

    context: Any = None
    is_async: bool = False
    answer: Any = None
    """What the framework's tool returned, where that is more than its content."""
    more: dict[str, Any] = field(default_factory=dict)


_BESIDE: ContextVar[Beside] = ContextVar("recovery_ops_beside")


def beside() -> Beside:
    """What belongs to the call that we are in."""
    return _BESIDE.get()


def adapted(
    registry: ToolRegistry,
    name: str,
    handler: Callable[..., Any],
    description: str,
    schema: Mapping[str, Any] | None,
    **said: Unpack[SaidOfATool],
) -> Tool:
    """A framework's tool in our registry. `handler` gets the model's arguments by name, and finds `beside()`."""
    words: Any = said
    tool = build_tool(name, handler, description=description, input_schema=dict(schema or ANYTHING), **words)
    return registry.add(replace(tool, whole_answer=_answer))


def _answer() -> object:
    """The answer of the framework's tool in the call that we are in, without what every message has of its own."""
    own = _BESIDE.get(None)
    answer = None if own is None else own.answer
    return getattr(answer, "content", answer)


def called(run: Callable[[], ToolResult], own: Beside) -> ToolResult:
    """Run a call with what belongs to it."""
    token = _BESIDE.set(own)
    try:
        return run()
    finally:
        _BESIDE.reset(token)


async def called_async(run: Callable[[], Awaitable[ToolResult]], own: Beside) -> ToolResult:
    """Run a call with what belongs to it."""
    token = _BESIDE.set(own)
    try:
        return await run()
    finally:
        take_back(token)


def is_own_answer(result: ToolResult, own: Beside) -> bool:
    """Whether the framework's tool itself answered, so that its own form of the answer may be used."""
    return result.kind is ResultKind.SUCCEEDED and result.fallback is None and own.answer is not None
