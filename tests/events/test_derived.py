"""An agent with plain instrumentation alone: what its spans and logged exceptions say about recovery."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.derived import derive_from_spans
from events.derived.same_model import is_other_model
from events.ingest.classification import keep_rules
from events.ingest.records import Row, read_records
from events.models import Fact, MinuteSum, Quarantine
from events.otlp.sent import Encoding
from events.otlp.spans import read_spans
from recovery_ops.rules.policy.classification_rules import parse_classification
from tests.support.otlp import JSON, Door, attributes, protobuf, record, request
from tests.support.spans import (
    CHAT,
    NOW_US,
    TRACE,
    as_protobuf,
    exception,
    failed,
    intake,
    logged,
    rows,
    said,
    span,
    texts,
    traces,
)

LIMIT_REACHED = "Rate limit reached for gpt-4o"
RATE_LIMITED = (
    f"Error code: 429 - {{'error': {{'message': '{LIMIT_REACHED}', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}}}"
)
NO_QUOTA = (
    "Error code: 429 - {'error': {'message': 'You exceeded your current quota', 'type': 'insufficient_quota', "
    "'param': None, 'code': 'insufficient_quota'}}"
)


def failures(*spans: dict[str, Any]) -> list[Row]:
    return [row for row in rows(*spans) if row.event == "failure_classified"]


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    # what → category, operation, the span
    "a status of a model's span": ("overloaded", "gpt-4o", {"given": {**CHAT, "error.type": "529"}}),
    "an exception of a vendor": (
        "rate_limited",
        "gpt-4o",
        {"given": CHAT, "raised": [exception("openai.RateLimitError", RATE_LIMITED)]},
    ),
    "the same without its module": ("rate_limited", "gpt-4o", {"given": {**CHAT, "error.type": "RateLimitError"}}),
    "the body in the message": (
        "quota_exhausted",
        "gpt-4o",
        {"given": CHAT, "raised": [exception("openai.RateLimitError", NO_QUOTA)]},
    ),
    "a body as JSON": (
        "rate_limited",
        "gemini-2.5-pro",
        {
            "given": {"gen_ai.request.model": "gemini-2.5-pro"},
            "message": '429 RESOURCE_EXHAUSTED. {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}',
        },
    ),
    "a tool that timed out": (
        "timeout",
        "search_web",
        {"given": {"gen_ai.tool.name": "search_web"}, "raised": [exception("httpx.ReadTimeout")]},
    ),
    "a request of HTTP": (
        "server_error",
        "GET api.example.com",
        {
            "kind": 3,
            "given": {
                "http.request.method": "GET",
                "server.address": "api.example.com",
                "http.response.status_code": 503,
            },
        },
    ),
    "the older names of HTTP": (
        "rate_limited",
        "POST api.example.com",
        {"kind": 3, "given": {"http.method": "POST", "net.peer.name": "api.example.com", "http.status_code": 429}},
    ),
    "gRPC": ("rate_limited", "Search", {"name": "Search", "given": {"rpc.grpc.status_code": 8}}),
    "a database": ("timeout", "SELECT", {"name": "SELECT", "given": {"db.response.status_code": "57014"}}),
    "Java": ("timeout", "call", {"name": "call", "raised": [exception("java.net.SocketTimeoutException")]}),
    "Node": ("network", "call", {"name": "call", "raised": [exception("ECONNRESET", "read ECONNRESET")]}),
    "Go": ("timeout", "call", {"name": "call", "given": {"error.type": "context.deadlineExceededError"}}),
    "nothing but an error": ("unknown", "call", {"name": "call"}),
}


@pytest.mark.parametrize("what", CASES)
def test_a_failed_span_is_a_failure_by_the_rules(what: str) -> None:
    category, operation, options = CASES[what]
    [row] = failures(failed(**options))
    assert (row.category, row.operation) == (category, operation)
    assert row.attributes["recovery.derived_from"] == "span"
    assert row.trace_id == TRACE
    assert row.span_id


def test_a_failure_says_all_that_the_span_said() -> None:
    given = {
        **CHAT,
        "gen_ai.conversation.id": "run-7",
        "gen_ai.agent.name": "planner",
        "http.request.resend_count": 2,
        "http.response.status_code": 429,
        "http.response.header.retry-after": ["7"],
    }
    [row] = failures(failed(given=given, raised=[exception("openai.RateLimitError", RATE_LIMITED)]))
    assert (row.provider, row.model, row.run) == ("openai", "gpt-4o", "run-7")
    said = row.attributes
    assert said["http.response.status_code"] == 429
    assert said["recovery.attempt.number"] == 3
    assert said["recovery.failure.retry_after"] == 7.0
    assert said["recovery.message"] == LIMIT_REACHED
    assert said["exception.type"] == "openai.RateLimitError"
    assert said["gen_ai.agent.name"] == "planner"
    assert said["recovery.failure.fingerprint"]
    assert "exception.stacktrace" not in said


SILENT: dict[str, dict[str, Any]] = {
    "a success": span(),
    "a success that says so, whatever its status": span(
        kind=3, status={"code": 1}, given={"http.response.status_code": 404}
    ),
    "a server's answer to somebody's mistake": span(kind=2, given={"http.response.status_code": 404}),
    "a cancel": failed(raised=[exception("asyncio.exceptions.CancelledError")]),
}


@pytest.mark.parametrize("what", SILENT)
def test_what_is_no_failure_is_none(what: str) -> None:
    assert rows(SILENT[what]) == []


def test_an_error_that_climbs_is_one_failure_under_the_name_of_the_call() -> None:
    agent = failed("invoke_agent", given={"gen_ai.operation.name": "invoke_agent"}, raised=[exception("KeyError")])
    chat = failed("chat gpt-4o", given=CHAT, parent=agent, raised=[exception("openai.InternalServerError")])
    http = failed("POST", given={"http.response.status_code": 529, "server.address": "x"}, kind=3, parent=chat)
    for order in itertools.permutations([agent, chat, http]):
        [row] = failures(*order)
        assert (row.operation, row.model, row.category) == ("gpt-4o", "gpt-4o", "overloaded")
        assert row.span_id == http["spanId"]


def test_the_region_is_of_what_failed_else_of_the_call_else_of_the_resource() -> None:
    region = {"cloud.region": "eu-west-1"}
    [row] = failures(failed(given=CHAT | region, raised=[exception("openai.InternalServerError")]))
    assert row.region == "eu-west-1"
    chat = failed("chat gpt-4o", given=CHAT | region, raised=[exception("openai.InternalServerError")])
    http = failed("POST", given={"http.response.status_code": 529, "server.address": "x"}, kind=3, parent=chat)
    [row] = failures(chat, http)
    assert row.region == "eu-west-1"
    chat["attributes"] = attributes(CHAT)
    http["attributes"] += attributes({"cloud.region": "us-east-1"})
    [row] = failures(chat, http)
    assert row.region == "us-east-1"
    [row] = failures(failed(given=CHAT | {"server.address": "eu-west-1.example.com"}))
    assert row.region is None
    document = traces(failed(given=CHAT))
    document["resourceSpans"][0]["resource"]["attributes"] += attributes({"cloud.region": "asia-1"})
    assert {one.region for one in intake(json.dumps(document).encode()).rows} == {"asia-1"}


def test_a_framework_that_knows_no_region_around_a_vendor_that_does_is_one_call() -> None:
    outer = span("chat", given=CHAT)
    inner = span("chat", given=CHAT | {"cloud.region": "eu-west-1"}, parent=outer)
    [counted] = [row for row in rows(outer, inner) if row.event == "calls_counted"]
    assert counted.attributes["recovery.calls"] == 1


def test_retries_inside_a_call_are_failures_of_a_call_that_succeeded() -> None:
    chat = span("chat gpt-4o", given=CHAT)
    tries = [
        span("POST", kind=3, parent=chat, ago_s=10 - 0.1 * number, given={"http.response.status_code": status})
        for number, status in enumerate((429, 529, 200))
    ]
    found = rows(chat, *tries)
    assert [row.category for row in found if row.event == "failure_classified"] == ["rate_limited", "overloaded"]
    [counted] = [row for row in found if row.event == "calls_counted"]
    assert (counted.operation, counted.model) == ("gpt-4o", "gpt-4o")
    said = {name.removeprefix("recovery."): value for name, value in counted.attributes.items()}
    assert (said["calls"], said["attempts"], said["successes"]) == (1, 3, 1)
    assert said["failures"] == {"rate_limited": 1, "overloaded": 1}


def test_a_failure_after_a_child_that_succeeded_is_its_own() -> None:
    tool = failed("execute_tool", given={"gen_ai.tool.name": "parse"}, raised=[exception("ValueError", "no date")])
    first = failed("GET", parent=tool, kind=3, ago_s=9.9, given={"http.response.status_code": 503})
    then = span("GET", parent=tool, kind=3, ago_s=9.5, given={"http.response.status_code": 200})
    assert sorted(row.category for row in failures(tool, first, then)) == ["bug", "server_error"]


def test_exceptions_that_were_dealt_with_are_failures_too() -> None:
    handled = [exception("httpx.ConnectError"), exception("httpx.ConnectError"), exception("httpx.ReadTimeout")]
    found = failures(span(given={"gen_ai.tool.name": "search"}, raised=handled))
    assert [row.category for row in found] == ["network", "network", "timeout"]
    assert {row.attributes["recovery.derived_from"] for row in found} == {"span_event"}
    assert len({row.uid for row in found}) == 3


def test_an_exception_recorded_on_every_level_is_one_failure() -> None:
    outer = span("retry", raised=[exception("httpx.ReadTimeout")])
    inner = failed("call", parent=outer, raised=[exception("httpx.ReadTimeout")])
    assert [row.span_id for row in failures(outer, inner)] == [inner["spanId"]]


def test_the_same_spans_again_are_the_same_facts() -> None:
    chat = failed("chat gpt-4o", given=CHAT, raised=[exception("a.B"), exception("a.B")])
    other = span(given={**CHAT, "gen_ai.response.model": "gpt-4o-mini"})
    assert [row.uid for row in rows(chat, other)] == [row.uid for row in rows(chat, other)]
    assert len({row.uid for row in rows(chat, other)}) == 5, "two failures, a fallback, and two calls"


def test_a_framework_around_a_vendor_is_one_call() -> None:
    outer = span("ChatOpenAI.chat", given=CHAT)
    found = rows(outer, span("chat gpt-4o", given=CHAT, parent=outer))
    assert [row.attributes["recovery.calls"] for row in found] == [1]


@pytest.mark.parametrize("name", ["GET /users/8213/orders", "GET /users/77/orders", "GET /users/9/orders"])
def test_ids_in_a_name_make_no_operation_of_their_own(name: str) -> None:
    assert failures(failed(name))[0].operation == "GET /users/*/orders"
    assert len(failures(failed("x" * 5000))[0].operation) == 100


MODELS: list[tuple[str, str, str, bool]] = [
    ("gpt-4o", "gpt-4o-2024-08-06", "openai", False),
    ("gpt-4", "gpt-4-0613", "openai", False),
    ("gpt-4o", "gpt-4o-mini", "openai", True),
    ("gpt-4o", "gpt-4o-mini-2024-07-18", "openai", True),
    ("o3", "o3-2025-04-16", "openai", False),
    ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", "anthropic", False),
    ("claude-opus-4-1", "claude-sonnet-4-5-20250929", "anthropic", True),
    ("claude-sonnet-4-0", "claude-sonnet-4-20250514", "anthropic", False),
    ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4-20250514", "aws.bedrock", False),
    ("gemini-2.5-pro", "models/gemini-2.5-pro-preview-05-06", "gcp.gemini", False),
    ("gemini-2.5-pro", "gemini-2.5-flash", "gcp.gemini", True),
    ("gemini-1.5-pro", "gemini-1.5-pro-002", "gcp.vertex_ai", False),
    ("gemini-flash-latest", "gemini-2.5-flash-preview-09-2025", "gcp.gemini", False),
    ("models/gemini-flash-lite-latest", "gemini-2.5-flash-lite", "gcp.gen_ai", False),
    ("gemini-flash-latest", "gemini-2.5-flash-lite", "gcp.gemini", True),
    ("claude-3-5-sonnet-latest", "claude-3-7-sonnet-20250219", "anthropic", True),
    ("openai/gpt-4o", "gpt-4o-2024-11-20", "openrouter", False),
    ("openrouter/auto", "anthropic/claude-sonnet-4", "openrouter", False),
    ("our-deployment", "gpt-4o-2024-08-06", "azure.ai.openai", False),
    ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", "claude-x", "aws.bedrock", False),
    ("gpt-4o", "", "openai", False),
]


@pytest.mark.parametrize(("asked", "answered", "provider", "is_other"), MODELS)
def test_an_alias_is_no_other_model(asked: str, answered: str, provider: str, is_other: bool) -> None:
    assert is_other_model(asked, answered, provider) == is_other


def test_another_model_that_answered_is_a_model_fallback() -> None:
    found = rows(span(given={**CHAT, "gen_ai.response.model": "gpt-4o-mini-2024-07-18"}))
    [row] = [row for row in found if row.event == "model_fallback"]
    assert (row.operation, row.model, row.provider) == ("gpt-4o", "gpt-4o-mini-2024-07-18", "openai")
    assert row.attributes["recovery.model.previous"] == "gpt-4o"
    assert row.attributes["recovery.derived_from"] == "span"


def test_our_own_events_on_a_span_are_facts() -> None:
    event = {
        "name": "recovery.breaker_state_changed",
        "timeUnixNano": str(NOW_US * 1000 - 5),
        "attributes": attributes({"recovery.breaker.name": "search", "recovery.breaker.state": "open"}),
    }
    [row] = rows(span(events=[event]))
    assert (row.event, row.breaker, row.state, row.trace_id) == ("breaker_state_changed", "search", "open", TRACE)


# -- logged exceptions -------------------------------------------------------------------------------------------------


def test_a_logged_exception_is_a_log_and_a_failure(door: Door) -> None:
    assert door.post(json=request(logged(traceId=TRACE, spanId="eee19b7ec3c1b174"))).status_code == 200
    failure = Fact.objects.get(event="failure_classified")
    assert Fact.objects.get(event="log").trace_id == failure.trace_id == TRACE
    assert (failure.category, failure.operation) == ("timeout", "tests")
    assert failure.attributes["recovery.derived_from"] == "log_record"
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == 1


def test_an_exception_on_a_span_and_in_a_log_is_one_failure(door: Door) -> None:
    one = failed(given={"gen_ai.tool.name": "search"}, raised=[exception("httpx.ReadTimeout")])
    time_ns = int(one["events"][0]["timeUnixNano"])
    log = logged(traceId=TRACE, spanId=one["spanId"], timeUnixNano=str(time_ns + 3_000_000))
    for _ in range(2):
        assert door.post(json=traces(one), path="/v1/traces").status_code == 200
        assert door.post(json=request(log)).status_code == 200
    assert Fact.objects.filter(event="failure_classified").count() == 1
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == 1


def test_exceptions_logged_again_and_again_are_as_many_failures(door: Door) -> None:
    logs = [logged(ago_s=number, traceId=TRACE, spanId="eee19b7ec3c1b174") for number in range(1, 4)]
    for log in (*logs, *logs):
        door.post(json=request(log))
    assert Fact.objects.filter(event="failure_classified").count() == 3


def test_what_an_instance_with_the_runtime_tells_itself_is_not_derived(door: Door) -> None:
    door.post(json=request(record("recovery.instance_heartbeat"), logged()))
    door.post(json=request(logged(ago_s=2)))
    door.post(json=traces(failed()), path="/v1/traces")
    assert sorted(Fact.objects.values_list("event", flat=True)) == ["instance_heartbeat", "log", "log"]


# -- through the door --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", Encoding)
def test_spans_are_stored_folded_and_answered(door: Door, encoding: Encoding) -> None:
    document = traces(failed(given={**CHAT, "error.type": "529"}), span())
    body = as_protobuf(document) if encoding is Encoding.PROTOBUF else json.dumps(document).encode()
    for _ in range(2):
        answer = door.post(body, path="/v1/traces", headers={"content-type": encoding.value})
        assert answer.status_code == 200
    assert Fact.objects.get(event="failure_classified").category == "overloaded"
    sums = MinuteSum.objects.get(category="overloaded")
    assert (sums.failures, sums.overloaded, sums.model) == (1, 1, "gpt-4o")


def test_a_span_that_cannot_be_read_is_set_aside(door: Door) -> None:
    document = traces(failed(), {"name": 7}, failed())
    partial = door.post(json=document, path="/v1/traces").json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert Fact.objects.count() == 2
    assert Quarantine.objects.get().reason in partial["errorMessage"]


def test_one_spoilt_span_in_protobuf_leaves_the_others(door: Door) -> None:
    whole = as_protobuf(traces(failed("aaaa"), failed("bbbb"), failed("cccc")))
    answer = door.post(whole.replace(b"bbbb", b"b\xff\xfeb"), path="/v1/traces")
    assert answer.status_code == 200
    assert sorted(Fact.objects.values_list("operation", flat=True)) == ["aaaa", "cccc"]
    assert Quarantine.objects.count() == 1


def test_a_resource_that_is_not_utf_8_spoils_no_span(door: Door) -> None:
    whole = as_protobuf(traces(failed("aaaa"), failed("bbbb")))
    answer = door.post(whole.replace(b"billing-1", b"billing\xff1"), path="/v1/traces")
    assert (answer.status_code, answer.content) == (200, b"")
    assert set(Fact.objects.values_list("agent__instance", flat=True)) == {"billing\ufffd1"}
    assert Fact.objects.count() == 2


def test_what_is_no_trace_request_is_refused(door: Door) -> None:
    assert door.post(b"rubbish", path="/v1/traces").status_code == 400
    assert door.post(b'{"resourceSpans": 1}', path="/v1/traces", headers={"content-type": JSON}).status_code == 400
    assert door.post(protobuf(request(record())), path="/v1/traces").status_code in (200, 400)


@given(st.lists(st.tuples(said, st.lists(said, max_size=2), texts, st.integers(0, 2), st.integers(0, 5)), max_size=5))
def test_any_spans_say_the_same_in_both_encodings_and_again(drawn: list[Any]) -> None:
    spans: list[dict[str, Any]] = []
    for given_attributes, raised, name, code, kind in drawn:
        parent = spans[-1] if spans and kind % 2 else None
        spans.append(
            span(
                name,
                given=given_attributes,
                raised=raised,
                status={"code": code, "message": name},
                kind=kind,
                parent=parent,
            )
        )
    document = traces(*spans)
    one = intake(json.dumps(document).encode())
    other = intake(as_protobuf(document), Encoding.PROTOBUF)
    assert one.rows == other.rows
    assert not one.refused
    assert len({row.uid for row in one.rows}) == len(one.rows)


# -- what the policy says of it ----------------------------------------------------------------------------------------
def test_a_rule_of_the_policy_names_what_arrives() -> None:
    problems: list[Any] = []
    match = {"exception_type": "Ledger*", "operation": "post_entry"}
    given = [{"name": "busy", "match": match, "category": "overloaded"}]
    rules = parse_classification(given, "rules", problems)
    one = span("work", given={"gen_ai.tool.name": "post_entry"}, raised=[exception("LedgerTrouble", "busy")])
    one["status"] = {"code": 2}
    body = json.dumps(traces(one)).encode()
    derived = derive_from_spans(read_spans(body, Encoding.JSON), lambda: rules)
    [row] = [row for row in read_records(derived.batches, "dev", NOW_US).rows if row.event == "failure_classified"]
    assert (row.category, row.attributes["recovery.failure.rule"]) == ("overloaded", "busy")
    assert row.attributes["recovery.failure.instead_of"] == "unknown"
    assert problems == []


def test_nobody_asks_for_rules_where_nothing_failed() -> None:
    def asked() -> Any:
        raise AssertionError("nothing failed")

    body = json.dumps(traces(span("work", given={"gen_ai.tool.name": "post_entry"}))).encode()
    assert derive_from_spans(read_spans(body, Encoding.JSON), asked).spans == 1


def test_the_rules_that_were_kept_hold_for_what_arrives(door: Door) -> None:
    given = [{"name": "busy", "match": {"message": "*is busy*"}, "category": "overloaded"}]
    keep_rules("dev", parse_classification(given, "rules", []))
    door.post(json=traces(failed(raised=[exception("LedgerTrouble", "it is busy")])), path="/v1/traces")
    door.post(json=request(logged(kind="LedgerTrouble", message="the other ledger is busy")))
    keep_rules("dev", ())
    door.post(json=request(logged(kind="LedgerTrouble", message="the third ledger is busy")))
    found = Fact.objects.filter(event="failure_classified").order_by("pk")
    assert list(found.values_list("category", flat=True)) == ["overloaded", "overloaded", "unknown"]


def test_last_exception_of_chatty_span_is_read() -> None:
    chatty = failed(given=CHAT, raised=[exception("openai.RateLimitError", RATE_LIMITED)])
    first = {"name": "token", "timeUnixNano": chatty["startTimeUnixNano"], "attributes": []}
    (failure,) = failures(chatty | {"events": [first] * 400 + chatty["events"]})
    assert failure.category == "rate_limited"


def test_failure_with_region_is_counted_with_its_calls() -> None:
    given = {**CHAT, "cloud.region": "eu-west-1"}
    found = rows(span(given=given), failed(given=given, raised=[exception("openai.RateLimitError", RATE_LIMITED)]))
    calls = [row.attributes for row in found if row.event == "calls_counted"]
    told = [(said["recovery.attempts"], said.get("recovery.failures")) for said in calls]
    assert told == [(1, None), (1, {"rate_limited": 1})]
