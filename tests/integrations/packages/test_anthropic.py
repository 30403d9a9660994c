"""Anthropic's real clients with recovery, against a server that answers as Anthropic does on a bad day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import anyio
import pytest

from recovery_ops.rules.enums import Adjustment, Category
from recovery_ops.rules.events import (
    AttemptSucceeded,
    CallsCounted,
    Escalated,
    FailureClassified,
    ModelFallback,
    RetryScheduled,
    RunFinished,
)
from recovery_ops.runtime import ModelChain, RetryAfterActive, Settings, classify
from recovery_ops.runtime.integrations.anthropic import ModelRefused, Usage, with_recovery
from recovery_ops.runtime.testing import Lab
from tests.integrations.packages.vendors import (
    OVERFLOW,
    anthropic_error,
    anthropic_events,
    anthropic_message,
    said,
    sent,
    stream,
)
from tests.support.http_server import Reply, Server, answer, reset, serving

FINE = said(200, anthropic_message())
OVERLOADED = said(529, anthropic_error("overloaded_error"))
ASKED: dict[str, Any] = {
    "model": "large",
    "max_tokens": 20_000,
    "timeout": 5,
    "messages": [{"role": "user", "content": "hello"}],
}


KEYS = {"team-a": "sk-first-1234567890", "team-b": "sk-other-1234567890"}


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(otherwise=FINE) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest, lab: Lab, server: Server) -> Callable[..., Any]:
    """Ask for a message with a client that recovers; options of the integration first, then the request's."""

    def asked(options: dict[str, Any] | None = None, method: str = "create", **more: Any) -> Any:
        own = {"source": "main_agent", **(options or {})}
        if request.param == "sync":
            with anthropic.Anthropic(base_url=server.url, api_key="k") as client:
                return getattr(with_recovery(client, lab.recovery, **own).messages, method)(**ASKED, **more)

        async def go() -> Any:
            async with anthropic.AsyncAnthropic(base_url=server.url, api_key="k") as client:
                return await getattr(with_recovery(client, lab.recovery, **own).messages, method)(**ASKED, **more)

        return anyio.run(go)

    return asked


def test_an_answer_is_the_vendors_own(ask: Callable[..., Any], lab: Lab) -> None:
    message = ask()
    assert isinstance(message, anthropic.types.Message)
    assert message.content[0].text == "fine"
    assert lab.events == []
    assert set(lab.recovery.operations) == {"model:large"}


@pytest.mark.parametrize("status", [500, 502, 529])
def test_trouble_is_retried_by_us_and_not_by_the_client(
    ask: Callable[..., Any], lab: Lab, server: Server, status: int
) -> None:
    server.script = [said(status, anthropic_error("api_error"))] * 2
    assert ask().stop_reason == "end_turn"
    assert len(server.requests) == 3
    assert lab.waits == [0.5, 1.0]
    assert [(fact.status_code, fact.provider, fact.model) for fact in lab.events_of(FailureClassified)] == [
        (status, "anthropic", "large")
    ] * 2


def test_the_clients_own_retries_are_off(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED] * 9
    with pytest.raises(anthropic.APIError) as caught:
        ask({"source": "nightly"})
    assert len(server.requests) == 1
    assert isinstance(caught.value, anthropic.InternalServerError | anthropic.OverloadedError)
    assert classify(caught.value).category is Category.OVERLOADED


def test_retry_after_closes_the_gate(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(429, anthropic_error("rate_limit_error"), Retry_After="9")]
    with pytest.raises(anthropic.APIError):
        ask({"source": "nightly"})
    with pytest.raises(RetryAfterActive):
        ask({"source": "nightly"})
    ask()
    assert lab.waits == [9.0]


