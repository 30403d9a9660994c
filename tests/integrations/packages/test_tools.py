"""Tools of other frameworks under our rules, run by those frameworks: exactly one result, in their own form."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Annotated, Any

import pytest
import uvicorn
from agents import Agent, FunctionTool, RunConfig, Runner, ToolOutputText, UserError, function_tool
from agents.models.interface import Model
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt
from mcp import Client, MCPError
from mcp.server import MCPServer
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import ToolReturn as PydanticReturn
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import BreakerStateChanged, FailureClassified, RetryScheduled, ToolErrorReturned
from recovery_ops.runtime import ConfigurationError, Settings, StopRun, ToolRegistry
from recovery_ops.runtime.integrations import langchain, mcp, openai_agents, pydantic_ai
from recovery_ops.runtime.testing import HttpError, Lab

FREE: Any = {"read_only": True, "require_permission": False, "max_retries": 2, "source": "main_agent"}
SECRET = "sk-ant-api03-" + "a" * 40


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def registry(lab: Lab) -> ToolRegistry:
    return ToolRegistry(lab.recovery)


ADVICE = "call 3 of search with the same arguments and the same result"
"""What the model is told at its third call that is the same."""


# LangChain and LangGraph


def message(call: Any, made: BaseTool, *, is_async: bool) -> ToolMessage:
    answer = asyncio.run(made.ainvoke(call)) if is_async else made.invoke(call)
    assert isinstance(answer, ToolMessage)
    return answer


def asks(arguments: dict[str, Any], name: str = "search") -> dict[str, Any]:
    return {"type": "tool_call", "id": "c1", "name": name, "args": arguments}


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def play(request: pytest.FixtureRequest, lab: Lab, registry: ToolRegistry) -> Callable[..., ToolMessage]:
    """The message of one call of a LangChain tool that plays these outcomes."""

    def played(*outcomes: Any, arguments: Any = None, **said: Any) -> ToolMessage:
        script = lab.script(*outcomes)

        def search(query: str) -> str:
            """Finds pages."""
            return str(script(query))

        async def search_async(query: str) -> str:
            return str(script(query))

        made = StructuredTool.from_function(
            search, coroutine=search_async if request.param else None, name="search", handle_tool_error=True
        )
        ours = langchain.recovering(made, registry, **{**FREE, **said})
        assert (ours.name, ours.description, ours.args) == (made.name, made.description, made.args)
        return message(asks(arguments or {"query": "breakers"}), ours, is_async=request.param)

    return played


def test_langchain_gets_what_the_tool_says(play: Callable[..., ToolMessage]) -> None:
    answer = play("found it")
    assert (answer.content, answer.status, answer.tool_call_id, answer.name) == ("found it", "success", "c1", "search")


@pytest.mark.parametrize("content", ["found it", [{"type": "text", "text": "found it"}]], ids=["text", "blocks"])
def test_langchain_model_is_warned_of_a_repeated_call(lab: Lab, registry: ToolRegistry, content: Any) -> None:
    def search(query: str) -> Any:
        """Finds pages."""
        return content

    ours = langchain.recovering(StructuredTool.from_function(search, name="search"), registry, **FREE)
    with lab.recovery.run(source="main_agent"):
        shown = [str(message(asks({"query": "breakers"}), ours, is_async=False).content) for _ in range(3)]
    assert [ADVICE in one for one in shown] == [False, False, True]
    assert all("found it" in one for one in shown)


def test_langchain_images_that_differ_are_no_repetition(lab: Lab, registry: ToolRegistry) -> None:
    pictures = iter(range(9))

    def look() -> Any:
        """Takes a picture."""
        return [{"type": "image", "base64": str(next(pictures)), "mime_type": "image/png"}]

    ours = langchain.recovering(StructuredTool.from_function(look, name="look"), registry, **FREE)
    with lab.recovery.run(source="main_agent"):
        assert [message(asks({}, "look"), ours, is_async=False).status for _ in range(9)] == ["success"] * 9


def test_polling_tool_of_a_framework_is_exempt(lab: Lab, registry: ToolRegistry) -> None:
    made = StructuredTool.from_function(lambda: "running", name="status", description="Tells how far it is.")
    ours = langchain.recovering(made, registry, polling=True, **FREE)
    with lab.recovery.run(source="main_agent"):
        assert [message(asks({}, "status"), ours, is_async=False).content for _ in range(9)] == ["running"] * 9


def test_langchain_tools_are_retried(play: Callable[..., ToolMessage], lab: Lab) -> None:
    assert play(529, ConnectionResetError(), "found it").content == "found it"
    assert len(lab.events_of(RetryScheduled)) == 2


def test_langchain_is_told_of_a_failure(play: Callable[..., ToolMessage], lab: Lab) -> None:
    answer = play(ToolException(f"no such shelf, {SECRET}"))
    assert (answer.status, answer.tool_call_id) == ("error", "c1")
    assert "no such shelf" in str(answer.content)
    assert SECRET not in str(answer.content)
    assert len(lab.events_of(ToolErrorReturned)) == 1


def test_langchain_is_told_what_is_wrong_with_the_arguments(play: Callable[..., ToolMessage], lab: Lab) -> None:
    answer = play("found it", arguments={"quarry": 1})
    assert answer.status == "error"
    assert '"query"' in str(answer.content)
    assert lab.events_of(FailureClassified)[0].category is Category.MODEL_OUTPUT


def test_langchain_is_told_that_a_call_is_not_permitted(play: Callable[..., ToolMessage]) -> None:
    assert play("found it", require_permission=True).status == "error"


def test_what_is_forbidden_stops_the_graph(play: Callable[..., ToolMessage]) -> None:
    with pytest.raises(StopRun):
        play(403)


def test_langgraph_runs_it_with_what_it_injects(registry: ToolRegistry) -> None:
    @tool
    def count(word: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Counts the messages."""
        return f"{word}: {len(state['messages'])}"

    @tool(response_format="content_and_artifact")
    def draw(word: str) -> tuple[str, dict[str, str]]:
        """Draws."""
        return "drawn", {"picture": word}

    said = {"read_only": True, "require_permission": False}
    tools = [langchain.recovering(one, registry, **said) for one in (count, draw)]  # type: ignore[arg-type]

    def model(state: MessagesState) -> dict[str, Any]:
        if len(state["messages"]) > 1:
            return {"messages": [AIMessage("done")]}
        calls = [asks({"word": "seen"}, "count"), {**asks({"word": "x"}, "draw"), "id": "c2"}]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    graph = StateGraph(MessagesState).add_node("model", model).add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model").add_edge("tools", END)
    graph.add_conditional_edges("model", lambda state: "tools")
    messages = graph.compile().invoke({"messages": [("user", "hello")]})["messages"]
    answers = {one.tool_call_id: one for one in messages if isinstance(one, ToolMessage)}
    assert {name: (one.content, one.artifact) for name, one in answers.items()} == {
        "c1": ("seen: 2", None),
        "c2": ("drawn", {"picture": "x"}),
    }


