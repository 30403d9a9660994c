"""OpenAI's real clients with recovery, against a server that answers as OpenAI does on a bad day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import openai
import pydantic
import pytest

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import Adjustment, Category
from recovery_ops.rules.events import Escalated, FailureClassified, ModelFallback, RetryScheduled
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime import ModelChain, classify
from recovery_ops.runtime.integrations.openai import (
    ModelAnswerUnreadable,
    ModelFailed,
    ModelRefused,
    Usage,
    with_recovery,
)
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
from tests.support.http_server import Reply, Server, answer, serving

OVERLOADED = said(503, openai_error("server_error", "server_overloaded", "The engine is currently overloaded"))
TOO_LONG = openai_error(
    "invalid_request_error",
    "context_length_exceeded",
    "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (110000 in the"
    " messages, 20000 in the completion). Please reduce the length of the messages or completion.",
)
CHAT: dict[str, Any] = {"model": "large", "messages": [{"role": "user", "content": "hello"}], "timeout": 5}
RESPONSE: dict[str, Any] = {"model": "large", "input": "hello", "timeout": 5}


KEYS = {"team-a": "sk-first-1234567890", "team-b": "sk-other-1234567890"}


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
    assert [(fact.category, fact.provider, fact.model) for fact in lab.events_of(FailureClassified)] == [
        (Category.OVERLOADED, "openai", "large")
    ] * 2


def test_the_clients_own_retries_are_off(ask: Callable[..., Any], server: Server) -> None:
    server.script = [OVERLOADED] * 9
    with pytest.raises(openai.APIError) as caught:
        ask("responses.create", {"source": "nightly"}, **RESPONSE)
    assert len(server.requests) == 1
    assert isinstance(caught.value, openai.InternalServerError)


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
    assert [fact.adjustment for fact in lab.events_of(RetryScheduled)] == [Adjustment.MAX_TOKENS]


def test_sibling_of_a_spent_key_answers(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(429, openai_error("insufficient_quota", "insufficient_quota"), x_should_retry="false")]
    for _ in range(2):
        ask("chat.completions.create", {"credentials": KEYS}, **CHAT)
    used = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert used == [KEYS["team-a"], KEYS["team-b"], KEYS["team-b"]]
    assert [(one.category, one.credential) for one in lab.events_of(FailureClassified)] == [
        (Category.QUOTA_EXHAUSTED, "team-a")
    ]


def test_the_chain_switches_the_model_in_the_request(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED] * 3
    ask("responses.create", {"chain": ModelChain("large", "small")}, **RESPONSE)
    assert [sent(request)["model"] for request in server.requests] == ["large", "large", "large", "small"]
    assert len(lab.events_of(ModelFallback)) == 1


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
def test_refusal_reaches_caller_and_nobody_else(
    ask: Callable[..., Any], lab: Lab, server: Server, path: str, body: Any, reply: Any
) -> None:
    server.script = [said(200, reply)]
    with pytest.raises(ModelRefused) as caught:
        ask(path, **body)
    assert isinstance(caught.value, ModelRefused)
    assert lab.events_of(Escalated) == []
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
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.SERVER_ERROR]
    server.script = [said(200, failed)] * 9
    with pytest.raises(ModelFailed) as caught:
        ask("responses.create", **RESPONSE)
    assert isinstance(caught.value, ModelFailed)


def test_a_spent_quota_is_not_retried(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(429, openai_error("insufficient_quota", "insufficient_quota"))]
    with pytest.raises(openai.APIError) as caught:
        ask("chat.completions.create", **CHAT)
    assert classify(caught.value).category is Category.QUOTA_EXHAUSTED


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


@pytest.mark.parametrize("is_cut", [True, False])
def test_what_breaks_before_the_answer_begins_is_retried(
    listener: Listener, lab: Lab, server: Server, is_cut: bool
) -> None:
    server.script = [
        stream(listener.events[:1], is_cut=is_cut),
        stream([*listener.events[:1], openai_error("server_error", "server_overloaded")]),
        stream(listener.events),
    ]
    assert listener.listen() == "fine"
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.NETWORK, Category.OVERLOADED]


@pytest.mark.parametrize("is_cut", [True, False])
def test_what_breaks_in_the_middle_is_told_and_raised(
    listener: Listener, lab: Lab, server: Server, is_cut: bool
) -> None:
    server.script = [stream(listener.events[: listener.begins_at + 1], is_cut=is_cut)]
    with pytest.raises(openai.APIConnectionError):
        listener.listen()
    assert "".join(listener.heard) == "fi"
    assert [(fact.category, fact.retryable) for fact in lab.events_of(FailureClassified)] == [(Category.NETWORK, False)]


def test_a_filter_in_the_middle(lab: Lab, server: Server) -> None:
    listener = Listener("chat", is_async=False, lab=lab, server=server)
    server.script = [stream(openai_chunks("content_filter"))]
    with pytest.raises(ModelRefused) as caught:
        listener.listen()
    assert ("".join(listener.heard), classify(caught.value).category) == ("fine", Category.CONTENT_REFUSED)
    assert lab.events_of(Escalated) == []


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


def test_refusal_in_stream_asks_named_queue(lab: Lab, server: Server) -> None:
    policy = parse_policy({"escalations": {"content_refused": {"queue": "content_review"}}})
    lab.recovery.apply(Desired(revision=1, policy=policy))
    listener = Listener("chat", is_async=False, lab=lab, server=server)
    server.script = [stream(openai_chunks("content_filter"))]
    with pytest.raises(ModelRefused):
        listener.listen()
    assert [fact.queue for fact in lab.events_of(Escalated)] == ["content_review"]


PROVIDER_ERROR = {"error": {"message": "Provider returned error", "code": 502, "metadata": {"provider_name": "X"}}}
CHOICE_ERROR = {"choices": [{"index": 0, "finish_reason": "error", "error": {"code": 429, "message": "slow down"}}]}
PAGE = answer(200, b"<html>a gateway's page</html>", media_type="text/html")
BROKEN = answer(200, b"<html>a gateway's page</html>", media_type="application/json")

NO_ANSWERS: list[tuple[Reply, type[Exception], Category]] = [
    (said(200, PROVIDER_ERROR), ModelFailed, Category.SERVER_ERROR),
    (said(200, openai_error("requests", "rate_limit_exceeded")), ModelFailed, Category.RATE_LIMITED),
    (said(200, openai_error("insufficient_quota", "insufficient_quota")), ModelFailed, Category.QUOTA_EXHAUSTED),
    (PAGE, ModelAnswerUnreadable, Category.SCHEMA_MISMATCH),
    (BROKEN, ModelAnswerUnreadable, Category.SCHEMA_MISMATCH),
    (
        said(200, {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "code": "1300"}),
        ModelFailed,
        Category.RATE_LIMITED,
    ),
    (
        said(200, {"object": "error", "message": "boom", "type": "InternalServerError", "code": 500}),
        ModelFailed,
        Category.SERVER_ERROR,
    ),
    (said(200, None), ModelAnswerUnreadable, Category.SCHEMA_MISMATCH),
    (said(200, {"status": "fine"}), ModelAnswerUnreadable, Category.SCHEMA_MISMATCH),
]


@pytest.mark.parametrize(("path", "body"), [("chat.completions.create", CHAT), ("responses.create", RESPONSE)])
@pytest.mark.parametrize(("reply", "kind", "category"), NO_ANSWERS)
def test_status_200_without_answer_is_failure(
    ask: Callable[..., Any],
    lab: Lab,
    server: Server,
    path: str,
    body: Any,
    reply: Reply,
    kind: type[Exception],
    category: Category,
) -> None:
    server.script = [reply] * 9
    with pytest.raises(kind):
        ask(path, {"max_retries": 0}, **body)
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [category]


@pytest.mark.parametrize(
    ("reply", "category"),
    [
        (said(200, {**openai_chat(), "choices": []}), Category.SCHEMA_MISMATCH),
        (said(200, {**openai_chat(), **CHOICE_ERROR}), Category.RATE_LIMITED),
    ],
)
def test_chat_without_choice_is_failure(
    ask: Callable[..., Any], lab: Lab, server: Server, reply: Reply, category: Category
) -> None:
    server.script = [reply] * 9
    with pytest.raises(Exception):  # noqa: B017, PT011  # which one depends on the category
        ask("chat.completions.create", {"max_retries": 0}, **CHAT)
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [category]


def test_error_with_status_200_is_asked_again(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(200, PROVIDER_ERROR)]
    assert ask("chat.completions.create", **CHAT).choices[0].message.content == "fine"
    assert len(server.requests) == 2


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("reply", "category"),
    [
        (said(200, PROVIDER_ERROR), Category.SERVER_ERROR),
        (PAGE, Category.SCHEMA_MISMATCH),
        (stream([]), Category.SCHEMA_MISMATCH),
        (stream([PROVIDER_ERROR]), Category.SERVER_ERROR),
    ],
)
def test_stream_without_events_is_failure(
    lab: Lab, server: Server, reply: Reply, category: Category, is_async: bool
) -> None:
    listener = Listener("chat", is_async=is_async, lab=lab, server=server)
    server.script = [reply] * 9
    with pytest.raises(Exception):  # noqa: B017, PT011  # which one depends on the category
        listener.listen()
    assert {fact.category for fact in lab.events_of(FailureClassified)} == {category}
