"""Toolsets of pydantic-ai under our rules: each call gets exactly one tool return, whatever happens.

from recovery_ops.runtime.integrations.pydantic_ai import RecoveringToolset

tools = RecoveringToolset(FunctionToolset([search]), registry, {"search": {"read_only": True}})
agent = Agent(model, toolsets=[tools])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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

try:
    from pydantic_ai import exceptions
    from pydantic_ai.messages import ToolReturn
    from pydantic_ai.toolsets import WrapperToolset
    from pydantic_core import to_jsonable_python
except ModuleNotFoundError as error:
    raise missing(__name__, "pydantic-ai-slim", error, root="pydantic_ai") from None


@dataclass
class RecoveringToolset(WrapperToolset[Any]):
    """A toolset whose calls go through `run_tool`. `said` has the words of `build_tool` for each tool by its name.

    What fails is a tool return with `outcome="failed"`; StopRun passes, and ends the run. ModelRetry, CallDeferred
    and ApprovalRequired of a tool pass too. Checkers and keys see the arguments as JSON, the tool gets them as
    pydantic-ai validated them.
    """

    registry: ToolRegistry
    said: Mapping[str, SaidOfATool] = field(default_factory=dict)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Call a tool of the toolset within."""
        if self.registry.get(name) is None:
            self._add(name, tool)
        own = Beside(is_async=True, more={"call": (name, tool_args, ctx, tool), "toolset": self.wrapped})
        use = ToolUse(ctx.tool_call_id or "", name, to_jsonable_python(tool_args, fallback=str))
        result = await called_async(lambda: self.registry.run_tool_async(use), own)
        if result.is_error:
            raise exceptions.ToolFailed(result.content)
        if is_own_answer(result, own) and not isinstance(own.answer, str):
            return _advised(own.answer, result.advice)
        return result.content

    def _add(self, name: str, tool: Any) -> None:
        async def handler(**_: Any) -> Any:
            own = beside()
            own.answer = await own.more["toolset"].call_tool(*own.more["call"])
            return own.answer

        adapted(self.registry, name, handler, tool.tool_def.description or "", None, **self.said.get(name, {}))


def _advised(answer: Any, advice: str) -> Any:
    """An answer that is not text, with what a run limit says to the model beside it."""
    if not advice:
        return answer
    if isinstance(answer, ToolReturn):
        return replace(answer, return_value=[answer.return_value, advice])
    return [answer, advice]
