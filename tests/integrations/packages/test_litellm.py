"""LiteLLM's real Router, which reports without being rewritten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import CallsCounted, FailureClassified, FallbackActivated
from recovery_ops.runtime.testing import Lab
from tests.integrations.packages.vendors import openai_chat, openai_error, said
from tests.support.http_server import Server, serving
from tests.support.processes import eventually

DOWN = said(503, openai_error("server_error", "server_error"))
SLOWER = said(429, openai_error("requests", "rate_limit_exceeded"))
ASKED: dict[str, Any] = {"model": "large", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def litellm() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise importing it asks the network
        import litellm

        yield litellm


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(otherwise=said(200, openai_chat())) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, litellm: Any, lab: Lab, server: Server) -> Iterator[Callable[..., Any]]:
    """Ask a router of two models for an answer."""
    from recovery_ops.runtime.integrations.litellm import report

    logger = report(lab.recovery, source="main_agent")
    deployments = [
        {
            "model_name": name,
            "litellm_params": {"model": f"openai/{name}", "api_base": f"{server.url}/v1", "api_key": "k"},
            "model_info": {"credential": f"team-{name}"},
        }
        for name in ("large", "small")
    ]

    def asked(is_reported: Callable[[], bool], **options: Any) -> Any:
        router = litellm.Router(model_list=deployments, retry_after=0, disable_cooldowns=True, **options)
        if request.param == "sync":
            answer = outcome(lambda: router.completion(**ASKED))
            eventually(is_reported, what="the report")
            return answer

        async def go() -> Any:
            try:
                answer = await router.acompletion(**ASKED)
            except litellm.RateLimitError as error:
                answer = error
            async with asyncio.timeout(15):
                while not is_reported():  # LiteLLM reports from a task of this loop
                    await asyncio.sleep(0.02)
            return answer

        return asyncio.run(go())

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except litellm.RateLimitError as error:
            return error

    yield asked
    litellm.logging_callback_manager._reset_all_callbacks()
    assert logger not in litellm.callbacks


def test_an_answer_is_counted(ask: Callable[..., Any], lab: Lab) -> None:
    cells = lab.recovery.operations.named("model:large").cell
    answer = ask(lambda: cells("main_agent").counts["input_tokens"] > 0, num_retries=0)
    assert answer.choices[0].message.content == "fine"
    lab.clock.push(20)
    lab.recovery.housekeep()
    (fact,) = lab.events_of(CallsCounted)
    assert (fact.operation, fact.calls, fact.attempts, fact.successes) == ("model:large", 1, 1, 1)
    assert (fact.input_tokens, fact.output_tokens) == (100, 12)


def test_each_failure_is_told(ask: Callable[..., Any], litellm: Any, lab: Lab, server: Server) -> None:
    server.script = [SLOWER] * 9
    error = ask(lambda: lab.events_of(FailureClassified) != [], num_retries=0)
    assert isinstance(error, litellm.RateLimitError)
    fact = lab.events_of(FailureClassified)[0]
    assert (fact.operation, fact.category, fact.status_code, fact.attempt) == (
        "model:large", Category.RATE_LIMITED, 429, 1,
    )  # fmt: skip
    assert (fact.provider, fact.credential) == ("openai", "team-large")
    assert set(lab.read.sources) == {"main_agent"}


def test_a_fallback_is_told(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [DOWN]
    told = lab.recovery.operations.named("model:small").cell("main_agent").counts
    answer = ask(
        lambda: lab.events_of(FallbackActivated) != [] and told["input_tokens"] > 0,
        num_retries=0,
        fallbacks=[{"large": ["small"]}],
    )
    assert answer.choices[0].message.content == "fine"
    (fact,) = lab.events_of(FallbackActivated)
    assert (fact.operation, fact.fallback, fact.category) == ("model:large", "model:small", Category.SERVER_ERROR)
