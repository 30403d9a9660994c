"""OpenAI's real clients with recovery, against a server that answers as OpenAI does on a bad day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import openai
import pydantic
import pytest

from recovery_ops.rules.facts import Escalated, FailureClassified, ModelFallback, RetryScheduled
from recovery_ops.rules.words import Adjustment, Category
from recovery_ops.runtime import ModelChain, RecoveryExhausted
from recovery_ops.runtime.integrations.openai import ModelFailed, ModelRefused, Usage, with_recovery
from recovery_ops.runtime.testing import Lab
from tests.integrations.packages.vendors import (
    openai_chat,
    openai_chunks,
    openai_error,
    openai_response,
    openai_response_events,
    said,
    sent,
    stream,
)
from tests.support.http_server import Server, serving

OVERLOADED = said(503, openai_error("server_error", "server_overloaded", "The engine is currently overloaded"))
TOO_LONG = openai_error(
    "invalid_request_error",
    "context_length_exceeded",
    "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (110000 in the"
    " messages, 20000 in the completion). Please reduce the length of the messages or completion.",
)
CHAT: dict[str, Any] = {"model": "large", "messages": [{"role": "user", "content": "hello"}], "timeout": 5}
RESPONSE: dict[str, Any] = {"model": "large", "input": "hello", "timeout": 5}


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(
        routes={}, otherwise=lambda peer, request: FINE[request.path.rpartition("/")[2]](peer, request)
    ) as server:
        yield server


FINE = {
    "completions": said(200, openai_chat()),
    "responses": said(200, openai_response()),
    "embeddings": said(
        200,
        {
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
            "model": "e",
            "usage": {"prompt_tokens": 3, "total_tokens": 3},
        },
    ),
}


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, lab: Lab, server: Server) -> Callable[..., Any]:
    """Ask one of the client's resources, named by its path, with recovery."""

    def asked(path: str, options: dict[str, Any] | None = None, **body: Any) -> Any:
        own = {"source": "main_agent", **(options or {})}
        *resources, method = path.split(".")

        def found(client: Any) -> Any:
            for name in resources:
                client = getattr(client, name)
            return getattr(client, method)

        if request.param == "sync":
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k") as client:
                return found(with_recovery(client, lab.recovery, **own))(**body)

        async def go() -> Any:
            async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k") as client:
                return await found(with_recovery(client, lab.recovery, **own))(**body)

        return anyio.run(go)

    return asked


def test_trouble_is_retried_by_us_and_not_by_the_client(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED, OVERLOADED]
    answer = ask("chat.completions.create", **CHAT)
    assert isinstance(answer, openai.types.chat.ChatCompletion)
    assert answer.choices[0].message.content == "fine"
    assert lab.waits == [0.5, 1.0]
    assert [(fact.category, fact.provider, fact.model) for fact in lab.facts_of(FailureClassified)] == [
        (Category.OVERLOADED, "openai", "large")
    ] * 2


def test_the_clients_own_retries_are_off(ask: Callable[..., Any], server: Server) -> None:
    server.script = [OVERLOADED] * 9
    with pytest.raises(RecoveryExhausted) as caught:
        ask("responses.create", {"source": "nightly"}, **RESPONSE)
    assert len(server.requests) == 1
    assert isinstance(caught.value.last_error, openai.InternalServerError)


@pytest.mark.parametrize(
    ("path", "request_body", "key"),
    [
        ("chat.completions.create", {**CHAT, "max_tokens": 20_000}, "max_tokens"),
        ("chat.completions.create", {**CHAT, "max_completion_tokens": 20_000}, "max_completion_tokens"),
        ("responses.create", {**RESPONSE, "max_output_tokens": 20_000}, "max_output_tokens"),
    ],
)
def test_an_overflow_is_asked_again_with_what_is_left(
    ask: Callable[..., Any], lab: Lab, server: Server, path: str, request_body: dict[str, Any], key: str
) -> None:
    server.script = [said(400, TOO_LONG)]
    ask(path, **request_body)
    assert [sent(request)[key] for request in server.requests] == [20_000, 18_000]
    assert [fact.adjustment for fact in lab.facts_of(RetryScheduled)] == [Adjustment.MAX_TOKENS]


def test_the_chain_switches_the_model_in_the_request(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED] * 3
    ask("responses.create", {"chain": ModelChain("large", "small")}, **RESPONSE)
    assert [sent(request)["model"] for request in server.requests] == ["large", "large", "large", "small"]
    assert len(lab.facts_of(ModelFallback)) == 1


