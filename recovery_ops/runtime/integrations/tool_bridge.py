"""What the adapters for tools of other frameworks share: their tool stands in our registry, and is called by our rules.

The framework's own things (its context, its objects for state) travel beside the arguments, which are the model's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Unpack

from recovery_ops.rules.records import dataclass
from recovery_ops.rules.tools.results import ResultKind, ToolResult
from recovery_ops.runtime.guard import AnyFallback
from recovery_ops.runtime.tools.building import MoreOfATool, Tool, build_tool
from recovery_ops.runtime.tools.registry import ToolRegistry

ANYTHING: dict[str, Any] = {"type": "object"}


class SaidOfATool(MoreOfATool, total=False):
    """The words of `build_tool`, for a tool whose name, description and schema the framework has."""

    is_destructive: bool
    optional: bool
    require_permission: bool
    fallback: AnyFallback | list[AnyFallback] | None
    max_retries: int | None
    deadline_s: float | None
    kind: str
    source: str


@dataclass(slots=True)
class Beside:
    """What belongs to one call and is none of the model's business."""

    context: Any = None
    is_async: bool = False
    answer: Any = None
    """What the framework's tool returned, where that is more than its content."""
    signal: Exception | None = None
    """The framework's own way of saying something other than success or failure."""
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
    return registry.add(
        build_tool(name, handler, description=description, input_schema=dict(schema or ANYTHING), **words)
    )


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
        _BESIDE.reset(token)


def is_own_answer(result: ToolResult, own: Beside) -> bool:
    """Whether the framework's tool itself answered, so that its own form of the answer may be used."""
    return result.kind is ResultKind.SUCCEEDED and result.fallback is None and own.answer is not None