# The OpenAI Agents SDK


class Scripted(Model):
    """A model that calls the tool once and then says what it was told."""

    def __init__(self, arguments: str) -> None:
        self.arguments = arguments
        self.told: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
        from agents import ModelResponse as Answer
        from agents import Usage

        outputs = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if outputs:
            self.told = [item["output"] for item in outputs]
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            said: Any = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            said = ResponseFunctionToolCall(arguments=self.arguments, call_id="c1", name="search", type="function_call")
        return Answer(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def agents_tool(lab: Lab, *outcomes: Any) -> FunctionTool:
    script = lab.script(*outcomes)

    @function_tool
    def search(query: str) -> str:
        """Finds pages."""
        return str(script(query))

    made: FunctionTool = search
    return made


def told_by_the_agents_sdk(made: FunctionTool, arguments: str = '{"query": "breakers"}') -> list[Any]:
    model = Scripted(arguments)
    agent = Agent(name="clerk", model=model, tools=[made])
    result = asyncio.run(Runner.run(agent, "hello", run_config=RunConfig(tracing_disabled=True)))
    assert result.final_output == "done"
    return model.told


def test_the_agents_sdk_gets_what_the_tool_says_after_retries(lab: Lab, registry: ToolRegistry) -> None:
    ours = openai_agents.recovering(agents_tool(lab, 529, "found it"), registry, **FREE)
    assert told_by_the_agents_sdk(ours) == ["found it"]
    assert len(lab.events_of(RetryScheduled)) == 1


@pytest.mark.parametrize("output", ["found it", ToolOutputText(text="found it"), {"found": "it"}])
def test_the_agents_sdk_model_is_warned_of_a_repeated_call(lab: Lab, registry: ToolRegistry, output: Any) -> None:
    @function_tool
    def search(query: str) -> Any:
        """Finds pages."""
        return output

    ours = openai_agents.recovering(search, registry, **FREE)
    with lab.recovery.run(source="main_agent"):
        shown = [str(told_by_the_agents_sdk(ours)[-1]) for _ in range(3)]
    assert [ADVICE in one for one in shown] == [False, False, True]
    assert all("found" in one for one in shown)


def test_the_agents_sdk_is_told_of_a_failure_once(lab: Lab, registry: ToolRegistry) -> None:
    ours = openai_agents.recovering(agents_tool(lab, LookupError("no such shelf")), registry, **FREE)
    (output,) = told_by_the_agents_sdk(ours)
    assert "no such shelf" in output
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.NOT_FOUND]