@pytest.mark.parametrize(
    ("path", "body", "reply"),
    [
        ("chat.completions.create", CHAT, openai_chat("content_filter", None)),
        ("chat.completions.create", CHAT, openai_chat(content=None, refusal="I cannot")),
        ("responses.create", RESPONSE, openai_response(part={"type": "refusal", "refusal": "I cannot"})),
        (
            "responses.create",
            RESPONSE,
            openai_response("incomplete", incomplete_details={"reason": "content_filter"}),
        ),
    ],
)
def test_a_refusal_is_put_to_a_person(
    ask: Callable[..., Any], lab: Lab, server: Server, path: str, body: Any, reply: Any
) -> None:
    server.script = [said(200, reply)]
    with pytest.raises(RecoveryExhausted) as caught:
        ask(path, **body)
    assert isinstance(caught.value.last_error, ModelRefused)
    assert [fact.queue for fact in lab.facts_of(Escalated)] == ["policy_review"]
    assert len(server.requests) == 1


def test_an_answer_that_was_only_too_long_is_an_answer(ask: Callable[..., Any], server: Server) -> None:
    server.script = [
        said(200, openai_chat("length")),
        said(200, openai_response("incomplete", incomplete_details={"reason": "max_output_tokens"})),
    ]
    assert ask("chat.completions.create", **CHAT).choices[0].finish_reason == "length"
    assert ask("responses.create", **RESPONSE).status == "incomplete"


def test_a_response_that_says_it_failed_is_a_failure(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    failed = openai_response("failed", error={"code": "server_error", "message": "oh"}, output=[])
    server.script = [said(200, failed)]
    assert ask("responses.create", **RESPONSE).status == "completed"
    assert [fact.category for fact in lab.facts_of(FailureClassified)] == [Category.SERVER_ERROR]
    server.script = [said(200, failed)] * 9
    with pytest.raises(RecoveryExhausted) as caught:
        ask("responses.create", **RESPONSE)
    assert isinstance(caught.value.last_error, ModelFailed)


def test_a_spent_quota_is_not_retried(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(429, openai_error("insufficient_quota", "insufficient_quota"))]
    with pytest.raises(RecoveryExhausted) as caught:
        ask("chat.completions.create", **CHAT)
    assert caught.value.category is Category.QUOTA_EXHAUSTED


def test_tokens_and_cost(ask: Callable[..., Any], lab: Lab) -> None:
    seen: list[Usage] = []

    def price(model: str, usage: Usage) -> float | None:
        seen.append(usage)
        return None

    with lab.recovery.run() as run:
        ask("chat.completions.create", {"cost_usd": price}, **CHAT)
        ask("responses.create", {"cost_usd": price}, **RESPONSE)
        ask("embeddings.create", {"cost_usd": price}, model="e", input="x")
    assert seen == [Usage(100, 12, 10), Usage(100, 12, 10), Usage(3, 0, 0)]
    assert (run.input_tokens, run.output_tokens, run.cost_usd) == (203, 24, None)


def test_parsing_is_the_vendors_own(ask: Callable[..., Any], server: Server) -> None:
    class Price(pydantic.BaseModel):
        euros: int

    server.script = [OVERLOADED, said(200, openai_chat(content='{"euros": 7}'))]
    answer = ask("chat.completions.parse", **CHAT, response_format=Price)
    assert answer.choices[0].message.parsed == Price(euros=7)


def test_what_asks_no_model_is_left_to_the_client(lab: Lab, server: Server) -> None:
    job = {
        "id": "j",
        "object": "fine_tuning.job",
        "created_at": 1,
        "model": "large",
        "status": "queued",
        "training_file": "f",
    }
    server.routes["/v1/fine_tuning/jobs"] = said(200, job)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k") as client:
        ours = with_recovery(client, lab.recovery)
        assert ours.fine_tuning.jobs.create(model="large", training_file="f").id == "j"
    assert lab.recovery.operations == {}


# Streams


def chat_text(event: Any) -> str:
    return (event.choices[0].delta.content or "") if event.choices else ""


def response_text(event: Any) -> str:
    return event.delta if event.type == "response.output_text.delta" else ""


CHAT_STREAM = {**CHAT, "stream": True}
RESPONSE_STREAM = {**RESPONSE, "stream": True}
KINDS: dict[str, tuple[str, dict[str, Any], Callable[[Any], str], list[object]]] = {
    "chat": ("chat.completions.create", CHAT_STREAM, chat_text, openai_chunks()),
    "responses": ("responses.create", RESPONSE_STREAM, response_text, openai_response_events()),
}


class Listener:
    """Hears streams of one kind, sync or async."""

    def __init__(self, kind: str, *, is_async: bool, lab: Lab, server: Server) -> None:
        self.path, self.body, self.text_of, self.events = KINDS[kind]
        self.is_async, self.lab, self.server = is_async, lab, server
        self.begins_at = {"chat": 1, "responses": 3}[kind]
        self.heard: list[str] = []

    def listen(self) -> str:
        *resources, method = self.path.split(".")

        def found(client: Any) -> Any:
            ours = with_recovery(client, self.lab.recovery, source="main_agent")
            for name in resources:
                ours = getattr(ours, name)
            return getattr(ours, method)

        if not self.is_async:
            with openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="k") as client:
                for event in found(client)(**self.body):
                    self.heard.append(self.text_of(event))
            return "".join(self.heard)

        async def go() -> None:
            async with openai.AsyncOpenAI(base_url=f"{self.server.url}/v1", api_key="k") as client:
                async for event in await found(client)(**self.body):
                    self.heard.append(self.text_of(event))

        anyio.run(go)
        return "".join(self.heard)


