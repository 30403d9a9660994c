"""Tools of the OpenAI Agents SDK under our rules: each call gets exactly one output, whatever happens.

from recovery_ops.runtime.integrations.openai_agents import recovering

agent = Agent(name="clerk", tools=[recovering(search, registry, read_only=True, require_permission=False)])
"""

from __future__ import annotations

import copy
import json
from typing import Any, Unpack

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
    from agents import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
except ModuleNotFoundError as error:
    raise missing(__name__, "openai-agents", error, root="agents") from None


def recovering(tool: FunctionTool, registry: ToolRegistry, **said: Unpack[SaidOfATool]) -> FunctionTool:
    """A copy of a tool whose calls go through `run_tool`; the words are those of `build_tool`.

    What fails is an output that says so; the tool's own `failure_error_function` is not asked. StopRun ends the run:
    the SDK raises its `UserError` from it. Outputs that are not text (images, files) pass unmasked.
    """
    inner = copy.copy(tool)
    # What it would swallow we have to see, or a failure counts as a success.
    inner._failure_error_function = None
    inner._use_default_failure_error_function = False

    async def handler(**arguments: Any) -> Any:
        own = beside()
        own.answer = await inner.on_invoke_tool(own.context, json.dumps(arguments))
        return own.answer

    adapted(registry, tool.name, handler, tool.description, tool.params_json_schema, **said)

    async def invoke(context: Any, arguments: str) -> Any:
        own = Beside(context, is_async=True)
        use = ToolUse(getattr(context, "tool_call_id", ""), tool.name, arguments)
        result = await called_async(lambda: registry.run_tool_async(use), own)
        if is_own_answer(result, own) and not isinstance(own.answer, str):
            return _advised(own.answer, result.advice)
        return result.content

    made = copy.copy(tool)
    made.on_invoke_tool = invoke
    return made


def _advised(answer: Any, advice: str) -> Any:
    """An output that is not text, with what a run limit says to the model as a further text."""
    if not advice:
        return answer
    parts = list(answer) if isinstance(answer, list | tuple) else [answer]
    if all(isinstance(one, ToolOutputText | ToolOutputImage | ToolOutputFileContent) for one in parts):
        return [*parts, ToolOutputText(text=advice)]
    return f"{answer}\n{advice}"  # as the SDK shows any other value