def test_the_agents_sdk_is_told_what_is_wrong_with_the_arguments(lab: Lab, registry: ToolRegistry) -> None:
    ours = openai_agents.recovering(agents_tool(lab, "found it"), registry, **FREE)
    (output,) = told_by_the_agents_sdk(ours, '{"query": ')
    assert "query" in output
    assert lab.events_of(FailureClassified)[0].category is Category.MODEL_OUTPUT


def test_what_is_forbidden_stops_the_agents_sdk(lab: Lab, registry: ToolRegistry) -> None:
    ours = openai_agents.recovering(agents_tool(lab, 403), registry, **FREE)
    with pytest.raises(UserError) as caught:
        told_by_the_agents_sdk(ours)
    assert isinstance(caught.value.__cause__, StopRun)


# pydantic-ai


def test_langgraph_interrupt_passes_tool_and_guard(lab: Lab, registry: ToolRegistry) -> None:
    ask_person = lab.recovery.guard("ask_person", optional=True)(interrupt)

    def decide(question: str) -> str:
        """Asks a person."""
        return str(ask_person(question))

    made = langchain.recovering(StructuredTool.from_function(decide, name="search"), registry, **FREE)
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([made]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    compiled, config = graph.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    with lab.recovery.run(source="main_agent") as run:
        asked = compiled.invoke({"messages": [AIMessage("", tool_calls=[asks({"question": "May I?"})])]}, config)
        assert [one.value for one in asked["__interrupt__"]] == ["May I?"]
        answered = compiled.invoke(Command(resume="yes"), config)
    assert answered["messages"][-1].content == "yes"
    assert run.withdrawn == frozenset()
    assert lab.events_of(FailureClassified) == []


@pytest.mark.parametrize("kind", [ModelRetry, CallDeferred, ApprovalRequired])
def test_pydantic_ai_signal_passes_a_plain_guard(kind: Any, lab: Lab) -> None:
    signal = kind("again") if kind is ModelRetry else kind()
    with pytest.raises(kind) as caught:
        lab.recovery.guard("search", idempotent=True, optional=True)(lab.script(signal))()
    assert caught.value is signal


def returns_of_pydantic_ai(toolset: Any, arguments: dict[str, Any] | None = None) -> list[ToolReturnPart]:
    """The tool returns that the model saw last, after one call."""
    seen: list[ToolReturnPart] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]
        seen[:] = parts
        if parts and parts[-1].outcome != "retried":
            return ModelResponse(parts=[TextPart("done")])
        call = ToolCallPart("search", arguments or {"query": "breakers"}, tool_call_id=f"c{len(parts)}")
        return ModelResponse(parts=[call])

    agent = PydanticAgent(FunctionModel(model), toolsets=[toolset])
    assert asyncio.run(agent.run("hello")).output == "done"
    return seen