def test_a_reset_is_retried(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [reset]
    assert ask().stop_reason == "end_turn"
    assert lab.events_of(FailureClassified)[0].category is Category.NETWORK


def test_an_overflow_is_asked_again_with_what_is_left(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(400, anthropic_error("invalid_request_error", OVERFLOW))]
    ask()
    assert [sent(request)["max_tokens"] for request in server.requests] == [20_000, 11_760]
    (fact,) = lab.events_of(RetryScheduled)
    assert (fact.adjustment, fact.max_tokens, fact.delay_s) == (Adjustment.MAX_TOKENS, 11_760, 0.0)


def test_sibling_of_a_spent_key_answers(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(402, anthropic_error("billing_error"))]
    for _ in range(2):
        ask({"credentials": KEYS})
    used = [request.headers["authorization"].removeprefix("Bearer ") for request in server.requests]
    assert used == [KEYS["team-a"], KEYS["team-b"], KEYS["team-b"]]
    assert [(one.category, one.credential) for one in lab.events_of(FailureClassified)] == [
        (Category.QUOTA_EXHAUSTED, "team-a")
    ]


def test_the_chain_switches_the_model_in_the_request(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED] * 3
    ask({"chain": ModelChain("large", "small"), "settings": Settings(max_retries=5)})
    assert [sent(request)["model"] for request in server.requests] == ["large", "large", "large", "small"]
    assert [(fact.from_model, fact.to_model) for fact in lab.events_of(ModelFallback)] == [("large", "small")]
    assert lab.events_of(AttemptSucceeded)[0].attempt == 4


def test_a_model_that_is_not_the_chains_first_is_left_alone(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    own = {"chain": ModelChain("huge", "small"), "operation": "thinking"}
    server.script = [OVERLOADED] * 3
    with pytest.raises(anthropic.APIError):
        ask(own)
    assert [sent(request)["model"] for request in server.requests] == ["large"] * 3
    assert set(lab.recovery.operations) == {"model:large"}


def test_refusal_reaches_caller_and_nobody_else(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(200, anthropic_message("refusal"))]
    with lab.recovery.run() as run, pytest.raises(ModelRefused) as caught:
        ask()
    assert isinstance(caught.value, ModelRefused)
    assert classify(caught.value).category is Category.CONTENT_REFUSED
    assert lab.events_of(Escalated) == []
    assert len(server.requests) == 1
    assert run.output_tokens == 12  # it was paid for


def test_forbidden_is_the_vendors_own_error(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [said(403, anthropic_error("permission_error"))]
    with pytest.raises(anthropic.PermissionDeniedError) as caught:
        ask()
    report = lab.recovery.report(caught.value)
    assert report is not None
    assert (report.category, report.attempts) == (Category.PERMISSION, 1)


def test_tokens_and_cost_are_counted_for_the_run_and_the_operation(ask: Callable[..., Any], lab: Lab) -> None:
    seen: list[tuple[str, Usage]] = []

    def price(model: str, usage: Usage) -> float:
        seen.append((model, usage))
        return 0.25

    with lab.recovery.run("two questions", source="main_agent") as run:
        ask({"cost_usd": price, "source": ""})
        ask({"cost_usd": price, "source": ""})
    assert seen == [("large", Usage(100, 12, 10))] * 2
    assert (run.input_tokens, run.output_tokens, run.cost_usd) == (200, 24, 0.5)
    (finished,) = lab.events_of(RunFinished)
    assert (finished.input_tokens, finished.output_tokens, finished.cost_usd) == (200, 24, 0.5)
    lab.clock.push(20)
    lab.recovery.housekeep()
    (counted,) = lab.events_of(CallsCounted)
    assert (counted.operation, counted.input_tokens, counted.output_tokens) == ("model:large", 200, 24)


def test_a_client_with_other_options_still_recovers(lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED]
    with anthropic.Anthropic(base_url=server.url, api_key="k") as client:
        ours = with_recovery(client, lab.recovery, source="main_agent").with_options(max_retries=7, timeout=3)
        assert ours.messages.create(**ASKED).stop_reason == "end_turn"
    assert lab.waits == [0.5]


def test_a_raw_response_is_raw_and_counted(ask: Callable[..., Any], lab: Lab, server: Server) -> None:
    server.script = [OVERLOADED]

    with anthropic.Anthropic(base_url=server.url, api_key="k") as client, lab.recovery.run() as run:
        ours = with_recovery(client, lab.recovery, source="main_agent")
        response = ours.messages.with_raw_response.create(**ASKED)
        assert response.parse().stop_reason == "end_turn"
    assert run.input_tokens == 100


def test_what_asks_no_model_is_left_to_the_client(lab: Lab, server: Server) -> None:
    server.routes["/v1/models"] = said(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})
    with anthropic.Anthropic(base_url=server.url, api_key="k") as client:
        assert with_recovery(client, lab.recovery).models.list().data == []
    assert lab.recovery.operations == {}


def test_a_runtime_that_is_off_changes_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    with anthropic.Anthropic(base_url=server.url, api_key="k") as client:
        ours = with_recovery(client, Lab().recovery)
        assert ours.messages.create(**ASKED).stop_reason == "end_turn"
        server.script = [OVERLOADED]
        with pytest.raises(anthropic.APIStatusError):
            ours.messages.create(**ASKED)


# Streams


@pytest.fixture(params=["create", "create async", "stream", "stream async"])
def listen(request: pytest.FixtureRequest, lab: Lab, server: Server) -> Callable[..., str]:
    """The text of a streamed answer, by each way to ask for one."""
    helper, _, is_async = request.param.partition(" ")

    def heard(into: list[str] | None = None, **options: Any) -> str:
        texts = into if into is not None else []
        own = {"source": "main_agent", **options}
        if not is_async:
            with anthropic.Anthropic(base_url=server.url, api_key="k") as client:
                messages = with_recovery(client, lab.recovery, **own).messages
                opened = messages.create(**ASKED, stream=True) if helper == "create" else messages.stream(**ASKED)
                with opened as events:
                    texts.extend(event.delta.text for event in events if event.type == "content_block_delta")
            return "".join(texts)

        async def go() -> str:
            async with anthropic.AsyncAnthropic(base_url=server.url, api_key="k") as client:
                messages = with_recovery(client, lab.recovery, **own).messages
                opened = await messages.create(**ASKED, stream=True) if helper == "create" else messages.stream(**ASKED)
                async with opened as events:
                    async for event in events:
                        if event.type == "content_block_delta":
                            texts.append(event.delta.text)
            return "".join(texts)

        return anyio.run(go)

    return heard


def test_a_stream_is_heard_whole_and_counted(listen: Callable[..., str], lab: Lab, server: Server) -> None:
    server.script = [stream(anthropic_events())]
    with lab.recovery.run() as run:
        assert listen() == "fine"
    assert (run.input_tokens, run.output_tokens) == (100, 12)
    assert lab.events_of(FailureClassified) == []


def test_an_overload_before_the_answer_begins_is_retried(listen: Callable[..., str], lab: Lab, server: Server) -> None:
    begun = [*anthropic_events()[:2], anthropic_error("overloaded_error")]
    server.script = [OVERLOADED, stream(begun), stream(anthropic_events())]
    assert listen() == "fine"
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.OVERLOADED] * 2


def test_an_overload_in_the_middle_is_told_and_raised(listen: Callable[..., str], lab: Lab, server: Server) -> None:
    server.script = [stream([*anthropic_events()[:4], anthropic_error("overloaded_error")])]
    heard: list[str] = []
    with pytest.raises(anthropic.APIStatusError):
        listen(heard)
    assert heard == ["fi"]
    assert len(server.requests) == 1
    (fact,) = lab.events_of(FailureClassified)
    assert (fact.category, fact.retryable, fact.operation) == (Category.OVERLOADED, False, "model:large")


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_stream_that_is_cut_before_it_begins_is_retried(
    listen: Callable[..., str], server: Server, is_cut: bool
) -> None:
    server.script = [stream(anthropic_events()[:2], is_cut=is_cut), stream(anthropic_events())]
    assert listen() == "fine"


def test_a_stream_that_is_cut_in_the_middle_is_told(listen: Callable[..., str], lab: Lab, server: Server) -> None:
    server.script = [stream(anthropic_events()[:4], is_cut=True)]
    heard: list[str] = []
    with pytest.raises(Exception, match="peer closed"):
        listen(heard)
    assert heard == ["fi"]
    assert lab.events_of(FailureClassified)[0].category is Category.NETWORK


def test_stream_without_its_end_is_a_failure(listen: Callable[..., str], lab: Lab, server: Server) -> None:
    server.script = [stream(anthropic_events()[:4])]
    heard: list[str] = []
    with pytest.raises(anthropic.APIConnectionError):
        listen(heard)
    assert heard == ["fi"]
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.NETWORK]


