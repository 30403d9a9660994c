"""Vendors' exceptions are known by name alone, and what they carry is found wherever the vendor keeps it."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import redis

from recovery_ops.rules.enums import Category, Evidence, State
from recovery_ops.runtime.errors import CircuitOpen, RecoveryExhausted
from recovery_ops.runtime.failures.signals import Response, classify, signal_of
from tests.support.signals import McpError, OpenAiStatusError, RpcError, carrying, caused, library

C, E = Category, Evidence


class Grpc(Enum):
    UNAVAILABLE = (14, "unavailable")
    RESOURCE_EXHAUSTED = (8, "resource exhausted")
    UNKNOWN = (2, "unknown")


AnthropicStatusError = library("anthropic.APIStatusError")
GenAiError = library("google.genai.errors.ClientError", library("google.genai.errors.APIError"))

ClientError = library("botocore.exceptions.ClientError")
AiohttpError = library(
    "aiohttp.client_exceptions.ClientResponseError", library("aiohttp.client_exceptions.ClientError")
)


def openai(status: int, body: Mapping[str, object], **headers: str) -> BaseException:
    """As the client raises it: `body` is the inside of `error`, `code` and `type` are attributes too."""
    raw = json.dumps({"error": body}).encode()
    response = SimpleNamespace(status_code=status, headers=headers, _content=raw)
    return carrying(
        OpenAiStatusError, f"Error code: {status} - {body}", body=body, response=response, status_code=status,
        code=body.get("code"), type=body.get("type"), message=f"Error code: {status} - {body}", request_id="req_7",
    )  # fmt: skip


def bedrock(code: str, status: int) -> BaseException:
    answer = {
        "Error": {"Code": code, "Message": "Too many tokens, please wait before trying again."},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {"Retry-After": "3"}, "RequestId": "abc-1"},
    }
    return carrying(ClientError, "An error occurred", response=answer)


def mcp(code: int) -> BaseException:
    return carrying(McpError, error=SimpleNamespace(code=code, message="said by the server"))


QUOTA = {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}
GEMINI = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your quota", "details": []}}

AiohttpTimeout = library(
    "aiohttp.client_exceptions.SocketTimeoutError",
    library("aiohttp.client_exceptions.ServerTimeoutError", TimeoutError),
)
StripeError = library("stripe.InvalidRequestError", library("stripe.StripeError"))
Rendezvous = library("grpc._channel._MultiThreadedRendezvous", RpcError)
NOT_HTTP = library("aiohttp.http_exceptions.HttpProcessingError")()

Row = tuple[BaseException, Category]

BY_TYPE: dict[str, Row] = {
    "aiohttp, not HTTP": (caused(carrying(AiohttpError, status=400), NOT_HTTP), C.NETWORK),
    "aiohttp timeout": (AiohttpTimeout(), C.TIMEOUT),
    "pydantic": (library("pydantic_core._pydantic_core.ValidationError", ValueError)(), C.SCHEMA_MISMATCH),
    "trio": (library("trio.Cancelled", BaseException)(), C.CANCELLED),
    "psycopg, connection gone": (psycopg.OperationalError("the connection is closed"), C.NETWORK),
    "redis loading": (redis.exceptions.BusyLoadingError("loading"), C.NETWORK),
    "redis timeout": (redis.exceptions.TimeoutError("late"), C.TIMEOUT),
    "cancelled": (asyncio.CancelledError(), C.CANCELLED),
    "timeout that says nothing": (TimeoutError(), C.TIMEOUT),
    "disk full": (OSError(errno.ENOSPC, "No space left on device"), C.RESOURCE),
    "no such file": (FileNotFoundError(errno.ENOENT, "No such file"), C.NOT_FOUND),
    "key": (KeyError("name"), C.NOT_FOUND),
    "json": (json.JSONDecodeError("Expecting value", "x", 0), C.SCHEMA_MISMATCH),
    "bug": (AttributeError("x"), C.BUG),
    "our breaker": (CircuitOpen("search", breaker="search", state=State.OPEN), C.OVERLOADED),
}

BY_CODE: dict[str, Row] = {
    "openai quota": (openai(429, QUOTA), C.QUOTA_EXHAUSTED),
    "openai overflow": (openai(400, {"code": "context_length_exceeded"}), C.CONTEXT_OVERFLOW),
    "anthropic stream": (
        carrying(AnthropicStatusError, status_code=200, body={"error": {"type": "overloaded_error"}}),
        C.OVERLOADED,
    ),
    "anthropic error_code": (
        carrying(AnthropicStatusError, status_code=429, error_code="enforced_spend_limit_reached"),
        C.QUOTA_EXHAUSTED,
    ),
    "gemini": (carrying(GenAiError, code=429, status="RESOURCE_EXHAUSTED", details=GEMINI), C.RATE_LIMITED),
    "bedrock": (bedrock("ThrottlingException", 429), C.RATE_LIMITED),
    "bedrock stream": (carrying(ClientError, response={"Error": {"Code": "throttlingException"}}), C.RATE_LIMITED),
    "mcp timeout": (mcp(-32001), C.TIMEOUT),
    "mcp, no such tool": (mcp(-32601), C.NOT_FOUND),
    "grpc": (library("grpc._channel._InactiveRpcError", RpcError, code=lambda self: Grpc.UNAVAILABLE)(), C.NETWORK),
    "grpc, live call": (carrying(Rendezvous, _state=SimpleNamespace(code=Grpc.RESOURCE_EXHAUSTED)), C.RATE_LIMITED),
    "grpc aio": (carrying(library("grpc.aio._call.AioRpcError", RpcError), _code=Grpc.UNKNOWN), C.SERVER_ERROR),
    "stripe, key reused": (
        carrying(StripeError, http_status=400, json_body={"error": {"type": "idempotency_error"}}),
        C.IDEMPOTENCY_CONFLICT,
    ),
    "sqlalchemy deadlock": (
        caused(library("sqlalchemy.exc.OperationalError")("(psycopg) …"), psycopg.errors.DeadlockDetected("deadlock")),
        C.CONFLICT,
    ),
    "psycopg, statement timeout": (psycopg.errors.QueryCanceled("canceling statement"), C.TIMEOUT),
    "psycopg, syntax": (psycopg.errors.SyntaxError("syntax"), C.INVALID_REQUEST),
    "our exhausted call": (RecoveryExhausted("s", last_error=None, attempts=2, category=C.CONFLICT), C.CONFLICT),
}

BY_STATUS: dict[str, Row] = {
    "aiohttp status": (carrying(AiohttpError, status=502), C.SERVER_ERROR),
    "mcp, older timeout": (mcp(408), C.TIMEOUT),
    "status as an enumeration": (carrying(library("app.Odd"), status_code=HTTPStatus.FORBIDDEN), C.PERMISSION),
    "status on the response": (carrying(library("app.Odd"), response=SimpleNamespace(status=410)), C.NOT_FOUND),
    "status as text": (carrying(library("app.Odd"), code="429"), C.RATE_LIMITED),
    "status called code": (carrying(library("urllib.error.HTTPError"), code=404), C.NOT_FOUND),
}

BY_NAME = {
    **{name: (E.EXCEPTION_TYPE, *row) for name, row in BY_TYPE.items()},
    **{name: (E.STRUCTURED_CODE, *row) for name, row in BY_CODE.items()},
    **{name: (E.HTTP_STATUS, *row) for name, row in BY_STATUS.items()},
    "nothing known": (E.NONE, RuntimeError("odd"), C.UNKNOWN),
}


@pytest.mark.parametrize(("evidence", "error", "category"), BY_NAME.values(), ids=BY_NAME)
def test_an_exception(evidence: Evidence, error: BaseException, category: Category) -> None:
    failure = classify(error)
    assert (failure.category, failure.evidence) == (category, evidence)


def test_no_library_is_imported_to_recognise_its_errors() -> None:
    probe = (
        "import sys; from recovery_ops.runtime.failures.signals import classify; classify(ValueError()); "
        "print(*{'httpx', 'requests', 'psycopg', 'redis', 'grpc', 'aiohttp'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_what_a_rich_exception_carries_is_all_there() -> None:
    failure = classify(openai(429, QUOTA, **{"x-should-retry": "false", "retry-after": "9", "server": "x"}))
    assert (failure.status_code, failure.retry_after_s, failure.server_says_retry) == (429, 9.0, False)
    assert (failure.request_id, failure.message) == ("req_7", "You exceeded your current quota")
    assert failure.error_type == failure.exception_type == "openai.APIStatusError"
    aws = classify(bedrock("ThrottlingException", 429))
    assert (aws.status_code, aws.retry_after_s, aws.request_id) == (429, 3.0, "abc-1")


@pytest.mark.parametrize(
    "carried",
    [
        {"request_id": "r-1"},
        {"body": {"error": {"message": "down"}, "request_id": "r-1"}},
        {"response": SimpleNamespace(status_code=500, headers={}, _content=b'{"error": {}, "request_id": "r-1"}')},
        {"response": SimpleNamespace(status_code=500, headers={"Request-Id": "r-1"}, _content=b"")},
        {"response": SimpleNamespace(status_code=500, headers={"x-amzn-RequestId": "r-1"}, _content=b"")},
        {
            "body": {"error": {}, "request_id": "r-1"},
            "response": SimpleNamespace(status_code=500, headers={"x-request-id": "r-2"}, _content=b""),
        },
    ],
)
def test_request_id_is_found_where_it_is(carried: dict[str, Any]) -> None:
    assert classify(carrying(library("app.Odd"), "down", status_code=500, **carried)).request_id == "r-1"


def test_an_adapter_that_names_a_kind_has_translated_what_lies_below() -> None:
    class AdapterError(Exception):
        kind = "evidence_stale"

    failure = classify(caused(AdapterError("the page changed"), TimeoutError()))
    assert (failure.category, failure.evidence) == (C.STALE_EVIDENCE, E.STRUCTURED_CODE)
    meaningless = carrying(library("app.Odd"), "x", kind="vegetable")
    assert classify(caused(meaningless, TimeoutError())).category is C.TIMEOUT


def test_a_failed_subprocess_gives_its_status_and_the_end_of_its_errors() -> None:
    script = "import sys; sys.exit('cannot open the file')"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    failure = classify(caught.value)
    assert (failure.category, failure.exit_code) == (C.RESOURCE, 1)
    assert failure.message == "exit status 1: cannot open the file"


def test_long_error_output_is_told_by_its_end() -> None:
    output = "copying a file\n" * 200 + "no space left"
    for stderr in (output, output.encode()):
        failure = classify(subprocess.CalledProcessError(2, ["copy"], stderr=stderr))
        assert failure.message.endswith("no space left")


def test_a_refusal_of_ours_says_when_to_come_back() -> None:
    refusal = CircuitOpen("search", breaker="b", state=State.OPEN, retry_at=datetime(2027, 1, 15, 8, 1, tzinfo=UTC))
    assert classify(refusal, now=1_800_000_000.0).retry_after_s == 60.0


def test_the_implicit_context_is_not_the_cause() -> None:
    error = RuntimeError("a later error of another kind")
    error.__context__ = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert classify(error).category is C.UNKNOWN
    assert signal_of(error).errno is None


@pytest.mark.parametrize(
    ("parts", "category"),
    [
        ([ValueError("bad"), PermissionError("no")], C.PERMISSION),
        ([ConnectionResetError(), ExceptionGroup("inner", [TimeoutError(), PermissionError("no")])], C.PERMISSION),
        ([ConnectionResetError(), ValueError("bad")], C.BUG),
        ([ConnectionResetError(), TimeoutError()], C.NETWORK),
    ],
)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_gravest_error_speaks_for_a_group_whatever_the_order(
    parts: list[Exception], category: Category, turn: int
) -> None:
    if category is not C.NETWORK:  # of equals the first
        parts = parts[::turn]
    assert classify(ExceptionGroup("tasks", parts)).category is category


def test_a_group_that_nests_without_end_is_bounded() -> None:
    group: Exception = PermissionError("far down")
    for _ in range(5000):
        group = ExceptionGroup("again", [group, *[ValueError()] * 3])
    assert classify(group).category in C


def test_a_group_is_what_its_first_real_error_is() -> None:
    group = BaseExceptionGroup("tasks", [asyncio.CancelledError(), ExceptionGroup("inner", [TimeoutError()])])
    assert classify(group).category is C.TIMEOUT
    assert classify(BaseExceptionGroup("tasks", [asyncio.CancelledError()])).category is C.CANCELLED


@pytest.mark.parametrize(
    ("answer", "category"),
    [
        (Response(503), C.SERVER_ERROR),
        (Response(529, {}, b"<html>" + b"x" * 10_000_000), C.OVERLOADED),
        (Response(400, {}, {"error": {"code": "context_length_exceeded"}}), C.CONTEXT_OVERFLOW),
        (Response(401, {}, "no"), C.AUTH),
        ({"type": "error", "error": {"type": "overloaded_error"}}, C.OVERLOADED),
        ({"jsonrpc": "2.0", "error": {"code": -32001, "message": "late"}}, C.TIMEOUT),
        ({"error": {"kind": "transient_timeout"}}, C.TIMEOUT),
        ({"error": "invalid_grant", "error_description": "expired"}, C.AUTH),
        ('{"errors": [{"message": "m", "extensions": {"code": "UNAUTHENTICATED"}}]}', C.AUTH),
        (SimpleNamespace(status=404, headers=[("Retry-After", "1")]), C.NOT_FOUND),
        ("connection timed out", C.TIMEOUT),
        (None, C.UNKNOWN),
        (7, C.UNKNOWN),
    ],
)
def test_answers_that_are_no_exceptions(answer: object, category: Category) -> None:
    assert classify(answer).category is category
