"""Real exceptions of httpx, requests, urllib3 and the standard library, made by a server that misbehaves."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager

import anyio
import httpx
import pytest
import requests
import urllib3

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.runtime.failures.signals import Response, classify
from tests.support import misbehaving_server as misbehaving

TIMEOUT_S = 0.3

Call = Callable[[str], object]
Server = Callable[[], AbstractContextManager[str]]


async def _async_httpx(url: str) -> None:
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
        (await client.get(url)).raise_for_status()


def _urllib3(url: str) -> object:
    with urllib3.PoolManager(retries=False, timeout=TIMEOUT_S) as pool:
        return pool.request("GET", url).data


def _urllib3_with_retries(url: str) -> object:
    retries = urllib3.Retry(1, backoff_factor=0)
    with urllib3.PoolManager(retries=retries, timeout=TIMEOUT_S) as pool:
        return pool.request("GET", url).data


def _requests(url: str) -> object:
    with requests.Session() as session:
        session.trust_env = False
        response = session.get(url, timeout=TIMEOUT_S)
        response.raise_for_status()
        return response.text


def _urllib(url: str) -> object:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=TIMEOUT_S) as response:
        return response.read()


CLIENTS: dict[str, Call] = {
    "httpx": lambda url: httpx.get(url, timeout=TIMEOUT_S, trust_env=False).raise_for_status(),
    "httpx async": lambda url: anyio.run(_async_httpx, url),
    "requests": _requests,
    "urllib3": _urllib3,
    "urllib3 with retries": _urllib3_with_retries,
    "urllib": _urllib,
}

# What happens, then: category, whether the connection was lost, whether it is proven that nothing was done.
MISHAPS: dict[str, tuple[Server, Category, bool | None, bool]] = {
    "refused": (misbehaving.refusing, Category.NETWORK, False, True),
    "reset": (lambda: misbehaving.serving(misbehaving.reset), Category.NETWORK, True, False),
    "dropped": (lambda: misbehaving.serving(misbehaving.drop), Category.NETWORK, True, False),
    "cut body": (lambda: misbehaving.serving(misbehaving.cut_body), Category.NETWORK, True, False),
    "cut chunks": (lambda: misbehaving.serving(misbehaving.cut_chunks), Category.NETWORK, True, False),
    "not HTTP": (lambda: misbehaving.serving(misbehaving.garbage), Category.NETWORK, None, False),
    "no answer": (misbehaving.silent, Category.TIMEOUT, False, False),
}


def failure_of(call: Call, url: str) -> Failure:
    try:
        call(url)
    except Exception as error:
        return classify(error)
    raise AssertionError("the call should have failed")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_broken_connection(client: str, mishap: str) -> None:
    server, category, is_lost, is_proven = MISHAPS[mishap]
    with server() as url:
        failure = failure_of(CLIENTS[client], url)
    assert (failure.category, failure.evidence) == (category, Evidence.EXCEPTION_TYPE)
    assert is_lost is None or failure.connection_was_lost is is_lost
    assert failure.nothing_was_done is is_proven
    assert failure.status_code is None


@pytest.mark.parametrize("client", ["httpx", "httpx async", "requests", "urllib"])
def test_an_error_status_is_read_from_the_exceptions_response(client: str) -> None:
    with misbehaving.serving(misbehaving.too_many_requests) as url:
        failure = failure_of(CLIENTS[client], url)
    assert (failure.category, failure.status_code, failure.retry_after_s) == (Category.RATE_LIMITED, 429, 7.0)


@pytest.mark.parametrize("client", ["httpx", "httpx async", "requests"])
def test_a_body_that_was_read_gives_its_code_and_message(client: str) -> None:
    with misbehaving.serving(misbehaving.too_many_requests) as url:
        failure = failure_of(CLIENTS[client], url)
    assert (failure.evidence, failure.message) == (Evidence.STRUCTURED_CODE, "slow down")


def test_a_body_that_was_not_read_is_left_alone() -> None:
    def read_later(url: str) -> None:
        with httpx.Client(trust_env=False) as client, client.stream("GET", url) as response:
            response.raise_for_status()

    with misbehaving.serving(misbehaving.too_many_requests) as url:
        failure = failure_of(read_later, url)
    assert (failure.category, failure.evidence) == (Category.RATE_LIMITED, Evidence.HTTP_STATUS)


def test_a_clients_response_object_counts_without_an_exception() -> None:
    with misbehaving.serving(misbehaving.too_many_requests) as url:
        answers = [httpx.get(url, trust_env=False), requests.get(url, timeout=5, proxies={"http": ""})]
    failures = [classify(answer) for answer in answers]
    assert [(failure.category, failure.retry_after_s, failure.message) for failure in failures] == [
        (Category.RATE_LIMITED, 7.0, "slow down")
    ] * 2


@pytest.mark.parametrize("client", CLIENTS)
def test_failed_tls_handshake_proves_nothing_done(client: str) -> None:
    with misbehaving.serving(misbehaving.garbage) as url:
        failure = failure_of(CLIENTS[client], url.replace("http://", "https://"))
    assert failure.category is Category.NETWORK
    assert failure.nothing_was_done


@pytest.mark.parametrize("code", [401, 429, 529])
def test_error_in_a_begun_answer_proves_nothing(code: int) -> None:
    said = {"error": {"code": code, "message": "no"}}
    assert classify(Response(code, body=said)).nothing_was_done
    failure = classify(Response(200, body=said))
    assert failure.category is classify(Response(code, body=said)).category
    assert not failure.nothing_was_done