def pydantic_toolset(lab: Lab, registry: ToolRegistry, *outcomes: Any) -> Any:
    script = lab.script(*outcomes)

    def search(query: str) -> str:
        """Finds pages."""
        return str(script(query))

    return pydantic_ai.RecoveringToolset(FunctionToolset([search]), registry, {"search": FREE})


def test_pydantic_ai_gets_what_the_tool_says_after_retries(lab: Lab, registry: ToolRegistry) -> None:
    (part,) = returns_of_pydantic_ai(pydantic_toolset(lab, registry, 529, "found it"))
    assert (part.content, part.outcome, part.tool_call_id) == ("found it", "success", "c0")
    assert len(lab.events_of(RetryScheduled)) == 1


@pytest.mark.parametrize("answer", ["found it", {"found": "it"}, PydanticReturn(return_value="found it")])
def test_pydantic_ai_model_is_warned_of_a_repeated_call(lab: Lab, registry: ToolRegistry, answer: Any) -> None:
    def search(query: str) -> Any:
        """Finds pages."""
        return answer

    toolset = pydantic_ai.RecoveringToolset(FunctionToolset([search]), registry, {"search": FREE})
    with lab.recovery.run(source="main_agent"):
        shown = [str(returns_of_pydantic_ai(toolset)[-1].content) for _ in range(3)]
    assert [ADVICE in one for one in shown] == [False, False, True]
    assert all("found" in one for one in shown)


def test_pydantic_ai_is_told_of_a_failure_once(lab: Lab, registry: ToolRegistry) -> None:
    (part,) = returns_of_pydantic_ai(pydantic_toolset(lab, registry, LookupError("no such shelf")))
    assert part.outcome == "failed"
    assert "no such shelf" in str(part.content)


def test_what_a_tool_says_to_pydantic_ai_itself_passes(lab: Lab, registry: ToolRegistry) -> None:
    parts = returns_of_pydantic_ai(pydantic_toolset(lab, registry, ModelRetry("ask for less"), "found it"))
    assert [part.outcome for part in parts] == ["retried", "success"]
    assert lab.events_of(FailureClassified) == []


def test_what_is_forbidden_stops_pydantic_ai(lab: Lab, registry: ToolRegistry) -> None:
    with pytest.raises(StopRun):
        returns_of_pydantic_ai(pydantic_toolset(lab, registry, 403))


# MCP


@pytest.fixture
def server() -> MCPServer[Any]:
    made: MCPServer[Any] = MCPServer("shelves")

    @made.tool()
    def search(query: str) -> str:
        """Finds pages."""
        if query == "nothing":
            raise LookupError(f"no such shelf, {SECRET}")
        return f"found {query}"

    return made


def asked(server: Any, registry: ToolRegistry, arguments: dict[str, Any], *, is_listed: bool = True) -> Any:
    async def go() -> Any:
        async with Client(server) as client:
            session = mcp.RecoveringSession(client, registry, {"search": FREE})
            if is_listed:
                await session.list_tools()
            return await session.call_tool("search", arguments)

    return asyncio.run(go())


def test_mcp_gives_the_servers_own_result(server: Any, registry: ToolRegistry) -> None:
    result = asked(server, registry, {"query": "breakers"})
    assert not result.is_error
    assert result.structured_content == {"result": "found breakers"}


def test_mcp_model_is_warned_of_a_repeated_call(server: Any, lab: Lab, registry: ToolRegistry) -> None:
    async def go() -> list[Any]:
        async with Client(server) as client, lab.recovery.run(source="main_agent"):
            session = mcp.RecoveringSession(client, registry, {"search": FREE})
            return [await session.call_tool("search", {"query": "breakers"}) for _ in range(3)]

    results = asyncio.run(go())
    assert [ADVICE in str(result.content) for result in results] == [False, False, True]
    assert [result.structured_content for result in results] == [{"result": "found breakers"}] * 3