def test_a_refusal_instead_of_an_answer(listen: Callable[..., str], lab: Lab, server: Server) -> None:
    server.script = [stream(anthropic_events("refusal", texts=()))]
    with pytest.raises(ModelRefused) as caught:
        listen()
    assert classify(caught.value).category is Category.CONTENT_REFUSED
    assert lab.events_of(Escalated) == []


def test_a_refusal_in_the_middle(listen: Callable[..., str], lab: Lab, server: Server) -> None:
    server.script = [stream(anthropic_events("refusal"))]
    heard: list[str] = []
    with pytest.raises(ModelRefused) as caught:
        listen(heard)
    assert (heard, classify(caught.value).category) == (["fi", "ne"], Category.CONTENT_REFUSED)
    assert lab.events_of(Escalated) == []


def test_a_stream_that_is_left_early_is_counted(lab: Lab, server: Server) -> None:
    server.script = [stream(anthropic_events())]
    with anthropic.Anthropic(base_url=server.url, api_key="k") as client, lab.recovery.run() as run:
        ours = with_recovery(client, lab.recovery, source="main_agent")
        with ours.messages.create(**ASKED, stream=True) as events:
            next(iter(events))
        del events
    assert run.input_tokens == 100


@pytest.mark.parametrize(
    ("reply", "category"),
    [
        (said(200, anthropic_error("overloaded_error")), Category.OVERLOADED),
        (said(200, anthropic_error("api_error")), Category.SERVER_ERROR),
        (answer(200, b"<html>a gateway's page</html>", media_type="text/html"), Category.SCHEMA_MISMATCH),
        (answer(200, b"<html>a gateway's page</html>", media_type="application/json"), Category.SCHEMA_MISMATCH),
        (said(200, {"status": "fine"}), Category.SCHEMA_MISMATCH),
    ],
)
def test_status_200_without_answer_is_failure(
    ask: Callable[..., Any], lab: Lab, server: Server, reply: Reply, category: Category
) -> None:
    server.script = [reply] * 9
    with pytest.raises(Exception):  # noqa: B017, PT011  # which one depends on the category
        ask({"max_retries": 0})
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [category]


@pytest.mark.parametrize(
    ("reply", "category"),
    [
        (said(200, anthropic_error("overloaded_error")), Category.OVERLOADED),
        (answer(200, b"<html>a gateway's page</html>", media_type="text/html"), Category.SCHEMA_MISMATCH),
    ],
)
def test_page_instead_of_stream_is_failure(
    listen: Callable[..., str], lab: Lab, server: Server, reply: Reply, category: Category
) -> None:
    server.script = [reply] * 9
    with pytest.raises(Exception):  # noqa: B017, PT011  # which one depends on the category
        listen()
    assert {fact.category for fact in lab.events_of(FailureClassified)} == {category}