@pytest.fixture(params=[(kind, is_async) for kind in KINDS for is_async in (False, True)], ids=str)
def listener(request: pytest.FixtureRequest, lab: Lab, server: Server) -> Listener:
    kind, is_async = request.param
    return Listener(kind, is_async=is_async, lab=lab, server=server)


def test_a_stream_is_heard_whole_and_counted(listener: Listener, lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED, stream(listener.events)]
    with lab.recovery.run() as run:
        assert listener.listen() == "fine"
    assert (run.input_tokens, run.output_tokens) == (100, 12)


def test_what_breaks_before_the_answer_begins_is_retried(listener: Listener, lab: Lab, server: Server) -> None:
    server.script = [
        stream(listener.events[:1], is_cut=True),
        stream([*listener.events[:1], openai_error("server_error", "server_overloaded")]),
        stream(listener.events),
    ]
    assert listener.listen() == "fine"
    assert [fact.category for fact in lab.facts_of(FailureClassified)] == [Category.NETWORK, Category.OVERLOADED]


def test_what_breaks_in_the_middle_is_told_and_raised(listener: Listener, lab: Lab, server: Server) -> None:
    server.script = [stream(listener.events[: listener.begins_at + 1], is_cut=True)]
    with pytest.raises(openai.APIConnectionError):
        listener.listen()
    assert "".join(listener.heard) == "fi"
    assert [(fact.category, fact.retryable) for fact in lab.facts_of(FailureClassified)] == [(Category.NETWORK, False)]


def test_a_filter_in_the_middle(lab: Lab, server: Server) -> None:
    listener = Listener("chat", is_async=False, lab=lab, server=server)
    server.script = [stream(openai_chunks("content_filter"))]
    with pytest.raises(RecoveryExhausted) as caught:
        listener.listen()
    assert ("".join(listener.heard), caught.value.category) == ("fine", Category.POLICY_DENIED)
    assert len(lab.facts_of(Escalated)) == 1


def test_a_response_that_fails_before_it_says_anything_is_retried(lab: Lab, server: Server) -> None:
    listener = Listener("responses", is_async=False, lab=lab, server=server)
    failed = openai_response("failed", error={"code": "server_error", "message": "oh"}, output=[])
    told = {"type": "response.failed", "sequence_number": 1, "response": failed}
    server.script = [stream([listener.events[0], told]), stream(listener.events)]
    assert listener.listen() == "fine"


def test_helpers_for_streams_stand_on_the_same(lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED, stream(openai_chunks()), OVERLOADED, stream(openai_response_events())]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k") as client:
        ours = with_recovery(client, lab.recovery, source="main_agent")
        with ours.chat.completions.stream(**CHAT) as chat:
            assert chat.get_final_completion().choices[0].message.content == "fine"
        with ours.responses.stream(**RESPONSE) as response:
            assert response.get_final_response().output_text == "fine"
    assert lab.waits == [0.5, 0.5]
