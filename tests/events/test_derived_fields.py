"""Every field of what is derived from spans and logs: each number in its unit, each word from its attribute."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from events.ingest.records import Row
from events.models import Fact
from recovery_ops.rules.enums import Category
from tests.support.otlp import Door, request
from tests.support.spans import CHAT, NOW_US, TRACE, exception, failed, logged, rows, span

NOT_COMPARED = {"uid", "attributes", "attributes_json", "agent", "agent_id", "received_us", "body", "environment"}
LIMITED = (
    "Error code: 429 - {'error': {'message': 'Rate limit reached', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}"
)
GIVEN: dict[str, Any] = {
    **CHAT,
    "gen_ai.conversation.id": "run-7",
    "gen_ai.agent.name": "planner",
    "gen_ai.tool.call.id": "c-1",
    "server.address": "api.example",
    "http.request.resend_count": 2,
    "http.response.status_code": 429,
    "http.response.header.retry-after": ["7"],
    "http.response.header.x-request-id": ["r-1"],
}
END_NS = NOW_US * 1000 - 10 * 10**9 + 2_500_000_000
SAID = {
    "service.version": "1.2.3",
    "gen_ai.operation.name": "chat",
    "gen_ai.agent.name": "planner",
    "gen_ai.tool.call.id": "c-1",
    "server.address": "api.example",
    "recovery.attempt.number": 3,
    "recovery.failure.retryable": True,
    "recovery.failure.retry_after": 7.0,
    "recovery.failure.verdict": "transient_timeout",
}


def told(found: Row) -> dict[str, Any]:
    """The columns that are not empty."""
    columns = {one.name: getattr(found, one.name) for one in fields(found) if one.name not in NOT_COMPARED}
    return {name: value for name, value in columns.items() if value not in ("", None, False)}


def said(found: Row) -> dict[str, Any]:
    """The attributes, without the digest."""
    return {name: value for name, value in found.attributes.items() if name != "recovery.failure.fingerprint"}


def test_failed_span_reaches_every_field() -> None:
    raised = [exception("httpx.ReadTimeout", "slow"), exception("openai.RateLimitError", LIMITED)]
    call = failed("chat", message="no", given=GIVEN, raised=raised, ago_s=10.0, endTimeUnixNano=str(END_NS))
    handled, own = (one for one in rows(call) if one.event == "failure_classified")
    columns = {
        "event": "failure_classified",
        "at_us": NOW_US - 10_000_000,
        "severity": 13,
        "operation": "gpt-4o",
        "provider": "openai",
        "model": "gpt-4o",
        "run": "run-7",
        "trace_id": TRACE,
        "span_id": call["spanId"],
    }
    assert told(handled) == columns | {"category": "timeout"}
    assert told(own) == columns | {"category": "rate_limited"}
    assert said(handled) == SAID | {
        "error.type": "httpx.ReadTimeout",
        "exception.type": "httpx.ReadTimeout",
        "recovery.message": "slow",
        "recovery.failure.evidence": "exception_type",
        "recovery.derived_from": "span_event",
    }
    assert said(own) == SAID | {
        "error.type": "openai.RateLimitError",
        "exception.type": "openai.RateLimitError",
        "http.response.status_code": 429,
        "recovery.message": "Rate limit reached",
        "recovery.duration": 2.5,
        "recovery.failure.code": "rate_limit_exceeded",
        "recovery.failure.evidence": "structured_code",
        "recovery.derived_from": "span",
    }


def test_each_call_is_counted_with_its_failures() -> None:
    usage = {"gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 5}
    calls = [
        span("chat", given=CHAT | usage),
        failed("chat", given=CHAT | {"http.response.status_code": 529}),
    ]
    well, badly = [one for one in rows(*calls) if one.event == "calls_counted"]
    assert said(well) == {
        "service.version": "1.2.3",
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 5,
        "recovery.interval": 1.0,
        "recovery.calls": 1,
        "recovery.attempts": 1,
        "recovery.successes": 1,
        "recovery.derived_from": "span",
    }
    told = said(badly)
    assert (told["recovery.attempts"], told["recovery.successes"]) == (1, 0)
    assert told["recovery.failures"] == {Category.OVERLOADED: 1}
    assert {(one.operation, one.provider, one.model) for one in (well, badly)} == {("gpt-4o", "openai", "gpt-4o")}


def test_other_model_reaches_every_field() -> None:
    call = span("chat", ago_s=20.0, given=CHAT | {"gen_ai.response.model": "other", "gen_ai.conversation.id": "run-7"})
    [found] = [one for one in rows(call) if one.event == "model_fallback"]
    assert told(found) == {
        "event": "model_fallback",
        "at_us": NOW_US - 19_000_000,
        "severity": 13,
        "operation": "gpt-4o",
        "provider": "openai",
        "model": "other",
        "run": "run-7",
        "category": "unknown",
        "trace_id": TRACE,
        "span_id": call["spanId"],
    }
    assert said(found) == {
        "service.version": "1.2.3",
        "gen_ai.operation.name": "chat",
        "recovery.model.previous": "gpt-4o",
        "recovery.consecutive": 0,
        "recovery.derived_from": "span",
    }


def test_logged_exception_reaches_every_field(door: Door) -> None:
    one = logged("openai.RateLimitError", LIMITED)
    one["attributes"] += [
        {"key": "gen_ai.tool.name", "value": {"stringValue": "search"}},
        {"key": "gen_ai.conversation.id", "value": {"stringValue": "run-7"}},
        {"key": "http.request.resend_count", "value": {"intValue": "1"}},
        {"key": "cloud.region", "value": {"stringValue": "eu-1"}},
    ]
    assert door.post(json=request(one)).json() == {}
    found = Fact.objects.get(event="failure_classified")
    assert (found.operation, found.category, found.run, found.region) == ("search", "rate_limited", "run-7", "eu-1")
    assert found.at_us * 1000 == int(one["timeUnixNano"]) // 1000 * 1000
    assert (found.severity, found.trace_id, found.span_id) == (13, "", "")
    attributes = found.attributes
    assert attributes["recovery.attempt.number"] == 2
    assert attributes["recovery.derived_from"] == "log_record"
    assert attributes["recovery.message"] == "Rate limit reached"
    assert "recovery.duration" not in attributes