def test_an_error_of_the_servers_tool_is_told_without_secrets(server: Any, lab: Lab, registry: ToolRegistry) -> None:
    result = asked(server, registry, {"query": "nothing"})
    assert result.is_error
    (content,) = result.content
    assert SECRET not in content.text
    assert str(lab.events_of(FailureClassified)[0].exception_type).endswith("mcp.ToolReportedError")


def test_arguments_are_held_against_the_servers_schema(server: Any, lab: Lab, registry: ToolRegistry) -> None:
    result = asked(server, registry, {"quarry": 1})
    assert result.is_error
    assert lab.events_of(FailureClassified)[0].category is Category.MODEL_OUTPUT


class Broken:
    """A session whose calls go wrong by a script."""

    def __init__(self, lab: Lab, *outcomes: Any) -> None:
        self.script = lab.script(*outcomes)

    async def call_tool(self, name: str, arguments: dict[str, Any], **more: Any) -> Any:
        return self.script(name, arguments)


def test_errors_of_the_protocol_are_retried_or_told(lab: Lab, registry: ToolRegistry) -> None:
    from mcp.types import CallToolResult, TextContent

    fine = CallToolResult(content=[TextContent(type="text", text="fine")])
    session = mcp.RecoveringSession(
        Broken(lab, MCPError(-32001, "too late"), HttpError(503), fine), registry, {"search": FREE}
    )
    assert asyncio.run(session.call_tool("search")) is fine
    lab.events.clear()
    session = mcp.RecoveringSession(
        Broken(lab, MCPError(-32601, "no such method")), registry, {"search": FREE}, prefix="shelves_"
    )
    result = asyncio.run(session.call_tool("search"))
    assert (result.is_error, lab.events_of(FailureClassified)[0].category) == (True, Category.NOT_FOUND)


def test_a_server_may_say_what_kind_of_error_it_is(lab: Lab, registry: ToolRegistry) -> None:
    from mcp.types import CallToolResult, TextContent

    def said(kind: str) -> Any:
        body = {"error": {"kind": kind, "message": "busy"}}
        return CallToolResult(content=[TextContent(type="text", text="busy")], structured_content=body, is_error=True)

    session = mcp.RecoveringSession(Broken(lab, said("overloaded"), said("not_found")), registry, {"search": FREE})
    assert asyncio.run(session.call_tool("search")).is_error
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.OVERLOADED, Category.NOT_FOUND]


def two_tools() -> MCPServer[Any]:
    made: MCPServer[Any] = MCPServer("shelves")

    @made.tool()
    async def search(query: str) -> str:
        """Finds pages."""
        if query == "hang":
            await asyncio.sleep(60)
        if query == "nothing":
            raise LookupError("no such shelf")
        return f"found {query}"

    @made.tool()
    def lend(book: str) -> str:
        """Lends a book."""
        return f"lent {book}"

    return made


QUICK: Any = FREE | {"max_retries": 0, "attempt_timeout": 0.05}
STRICT: Any = {"settings": Settings(consecutive_failures=2)}


def test_hanging_mcp_server_opens_breaker_of_its_tools(lab: Lab, registry: ToolRegistry) -> None:
    async def go() -> list[Any]:
        said = {"search": QUICK | STRICT, "lend": QUICK | {"attempt_timeout": 3.0}}
        async with Client(two_tools()) as client:
            session = mcp.RecoveringSession(client, registry, said)
            calls = [("search", {"query": "hang"})] * 2 + [("lend", {"book": "Release It"})]
            return [await session.call_tool(name, arguments) for name, arguments in calls]

    results = asyncio.run(go())
    assert [result.is_error for result in results] == [True] * 3
    assert "lend was not called" in results[2].content[0].text
    breaker = lab.recovery.breaker("mcp:shelves")
    assert breaker is not None
    assert breaker.state is State.OPEN
    assert [one.category for one in lab.events_of(FailureClassified)] == [Category.TIMEOUT] * 2


