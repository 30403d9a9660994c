"""What the instrumentations that people run say: each convention in the names that it uses."""

from __future__ import annotations

from typing import Any

import pytest

from events.derived.evidence import signal_of
from events.derived.naming import provider_of
from events.ingest.records import Row
from events.models import Fact
from recovery_ops.rules.classification.classify import classify
from tests.support.otlp import Door, attributes, record, request
from tests.support.spans import CHAT, NOW_US, exception, failed, logged, rows, span

RATE_LIMITED = exception("openai.RateLimitError", "Error code: 429 - {'error': {'code': 'rate_limit_exceeded'}}")


def failures(*spans: dict[str, Any]) -> list[Row]:
    return [row for row in rows(*spans) if row.event == "failure_classified"]


def events_of(*spans: dict[str, Any]) -> list[str]:
    return sorted(row.event for row in rows(*spans))


MODELS: dict[str, dict[str, object]] = {
    "OpenTelemetry": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"},
    "OpenTelemetry before 1.37": {
        "gen_ai.operation.name": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "m",
    },
    "OpenInference": {"openinference.span.kind": "LLM", "llm.system": "openai", "llm.model_name": "m"},
    "OpenInference, embedding": {
        "openinference.span.kind": "EMBEDDING",
        "llm.provider": "openai",
        "embedding.model_name": "m",
    },
    "OpenLLMetry": {"llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.request.model": "m"},
    "Vercel AI SDK": {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.model.provider": "openai.chat",
        "ai.model.id": "m",
    },
}


@pytest.mark.parametrize("convention", MODELS)
def test_model_call_of_each_convention_is_one_call(convention: str) -> None:
    found = rows(failed("call", given=MODELS[convention], raised=[RATE_LIMITED]))
    told = [(row.operation, row.provider, row.model) for row in found]
    assert told == [("m", "openai", "m")] * 2
    assert [row.category for row in found if row.event == "failure_classified"] == ["rate_limited"]


@pytest.mark.parametrize(
    "given",
    [
        {"openinference.span.kind": "AGENT", "llm.model_name": "m"},
        {"openinference.span.kind": "CHAIN", "llm.model_name": "m"},
        {"traceloop.span.kind": "workflow", "gen_ai.request.model": "m"},
        {"ai.operationId": "ai.generateText", "ai.model.id": "m"},
    ],
)
def test_container_that_names_a_model_is_no_call(given: dict[str, object]) -> None:
    assert events_of(span("run", given=given)) == []


def test_tokens_of_openinference_are_counted() -> None:
    given = {**MODELS["OpenInference"], "llm.token_count.prompt": 7, "llm.token_count.completion": 5}
    [counted] = rows(span("call", given=given))
    said = counted.attributes
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (7, 5)


def test_other_model_of_openinference_is_a_fallback() -> None:
    given = {
        **MODELS["OpenInference"],
        "llm.invocation_parameters": '{"model": "gpt-4o"}',
        "llm.model_name": "gpt-4o-mini",
    }
    [row] = [row for row in rows(span("call", given=given)) if row.event == "model_fallback"]
    assert (row.operation, row.model) == ("gpt-4o", "gpt-4o-mini")


def test_tool_of_openllmetry_is_named_by_its_entity() -> None:
    [row] = failures(failed("search.tool", given={"traceloop.span.kind": "tool", "traceloop.entity.name": "search"}))
    assert row.operation == "search"


@pytest.mark.parametrize(
    "given",
    [
        {"http.method": "POST", "http.url": "https://api.example.com:8443/v1?q=1", "http.status_code": 503},
        {"http.method": "POST", "http.host": "api.example.com:443", "http.status_code": 503},
        {"http.request.method": "POST", "url.full": "https://api.example.com/v1", "http.response.status_code": 503},
    ],
)
def test_host_is_read_of_old_and_new_http_names(given: dict[str, object]) -> None:
    assert failures(failed("POST", kind=3, given=given))[0].operation == "POST api.example.com"


@pytest.mark.parametrize(
    ("spellings", "name"),
    [
        ("OpenAI openai openai.chat openai.responses", "openai"),
        ("azure az.ai.openai azure.ai.openai Azure", "azure.ai.openai"),
        ("vertex_ai gcp.vertex_ai google.vertex.chat VertexAI", "gcp.vertex_ai"),
        ("Anthropic anthropic anthropic.messages", "anthropic"),
        ("AWS aws.bedrock bedrock amazon-bedrock", "aws.bedrock"),
        ("OurOwn", "OurOwn"),
    ],
)
def test_spellings_of_a_provider_have_one_name(spellings: str, name: str) -> None:
    assert {provider_of({"gen_ai.system": one}) for one in spellings.split()} == {name}


RUNS = (
    *("session.id", "gen_ai.conversation.id", "langgraph.thread_id", "langfuse.session.id"),
    *("traceloop.association.properties.session_id", "traceloop.association.properties.thread_id"),
    "langsmith.metadata.thread_id",
)


@pytest.mark.parametrize("name", RUNS)
def test_run_is_that_of_the_nearest_span(name: str) -> None:
    root = span("agent", given={name: "r-1"})
    call = failed("chat", given=CHAT, parent=span("step", parent=root) | {"spanId": "ab" * 8})
    step = span("step", parent=root) | {"spanId": "ab" * 8}
    assert [row.run for row in failures(root, step, call)] == ["r-1"]
    nearer = failed("chat", given={**CHAT, "session.id": "r-2"}, parent=root)
    assert [row.run for row in failures(root, nearer)] == ["r-2"]


def test_provider_is_that_of_the_nearest_call() -> None:
    outer = span("ChatOpenAI", given=CHAT)
    inner = failed("call", given={"gen_ai.request.model": "gpt-4o", "gen_ai.operation.name": "chat"}, parent=outer)
    assert [row.provider for row in failures(outer, inner)] == ["openai"]


