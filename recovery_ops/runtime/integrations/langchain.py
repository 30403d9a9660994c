"""Tools of LangChain and LangGraph under our rules: each call gets exactly one ToolMessage, whatever happens.

from recovery_ops.runtime.integrations.langchain import recovering

search = recovering(search, registry, read_only=True, require_permission=False, max_retries=2)
agent = create_agent(model, [search])  # or ToolNode([search])
"""

from __future__ import annotations

from typing import Any, Unpack

from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime.integrations.packages import missing
from recovery_ops.runtime.integrations.tool_bridge import (
    Beside,
    SaidOfATool,
    adapted,
    beside,
    called,
    called_async,
    is_own_answer,
)
from recovery_ops.runtime.tools.registry import ToolRegistry

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, ToolException
    from pydantic import PrivateAttr
except ModuleNotFoundError as error:
    raise missing(__name__, "langchain-core", error, root="langchain_core") from None


def recovering(tool: BaseTool, registry: ToolRegistry, **said: Unpack[SaidOfATool]) -> BaseTool:
    """A tool of the same name and schema whose calls go through `run_tool`; the words are those of `build_tool`.

    What fails is a ToolMessage with `status="error"`; StopRun passes, and ends the graph. Arguments that LangGraph
    injects (state, store, the call's id) reach the tool and are never shown to checkers or fallbacks. Content that is
    not text (images) passes unmasked.
    """
    made = RecoveringTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.args_schema,
        return_direct=tool.return_direct,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
    made.bind_to(tool, registry, said)
    return made


class RecoveringTool(BaseTool):
    """What `recovering` makes."""

    _registry: Any = PrivateAttr()
    _shown: Any = PrivateAttr()
    _hidden: Any = PrivateAttr()

    def bind_to(self, tool: BaseTool, registry: ToolRegistry, said: SaidOfATool) -> None:
        """Take a tool's place."""
        # What it would swallow we have to see, or a failure counts as a success.
        inner = tool.model_copy(update={"handle_tool_error": False, "handle_validation_error": False})
        schema: Any = tool.tool_call_schema
        whole: Any = tool.get_input_schema()
        as_json = schema if isinstance(schema, dict) else schema.model_json_schema()
        self._registry, self._shown = registry, tuple(as_json.get("properties", {}))
        self._hidden = (set(whole.model_fields) | tool._injected_args_keys) - set(self._shown)

        def handler(**arguments: Any) -> Any:
            own = beside()
            call = {
                "type": "tool_call",
                "name": tool.name,
                "id": own.more["id"],
                "args": {**own.more["injected"], **arguments},
            }
            if own.is_async:
                return _kept_async(inner.ainvoke(call, own.context), own)
            return _kept(inner.invoke(call, own.context), own)

        adapted(registry, tool.name, handler, tool.description, as_json, **said)

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> Any:
        return (tool_input, tool_call_id), {}  # our registry checks the arguments, and tells the model what is wrong

    def _run(self, given: Any, call_id: str | None, config: RunnableConfig) -> Any:
        use, own = self._begun(given, call_id, config, is_async=False)
        return self._ended(called(lambda: self._registry.run_tool(use), own), own)

    async def _arun(self, given: Any, call_id: str | None, config: RunnableConfig) -> Any:
        use, own = self._begun(given, call_id, config, is_async=True)
        return self._ended(await called_async(lambda: self._registry.run_tool_async(use), own), own)

    def _begun(self, given: Any, call_id: str | None, config: Any, *, is_async: bool) -> tuple[ToolUse, Beside]:
        if isinstance(given, str):
            given = {next(iter(self._shown), "input"): given}
        injected = {name: value for name, value in given.items() if name in self._hidden}
        shown = {name: value for name, value in given.items() if name not in self._hidden}
        return ToolUse(call_id or "", self.name, shown), Beside(
            config, is_async, more={"id": call_id or "", "injected": injected}
        )

    def _ended(self, result: Any, own: Beside) -> Any:
        if result.is_error:
            raise ToolException(result.content)  # LangChain makes the message of it
        if not is_own_answer(result, own):
            return result.content, None
        if not isinstance(own.answer, ToolMessage):
            return own.answer, None  # a Command, which is handed on as it is
        is_text = isinstance(own.answer.content, str)
        content = result.content if is_text else own.answer.content
        more = [{"type": "text", "text": result.advice}] if result.advice and not is_text else []
        return ([*content, *more] if more else content), own.answer.artifact


def _kept(answer: Any, own: Beside) -> Any:
    own.answer = answer
    return answer.content if isinstance(answer, ToolMessage) else "done"


async def _kept_async(answer: Any, own: Beside) -> Any:
    return _kept(await answer, own)