def test_mcp_read_timeout_counts_for_server(lab: Lab, registry: ToolRegistry) -> None:
    session = mcp.RecoveringSession(
        Broken(lab, *[MCPError(-32001, "too late")] * 2), registry, {"search": QUICK | STRICT}, server="shelves"
    )
    for _ in range(2):
        asyncio.run(session.call_tool("search"))
    assert lab.events_of(BreakerStateChanged)[-1].breaker == "mcp:shelves"


def test_error_of_mcp_tool_opens_no_breaker(lab: Lab, registry: ToolRegistry) -> None:
    from mcp.types import CallToolResult, TextContent

    body = {"error": {"kind": "server_error", "message": "broken"}}
    answer = CallToolResult(content=[TextContent(type="text", text="broken")], structured_content=body, is_error=True)
    session = mcp.RecoveringSession(Broken(lab, *[answer] * 4), registry, {"search": QUICK | STRICT}, server="shelves")
    results = [asyncio.run(session.call_tool("search")) for _ in range(4)]
    assert [result.is_error for result in results] == [True] * 4
    assert [one.category for one in lab.events_of(FailureClassified)] == [Category.SERVER_ERROR] * 4
    assert lab.events_of(BreakerStateChanged) == []


@pytest.mark.parametrize(
    ("said", "breaker"),
    [
        ({"server": "shelves"}, "mcp:shelves"),
        ({"prefix": "books_"}, "mcp:books"),
        ({"server": "a b*c"}, "mcp:a-b-c"),
        ({}, "search"),
    ],
)
def test_mcp_breaker_is_named_for_server(lab: Lab, registry: ToolRegistry, said: dict[str, str], breaker: str) -> None:
    session = mcp.RecoveringSession(Broken(lab, MCPError(-32601, "no")), registry, {"search": FREE}, **said)
    asyncio.run(session.call_tool("search"))
    assert lab.recovery.breaker(breaker) is not None


def test_mcp_tool_keeps_its_own_breaker(lab: Lab, registry: ToolRegistry) -> None:
    said = {"search": FREE | {"breaker": "catalogue"}}
    session = mcp.RecoveringSession(Broken(lab, MCPError(-32601, "no")), registry, said, server="shelves")
    asyncio.run(session.call_tool("search"))
    assert (lab.recovery.breaker("catalogue") is None, lab.recovery.breaker("mcp:shelves")) == (False, None)


def test_mcp_function_without_server_is_refused(registry: ToolRegistry) -> None:
    with pytest.raises(ConfigurationError, match="server="):
        mcp.RecoveringSession(lambda: Client(two_tools()), registry)


class Listening:
    """The two tools over HTTP on a port of this machine; may be stopped and started again."""

    def __init__(self) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    async def start(self) -> None:
        app = two_tools().streamable_http_app()
        config = uvicorn.Config(app, port=self.port, log_level="critical", timeout_graceful_shutdown=0)
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self._server.should_exit = True
        await self._task


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_mcp_session_that_died_is_replaced(mode: Any, lab: Lab, registry: ToolRegistry) -> None:
    async def go() -> list[Any]:
        server = Listening()
        await server.start()
        said = {"search": FREE | {"max_retries": 0}}
        made = mcp.RecoveringSession(lambda: Client(server.url, mode=mode), registry, said, server="shelves")
        async with made as session:
            found = [await session.call_tool("search", {"query": "a"})]
            await server.stop()
            found.append(await session.call_tool("search", {"query": "b"}))  # down
            await server.start()
            found.append(await session.call_tool("search", {"query": "c"}))
            await server.stop()
            await server.start()  # the server knows no session of before
            found.append(await session.call_tool("search", {"query": "d"}))
        await server.stop()
        return found

    results = asyncio.run(asyncio.wait_for(go(), 30))
    assert [result.is_error for result in results] == [False, True, False, False]
    assert [one.category for one in lab.events_of(FailureClassified)] == [Category.NETWORK]


def test_a_tool_of_which_nothing_is_said_is_not_called(lab: Lab, registry: ToolRegistry) -> None:
    broken = Broken(lab, "never")
    result = asyncio.run(mcp.RecoveringSession(broken, registry).call_tool("search"))
    assert result.is_error
    assert broken.script.calls == 0
    assert "permission" in json.dumps(result.content[0].text).lower()
