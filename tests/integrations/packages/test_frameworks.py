"""Frameworks above a guarded client or function meet the exceptions that they know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, TypedDict

import agents
import anyio
import openai
import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy
from pydantic_ai import Agent
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from recovery_ops.rules.enums import Category
from recovery_ops.runtime.integrations.openai import with_recovery
from recovery_ops.runtime.testing import Lab
from tests.integrations.packages.vendors import openai_chat, openai_error, said
from tests.support.http_server import Server, serving

pytestmark = pytest.mark.anyio

DOWN = said(500, openai_error("server_error", "server_error", "the server had an error"))
WRONG = said(400, openai_error("invalid_request_error", "invalid_value", "no such parameter"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(otherwise=said(200, openai_chat())) as running:
        yield running


@pytest.fixture
async def client(lab: Lab, server: Server) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k") as own:
        yield with_recovery(own, lab.recovery, source="main_agent")


class TestPydanticAi:
    async def test_fallback_model_takes_over_after_retries(self, client: openai.AsyncOpenAI, server: Server) -> None:
        server.script = [DOWN] * 9
        first = OpenAIChatModel("large", provider=OpenAIProvider(openai_client=client))
        found = await Agent(FallbackModel(first, TestModel(custom_output_text="second"))).run("hello")
        assert found.output == "second"
        assert len(server.requests) == 3

    async def test_first_model_answers_after_a_retry(self, client: openai.AsyncOpenAI, server: Server) -> None:
        server.script = [DOWN]
        first = OpenAIChatModel("large", provider=OpenAIProvider(openai_client=client))
        found = await Agent(FallbackModel(first, TestModel(custom_output_text="second"))).run("hello")
        assert (found.output, len(server.requests)) == ("fine", 2)


class TestAgentsSdk:
    async def test_error_of_the_client_reaches_the_caller(
        self, client: openai.AsyncOpenAI, lab: Lab, server: Server
    ) -> None:
        server.script = [WRONG]
        model = agents.OpenAIChatCompletionsModel("large", client)
        with pytest.raises(openai.BadRequestError) as caught:
            await agents.Runner.run(agents.Agent("clerk", model=model), "hello")
        report = lab.recovery.report(caught.value)
        assert report is not None
        assert (report.category, report.attempts) == (Category.INVALID_REQUEST, 1)


class State(TypedDict):
    found: str


class TestLangGraph:
    @pytest.mark.parametrize("options", [{}, {"reraise": True, "idempotent": True, "max_retries": 1}])
    async def test_retry_policy_meets_the_exception_it_names(self, lab: Lab, options: Any) -> None:
        script = lab.script(*[ConnectionResetError()] * (1 + options.get("max_retries", 0)), "found")
        guarded = lab.recovery.guard("search", **options)(script)

        def search(state: State) -> State:
            return {"found": guarded()}

        policy = RetryPolicy(initial_interval=0.001, max_interval=0.001, retry_on=ConnectionResetError)
        graph = StateGraph(State).add_node("search", search, retry_policy=policy)
        graph.add_edge(START, "search").add_edge("search", END)
        found = await anyio.to_thread.run_sync(lambda: graph.compile().invoke({"found": ""}))
        assert found == {"found": "found"}
