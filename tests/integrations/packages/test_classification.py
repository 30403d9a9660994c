"""What real clients raise when a real server misbehaves, and what the rules make of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import aiohttp
import anthropic
import botocore.config
import botocore.session
import httpx
import httpx2
import openai
import pytest
import requests
import urllib3
from google import genai
from google.genai import types

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.runtime import classify
from tests.integrations.packages.vendors import anthropic_error, openai_error, said
from tests.support import misbehaving_server as misbehaving
from tests.support.http_server import Reply, answer, raw, reset, serving

TIMEOUT_S = 0.5
ASKED = [{"role": "user", "content": "hello"}]

Call = Callable[[str], object]


@cache
def anthropic_client() -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", max_retries=0, timeout=TIMEOUT_S)


@cache
def openai_client() -> openai.OpenAI:
    return openai.OpenAI(api_key="k", max_retries=0, timeout=TIMEOUT_S)


def by_anthropic(url: str) -> object:
    client = anthropic_client().with_options(base_url=url)
    return client.messages.create(model="large", max_tokens=10, messages=ASKED)


def by_anthropic_stream(url: str) -> object:
    client = anthropic_client().with_options(base_url=url)
    return list(client.messages.create(model="large", max_tokens=10, messages=ASKED, stream=True))


def by_openai(url: str) -> object:
    return openai_client().with_options(base_url=url).chat.completions.create(model="large", messages=ASKED)


def by_openai_responses(url: str) -> object:
    return openai_client().with_options(base_url=url).responses.create(model="large", input="hello")


def by_genai(url: str) -> object:
    options = types.HttpOptions(base_url=url, timeout=int(TIMEOUT_S * 1000), client_args={"verify": False})
    with genai.Client(api_key="k", http_options=options) as client:
        return client.models.generate_content(model="gemini", contents="hello")


def by_genai_async(url: str) -> object:
    async def go() -> object:
        options = types.HttpOptions(base_url=url, timeout=int(TIMEOUT_S * 1000), client_args={"verify": False})
        async with genai.Client(api_key="k", http_options=options).aio as client:
            return await client.models.generate_content(model="gemini", contents="hello")

    return asyncio.run(go())


def by_aiohttp(url: str) -> object:
    async def go() -> object:
        limit = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=limit, raise_for_status=True) as session,
            session.post(url, json={}) as response,
        ):
            return await response.json()

    return asyncio.run(go())


@cache
def _boto() -> botocore.session.Session:
    session = botocore.session.get_session()
    session.set_credentials("a", "b")
    return session


def by_boto(url: str) -> object:
    """Bedrock speaks JSON and names its errors in a header."""
    config = botocore.config.Config(
        retries={"total_max_attempts": 1}, read_timeout=TIMEOUT_S, connect_timeout=TIMEOUT_S, proxies={}
    )
    client = _boto().create_client("bedrock-runtime", region_name="eu-west-1", endpoint_url=url, config=config)
    try:
        return client.converse(modelId="large", messages=[{"role": "user", "content": [{"text": "hello"}]}])
    finally:
        client.close()


def by_requests(url: str) -> object:
    with requests.Session() as session:
        session.trust_env = False
        response = session.post(url, json={}, timeout=TIMEOUT_S)
        response.raise_for_status()
        return response.json()


def by_urllib3(url: str) -> object:
    with urllib3.PoolManager(retries=False, timeout=TIMEOUT_S) as pool:
        response = pool.request("POST", url)
        if response.status >= 400:
            raise _Told(classify(response))
        return response.json()


class _Told(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


def by_httpx(url: str) -> object:
    return httpx.post(url, timeout=TIMEOUT_S, trust_env=False, verify=False).raise_for_status().json()


def by_httpx2(url: str) -> object:
    return httpx2.post(url, timeout=TIMEOUT_S, trust_env=False, verify=False).raise_for_status().json()


HTTP: dict[str, Call] = {
    "httpx": by_httpx,
    "httpx2": by_httpx2,
    "requests": by_requests,
    "urllib3": by_urllib3,
    "aiohttp": by_aiohttp,
}
VENDORS: dict[str, Call] = {
    "anthropic": by_anthropic,
    "anthropic stream": by_anthropic_stream,
    "openai": by_openai,
    "openai responses": by_openai_responses,
    "genai": by_genai,
    "genai async": by_genai_async,
    "boto": by_boto,
}
ALL = {**HTTP, **VENDORS}


def failure_of(call: Call, url: str) -> Failure:
    try:
        call(url)
    except _Told as told:
        return told.failure
    except Exception as error:
        return classify(error)
    raise AssertionError("the call should have failed")


def failed(call: Call, reply: Reply) -> Failure:
    with serving(otherwise=reply) as server:
        return failure_of(call, server.url)


STATUSES = {
    400: Category.INVALID_REQUEST,
    401: Category.AUTH,
    403: Category.PERMISSION,
    404: Category.NOT_FOUND,
    408: Category.TIMEOUT,
    409: Category.CONFLICT,
    412: Category.STALE_EVIDENCE,
    422: Category.INVALID_REQUEST,
    429: Category.RATE_LIMITED,
    500: Category.SERVER_ERROR,
    502: Category.SERVER_ERROR,
    503: Category.SERVER_ERROR,
    529: Category.OVERLOADED,
}


@pytest.mark.parametrize("client", ALL)
def test_a_status_without_a_word(client: str) -> None:
    found = {status: failed(ALL[client], answer(status, b"", media_type="")) for status in STATUSES}
    assert {status: failure.category for status, failure in found.items()} == STATUSES
    assert {failure.status_code for failure in found.values()} == set(STATUSES)


@pytest.mark.parametrize("client", ALL)
def test_retry_after(client: str) -> None:
    failure = failed(ALL[client], said(429, {"error": {"message": "slow down"}}, Retry_After="7"))
    assert (failure.category, failure.retry_after_s) == (Category.RATE_LIMITED, 7.0)
    assert failure.nothing_was_done


MISHAPS: dict[str, tuple[Callable[[], AbstractContextManager[str]], Category, bool, bool]] = {
    "refused": (misbehaving.refusing, Category.NETWORK, False, True),
    "reset": (lambda: misbehaving.serving(misbehaving.reset), Category.NETWORK, True, False),
    "dropped": (lambda: misbehaving.serving(misbehaving.drop), Category.NETWORK, True, False),
    "cut body": (lambda: misbehaving.serving(misbehaving.cut_body), Category.NETWORK, True, False),
    "no answer": (misbehaving.silent, Category.TIMEOUT, False, False),
}


FORGIVING = {"boto", "anthropic stream"}
"""Clients that take an answer which is no JSON for an empty one."""


@pytest.mark.parametrize(("client", "mishap"), [(c, m) for c in ALL for m in MISHAPS if (c, m) != ("boto", "cut body")])
def test_a_broken_connection(client: str, mishap: str) -> None:
    server, category, is_lost, is_proven = MISHAPS[mishap]
    with server() as url:
        failure = failure_of(ALL[client], url.rstrip("/"))
    assert (failure.category, failure.connection_was_lost, failure.nothing_was_done) == (category, is_lost, is_proven)


@pytest.mark.parametrize("client", sorted(set(ALL) - FORGIVING))
def test_an_answer_that_is_no_json(client: str) -> None:
    failure = failed(ALL[client], answer(200, b'{"half": ', media_type="application/json"))
    assert failure.category is Category.SCHEMA_MISMATCH


# What each vendor says in its own words


def google_error(status: int, word: str, message: str = "sorry", details: tuple[dict[str, Any], ...] = ()) -> Reply:
    body = {"error": {"code": status, "message": message, "status": word, "details": list(details)}}
    return said(status, body)


def aws_error(status: int, word: str, message: str = "sorry") -> Reply:
    body = json.dumps({"message": message}).encode()
    return answer(status, body, media_type="application/json", **{"x-amzn-ErrorType": word})


QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure"}
VIOLATED = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "50"}
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "44s"}
OVERLOADED_AT_OPENAI = openai_error("server_error", "server_overloaded")

WORDS: list[tuple[str, Reply, Category, Evidence]] = [
    ("anthropic", said(429, anthropic_error("rate_limit_error")), Category.RATE_LIMITED, Evidence.STRUCTURED_CODE),
    (
        "anthropic",
        said(429, anthropic_error("rate_limit_error"), anthropic_ratelimit_unified_status="rejected"),
        Category.RATE_LIMIT_WINDOW,
        Evidence.STRUCTURED_CODE,
    ),
    ("anthropic", said(529, anthropic_error("overloaded_error")), Category.OVERLOADED, Evidence.STRUCTURED_CODE),
    ("anthropic", said(401, anthropic_error("authentication_error")), Category.AUTH, Evidence.STRUCTURED_CODE),
    ("anthropic", said(403, anthropic_error("permission_error")), Category.PERMISSION, Evidence.STRUCTURED_CODE),
    ("anthropic", said(404, anthropic_error("not_found_error")), Category.NOT_FOUND, Evidence.STRUCTURED_CODE),
    ("anthropic", said(402, anthropic_error("billing_error")), Category.QUOTA_EXHAUSTED, Evidence.STRUCTURED_CODE),
    ("openai", said(429, openai_error("insufficient_quota", "insufficient_quota")), Category.QUOTA_EXHAUSTED,
     Evidence.STRUCTURED_CODE),
    ("openai", said(429, openai_error("requests", "rate_limit_exceeded")), Category.RATE_LIMITED,
     Evidence.STRUCTURED_CODE),
    ("openai", said(503, OVERLOADED_AT_OPENAI), Category.OVERLOADED, Evidence.STRUCTURED_CODE),
    ("openai", said(401, openai_error("invalid_request_error", "invalid_api_key")), Category.AUTH,
     Evidence.STRUCTURED_CODE),
    ("openai", said(404, openai_error("invalid_request_error", "model_not_found")), Category.NOT_FOUND,
     Evidence.STRUCTURED_CODE),
    ("openai", said(400, openai_error("invalid_request_error", "content_filter")), Category.CONTENT_REFUSED,
     Evidence.STRUCTURED_CODE),
    ("genai", google_error(429, "RESOURCE_EXHAUSTED"), Category.RATE_LIMITED, Evidence.STRUCTURED_CODE),
    ("genai", google_error(429, "RESOURCE_EXHAUSTED", details=({**QUOTA, "violations": [VIOLATED]},)),
     Category.RATE_LIMIT_WINDOW, Evidence.STRUCTURED_CODE),
    ("genai", google_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
     Category.OVERLOADED, Evidence.HTTP_STATUS),
    ("genai", google_error(403, "PERMISSION_DENIED"), Category.PERMISSION, Evidence.STRUCTURED_CODE),
    ("genai", google_error(400, "INVALID_ARGUMENT"), Category.INVALID_REQUEST, Evidence.HTTP_STATUS),
    ("genai async", google_error(429, "RESOURCE_EXHAUSTED"), Category.RATE_LIMITED, Evidence.STRUCTURED_CODE),
    ("boto", aws_error(429, "ThrottlingException"), Category.RATE_LIMITED, Evidence.STRUCTURED_CODE),
    ("boto", aws_error(429, "ModelNotReadyException"), Category.OVERLOADED, Evidence.STRUCTURED_CODE),
    ("boto", aws_error(403, "AccessDeniedException"), Category.PERMISSION, Evidence.STRUCTURED_CODE),
    ("boto", aws_error(403, "ExpiredTokenException"), Category.AUTH, Evidence.STRUCTURED_CODE),
    ("boto", aws_error(408, "ModelTimeoutException"), Category.TIMEOUT, Evidence.STRUCTURED_CODE),
    ("boto", aws_error(400, "ServiceQuotaExceededException"), Category.QUOTA_EXHAUSTED, Evidence.STRUCTURED_CODE),
    ("boto", aws_error(503, "ServiceUnavailableException"), Category.SERVER_ERROR, Evidence.HTTP_STATUS),
]  # fmt: skip


@pytest.mark.parametrize(("client", "reply", "category", "evidence"), WORDS)
def test_a_vendors_own_word(client: str, reply: Reply, category: Category, evidence: Evidence) -> None:
    failure = failed(ALL[client], reply)
    assert (failure.category, failure.evidence) == (category, evidence)


def test_googles_delay_is_read_from_the_body() -> None:
    failure = failed(by_genai, google_error(429, "RESOURCE_EXHAUSTED", details=(RETRY,)))
    assert failure.retry_after_s == 44.0


OVERFLOWS: list[tuple[str, Reply, tuple[int, int, int]]] = [
    (
        "anthropic",
        said(
            400,
            anthropic_error(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 188240 + 20000 > 200000, decrease input length or"
                " `max_tokens` and try again",
            ),
        ),
        (188_240, 200_000, 11_760),
    ),
    (
        "openai",
        said(
            400,
            openai_error(
                "invalid_request_error",
                "context_length_exceeded",
                "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (110000 in"
                " the messages, 20000 in the completion). Please reduce the length of the messages or completion.",
            ),
        ),
        (110_000, 128_000, 18_000),
    ),
    (
        "genai",
        google_error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        (1_200_000, 1_048_576, 0),
    ),
    (
        "boto",
        aws_error(
            400,
            "ValidationException",
            "The model returned the following errors: input length and `max_tokens` exceed context limit: 188240 +"
            " 20000 > 200000, decrease input length or `max_tokens` and try again",
        ),
        (188_240, 200_000, 11_760),
    ),
]


@pytest.mark.parametrize(
    ("client", "reply", "counts"), OVERFLOWS, ids=lambda value: value if type(value) is str else ""
)
def test_an_overflow_with_its_counts(client: str, reply: Reply, counts: tuple[int, int, int]) -> None:
    failure = failed(ALL[client], reply)
    assert failure.category is Category.CONTEXT_OVERFLOW
    assert failure.overflow is not None
    overflow = failure.overflow
    assert (overflow.input_tokens, overflow.limit_tokens, max(0, overflow.available_tokens)) == counts


def test_an_overload_in_the_middle_of_a_stream() -> None:
    body = f"event: error\ndata: {json.dumps(anthropic_error('overloaded_error'))}\n\n".encode()
    failure = failed(by_anthropic_stream, answer(200, body, media_type="text/event-stream"))
    assert (failure.category, failure.request_id) == (Category.OVERLOADED, "req_1")


def test_a_request_id_is_found() -> None:
    assert failed(by_anthropic, said(500, anthropic_error("api_error"))).request_id == "req_1"
    assert failed(by_openai, said(500, openai_error("server_error"), x_request_id="req_9")).request_id == "req_9"


@pytest.mark.parametrize("client", ["httpx", "requests", "aiohttp"])
def test_a_name_that_is_not_known(client: str) -> None:
    failure = failure_of(ALL[client], "http://nobody.invalid")
    assert (failure.category, failure.nothing_was_done) == (Category.NETWORK, True)


def test_a_connection_that_is_reset_while_it_is_kept_alive() -> None:
    with serving(said(200, {}), reset) as server, httpx2.Client() as client:
        client.post(server.url)
        failure = failure_of(client.post, server.url)
    assert (failure.category, failure.connection_was_lost) == (Category.NETWORK, True)


def test_what_is_not_http() -> None:
    for client in HTTP.values():
        assert failed(client, raw(b"this is not HTTP\r\n\r\n")).category is Category.NETWORK
