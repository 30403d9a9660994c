"""What gRPC and MCP raise: real servers in this process, real channels and sessions to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
import pytest
from mcp import MCPError

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category
from recovery_ops.runtime import classify
from tests.support import misbehaving_server as misbehaving

CODES = {
    "UNAVAILABLE": Category.NETWORK,
    "DEADLINE_EXCEEDED": Category.TIMEOUT,
    "RESOURCE_EXHAUSTED": Category.RATE_LIMITED,
    "UNAUTHENTICATED": Category.AUTH,
    "PERMISSION_DENIED": Category.PERMISSION,
    "NOT_FOUND": Category.NOT_FOUND,
    "ABORTED": Category.CONFLICT,
    "ALREADY_EXISTS": Category.CONFLICT,
    "INVALID_ARGUMENT": Category.INVALID_REQUEST,
    "FAILED_PRECONDITION": Category.INVALID_REQUEST,
    "OUT_OF_RANGE": Category.INVALID_REQUEST,
    "UNIMPLEMENTED": Category.INVALID_REQUEST,
    "INTERNAL": Category.SERVER_ERROR,
    "DATA_LOSS": Category.SERVER_ERROR,
    "UNKNOWN": Category.SERVER_ERROR,
    "CANCELLED": Category.CANCELLED,
}


class Aborting(grpc.GenericRpcHandler):
    """Answers each method by the code that it is named after."""

    def service(self, call: Any) -> Any:
        word = call.method.rpartition("/")[2]

        def abort(request: bytes, context: Any) -> bytes:
            context.abort(grpc.StatusCode[word], "sorry")
            return b""

        return grpc.unary_unary_rpc_method_handler(abort)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=(Aborting(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(None).wait()


def failure_of(address: str, method: str, *, timeout_s: float = 5.0) -> Failure:
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(f"/prices/{method}")(b"", timeout=timeout_s)
        except grpc.RpcError as error:
            return classify(error)
    raise AssertionError("the call should have failed")


def async_failure_of(address: str, method: str) -> Failure:
    async def go() -> Failure:
        async with grpc.aio.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            try:
                await channel.unary_unary(f"/prices/{method}")(b"", timeout=5.0)
            except grpc.RpcError as error:
                return classify(error)
        raise AssertionError("the call should have failed")

    return asyncio.run(go())


def test_each_status_of_grpc(address: str) -> None:
    assert {word: failure_of(address, word).category for word in CODES} == CODES


def test_each_status_of_grpc_in_tasks(address: str) -> None:
    assert {word: async_failure_of(address, word).category for word in CODES} == CODES


def test_a_grpc_server_that_is_away() -> None:
    with misbehaving.refusing() as url:
        failure = failure_of(url.removeprefix("http://").rstrip("/"), "X")
    assert failure.category is Category.NETWORK


def test_a_grpc_server_that_is_silent() -> None:
    with misbehaving.silent() as url:
        failure = failure_of(url.removeprefix("http://").rstrip("/"), "X", timeout_s=0.3)
    assert failure.category is Category.TIMEOUT


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (-32700, Category.INVALID_REQUEST),
        (-32600, Category.INVALID_REQUEST),
        (-32601, Category.NOT_FOUND),
        (-32602, Category.INVALID_REQUEST),
        (-32603, Category.SERVER_ERROR),
        (-32000, Category.NETWORK),
        (-32001, Category.TIMEOUT),
        (-32002, Category.NOT_FOUND),
        (429, Category.RATE_LIMITED),
    ],
)
def test_an_error_of_mcp(code: int, category: Category) -> None:
    assert classify(MCPError(code, "sorry")).category is category


def test_an_error_of_mcp_that_says_more_in_its_data() -> None:
    error = MCPError(-32603, "sorry", data={"error": {"kind": "rate_limited"}, "retry_after_ms": 5})
    assert classify(error).category is Category.RATE_LIMITED