ERRORS: dict[str, tuple[dict[str, object], str]] = {
    "pydantic-ai": (
        dict(
            exception("pydantic_ai.exceptions.ModelHTTPError", "status_code: 429, model_name: m, body: {'code': 'x'}")
        ),
        "rate_limited",
    ),
    "LiteLLM": (
        dict(exception("RateLimitError", "litellm.RateLimitError: OpenAIException - slow down")),
        "rate_limited",
    ),
    "aiohttp": (dict(exception("ClientResponseError", "429, message='Too Many Requests', url='x'")), "rate_limited"),
    "anthropic": (
        dict(exception("anthropic.APIStatusError", "{'type': 'error', 'error': {'type': 'overloaded_error'}}")),
        "overloaded",
    ),
    "a code of a connection": ({"error.type": "connection_error"}, "network"),
    "JSON": (dict(exception("JSONDecodeError", "Expecting value: line 1 column 1 (char 0)")), "schema_mismatch"),
    "httpx without its module": ({"error.type": "ReadTimeout"}, "timeout"),
    "OpenAI Agents SDK": (
        {"exception.message": "Error getting response: {'error': \"Error code: 429 - {'error': {}}\"}"},
        "rate_limited",
    ),
    "the name that everybody uses": ({"error.type": "Error"}, "unknown"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_error_of_each_library_has_its_category(what: str) -> None:
    given, category = ERRORS[what]
    assert classify(signal_of(given, ""), now=0).category == category


@pytest.mark.parametrize(
    "given",
    [{"gen_ai.response.status": "failed"}, {"gen_ai.response.finish_reasons": ["error"]}],
)
def test_answer_that_says_error_is_a_failure(given: dict[str, object]) -> None:
    assert events_of(span("chat", given={**CHAT, **given})) == ["calls_counted", "failure_classified"]
    well = {"gen_ai.response.status": "completed", "gen_ai.response.finish_reasons": ["stop"]}
    assert events_of(span("chat", given={**CHAT, **well})) == ["calls_counted"]


def noted(name: str, **given: object) -> dict[str, Any]:
    at_ns = NOW_US * 1000 - 9 * 10**9
    return span(
        "chat", given=CHAT, events=[{"name": name, "timeUnixNano": str(at_ns), "attributes": attributes(given)}]
    )


@pytest.mark.parametrize("name", ["gen_ai.retry", "model_retry", "retry"])
def test_retry_that_is_noted_is_scheduled(name: str) -> None:
    given = {"attempt": 3, "retry.delay": 1.5, "error.type": "429"}
    [row] = [row for row in rows(noted(name, **given)) if row.event == "retry_scheduled"]
    said = row.attributes
    assert (said["recovery.attempt.number"], said["recovery.retry.delay"]) == (3, 1.5)
    assert (row.operation, row.category) == ("gpt-4o", "rate_limited")


def test_exception_of_a_client_operation_is_a_failure() -> None:
    found = rows(noted("gen_ai.client.operation.exception", **RATE_LIMITED))
    assert [row.category for row in found if row.event == "failure_classified"] == ["rate_limited"]


AGENTS: dict[str, tuple[str, str, dict[str, object], tuple[object, ...]]] = {
    "Claude Code": (
        "api_error",
        "claude_code.api_error",
        {"error": "Overloaded", "model": "m", "status_code": "529", "attempt": "3", "session.id": "s"},
        ("failure_classified", "overloaded", "anthropic", "m", "s", 3),
    ),
    "Claude Code at the end": (
        "api_retries_exhausted",
        "claude_code.api_retries_exhausted",
        {"error": "Overloaded", "model": "m", "status_code": "529", "total_attempts": "11", "session.id": "s"},
        ("exhausted", "overloaded", "", "", "s", 11),
    ),
    "Codex": (
        "codex.api_request",
        "",
        {"http.response.status_code": "429", "attempt": "2", "conversation.id": "s", "model": "m"},
        ("failure_classified", "rate_limited", "openai", "m", "s", 3),
    ),
    "Gemini CLI": (
        "gemini_cli.api_error",
        "",
        {"error": "quota", "error_type": "ApiError", "status_code": 429, "model": "m", "session.id": "s"},
        ("failure_classified", "rate_limited", "gcp.gemini", "m", "s", 1),
    ),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_error_of_a_coding_agent_is_a_failure(door: Door, agent: str) -> None:
    name, body, given, expected = AGENTS[agent]
    one = record("", given={"event.name": name, **given}, body={"stringValue": body})
    for _ in range(2):
        assert door.post(json=request(one)).json() == {}
    [fact] = Fact.objects.exclude(event="log")
    said = fact.attributes
    attempt = said.get("recovery.attempt.number", said.get("recovery.attempts"))
    assert (fact.event, fact.category, fact.provider, fact.model, fact.run, attempt) == expected


def test_request_of_codex_that_went_well_is_no_failure(door: Door) -> None:
    given = {"event.name": "codex.api_request", "http.response.status_code": 200, "model": "m"}
    door.post(json=request(record("", given=given), record("api_error", given={"error": "of another program"})))
    assert set(Fact.objects.values_list("event", flat=True)) == {"log"}


def test_plumbing_of_an_sdk_is_no_operation(door: Door) -> None:
    document = request({**logged(), "attributes": attributes({**exception("a.B"), "code.function": "charge"})})
    document["resourceLogs"][0]["scopeLogs"][0]["scope"]["name"] = "opentelemetry.sdk._logs._internal"
    door.post(json=document)
    assert Fact.objects.get(event="failure_classified").operation == "charge"
