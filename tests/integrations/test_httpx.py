"""The transports for httpx and httpx2, under real clients, against a real server that misbehaves."""

from __future__ import annotations

import gzip
import importlib
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import anyio
import pytest

from recovery_ops.rules.enums import Adjustment, Category
from recovery_ops.rules.events import BreakerStateChanged, Exhausted, FailureClassified, GateClosed, RetryScheduled
from recovery_ops.runtime import CircuitOpen, Settings, classify
from recovery_ops.runtime.integrations import http_calls
from recovery_ops.runtime.testing import Lab
from tests.support.http_server import Reply, Request, answer, document, raw, reset, serving

pytestmark = pytest.mark.default  # httpx is in the main environment too; httpx2 is only in the integrations' own

LIBRARIES = [name for name in ("httpx", "httpx2") if find_spec(name) is not None]
OK = document({"price": 7})
CUT = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")


class Client:
    """A sync or an async client with our transport; both are called the same way."""

    def __init__(self, library: ModuleType, *, is_async: bool, lab: Lab, **options: Any) -> None:
        self.library, self.is_async = library, is_async
        self.integration = importlib.import_module(f"recovery_ops.runtime.integrations.{library.__name__}")
        kind = self.integration.AsyncRecoveryTransport if is_async else self.integration.RecoveryTransport
        self.lab = lab
        self.make: Callable[[], Any] = lambda: kind(lab.recovery, **{"source": "main_agent", **options})

    def send(self, method: str, url: str, *, times: int = 1, **said: Any) -> Any:
        """The last of so many responses, read; all by one client."""
        if self.is_async:
            return anyio.run(self._send, method, url, times, said)
        with self.library.Client(transport=self.make(), timeout=5) as client:
            return [client.request(method, url, **said) for _ in range(times)][-1]

    async def _send(self, method: str, url: str, times: int, said: dict[str, Any]) -> Any:
        async with self.library.AsyncClient(transport=self.make(), timeout=5) as client:
            return [await client.request(method, url, **said) for _ in range(times)][-1]


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=[(name, is_async) for name in LIBRARIES for is_async in (False, True)], ids=str)
def client(request: pytest.FixtureRequest, lab: Lab) -> Client:
    name, is_async = request.param
    return Client(importlib.import_module(name), is_async=is_async, lab=lab)


def again(client: Client, **options: Any) -> Client:
    """The same kind of client with other options."""
    return Client(client.library, is_async=client.is_async, lab=client.lab, **options)


def test_what_succeeds_is_counted_and_says_nothing(client: Client, lab: Lab) -> None:
    with serving(OK) as server:
        response = client.send("GET", server.url)
    assert (response.status_code, response.json()) == (200, {"price": 7})
    assert lab.events == []
    (operation,) = lab.recovery.operations.values()
    assert operation.name == f"http:{server.url.removeprefix('http://')}"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_failing_status_is_retried(client: Client, lab: Lab, status: int) -> None:
    with serving(answer(status), answer(status), OK) as server:
        assert client.send("GET", server.url).status_code == 200
        assert len(server.requests) == 3
    assert lab.waits == [0.5, 1.0]
    assert [fact.status_code for fact in lab.events_of(FailureClassified)] == [status, status]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 412, 422])
def test_other_errors_are_answers(client: Client, lab: Lab, status: int) -> None:
    with serving(answer(status, b"no")) as server:
        assert client.send("GET", server.url).status_code == status
    assert lab.events == []


def test_retry_after_closes_the_gate_and_is_waited_out(client: Client, lab: Lab) -> None:
    with serving(answer(429, Retry_After="7"), OK) as server:
        assert client.send("GET", server.url).status_code == 200
    assert lab.waits == [7.0]
    assert [fact.wait_s for fact in lab.events_of(GateClosed)] == [7.0]


def test_background_is_told_at_once_and_not_sent_through_a_closed_gate(client: Client, lab: Lab) -> None:
    client = again(client, source="nightly", operation="prices")
    with serving(answer(429, b"later", Retry_After="7"), OK) as server:
        assert client.send("GET", server.url).text == "later"
        with pytest.raises(client.library.ConnectError) as caught:
            client.send("GET", server.url)
        assert len(server.requests) == 1
    assert isinstance(caught.value, client.integration.ServerAskedForPause)
    assert caught.value.request.method == "GET"
    assert caught.value.retry_at is not None
    assert classify(caught.value).category is Category.RATE_LIMITED
    assert lab.waits == []


def test_the_last_response_comes_back_unchanged(client: Client, lab: Lab) -> None:
    body = gzip.compress(b'{"error": {"message": "we are down"}}')
    down = answer(503, body, media_type="application/json", Content_Encoding="gzip", X_Trace="t1")
    with serving(otherwise=down) as server:
        response = client.send("GET", server.url)
        assert len(server.requests) == 4
    assert (response.status_code, response.headers["x-trace"]) == (503, "t1")
    assert response.json() == {"error": {"message": "we are down"}}
    assert [fact.message for fact in lab.events_of(FailureClassified)] == ["we are down"] * 4
    assert lab.events_of(Exhausted)[0].attempts == 4


def test_a_body_that_is_larger_than_the_look_is_whole(client: Client) -> None:
    body = bytes(range(256)) * 1024
    with serving(otherwise=answer(500, body)) as server:
        response = again(client, max_retries=0).send("GET", server.url)
    assert response.content == body
    assert len(body) > 3 * http_calls.LONGEST_LOOK


def test_an_error_body_that_breaks_off_is_met_where_it_is_read(client: Client, lab: Lab) -> None:
    half = raw(b"HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nabc")
    with serving(otherwise=half) as server, pytest.raises(client.library.RemoteProtocolError):
        client.send("GET", server.url)
    assert {fact.category for fact in lab.events_of(FailureClassified)} == {Category.SERVER_ERROR}


def test_a_reset_is_retried_on_a_fresh_connection(client: Client, lab: Lab) -> None:
    with serving(OK, reset, OK, OK) as server:
        assert client.send("GET", server.url, times=3).status_code == 200
        connections = [request.connection for request in server.requests]
    # 1: pooled, 2: its reset, 3: fresh and used once, 4: the pool's own again
    assert connections[:2] == [1, 1]
    assert len(set(connections)) == 3
    assert [fact.adjustment for fact in lab.events_of(RetryScheduled)] == [Adjustment.DISABLE_KEEPALIVE]


def test_a_given_transport_and_its_own_fresh_one(client: Client) -> None:
    kind = client.library.AsyncHTTPTransport if client.is_async else client.library.HTTPTransport
    made = []

    def fresh() -> Any:
        made.append(kind())
        return made[-1]

    with serving(reset, OK) as server:
        assert again(client, transport=kind(), fresh=fresh).send("GET", server.url).status_code == 200
    assert len(made) == 1


def test_what_never_answers_ends_with_the_librarys_own_error(client: Client, lab: Lab) -> None:
    with serving(otherwise=reset) as server:
        with pytest.raises((client.library.ReadError, client.library.RemoteProtocolError)) as caught:
            client.send("GET", server.url)
        assert len(server.requests) == 4
    assert caught.value.request.method == "GET"
    assert lab.events_of(Exhausted)[0].category is Category.NETWORK


@pytest.mark.parametrize(
    ("method", "said", "calls"),
    [
        ("HEAD", {}, 2),
        ("PUT", {"content": b"x"}, 2),
        ("DELETE", {}, 2),
        ("POST", {"content": b"x"}, 1),
        ("PATCH", {"content": b"x"}, 1),
        ("POST", {"content": b"x", "headers": {"Idempotency-Key": "k1"}}, 2),
        ("POST", {"content": b"x", "extensions": {"is_idempotent": True}}, 2),
        ("PUT", {"content": b"x", "extensions": {"is_idempotent": False}}, 1),
    ],
)
def test_only_what_may_be_done_twice_is_done_twice(client: Client, method: str, said: Any, calls: int) -> None:
    with serving(answer(500), OK) as server:
        client.send(method, server.url, **said)
        assert len(server.requests) == calls
        assert {request.body for request in server.requests} == {said.get("content", b"")}


@pytest.mark.parametrize(("body", "calls"), [(b'{"error": {"type": "overloaded_error"}}', 2), (b"upstream reset", 1)])
def test_post_is_repeated_after_proven_overload(client: Client, body: bytes, calls: int) -> None:
    with serving(answer(503, body, media_type="application/json"), OK) as server:
        client.send("POST", server.url, content=b"x")
        assert len(server.requests) == calls


def test_retried_response_is_not_retried_by_an_outer_guard(client: Client, lab: Lab) -> None:
    with serving(otherwise=answer(500)) as server:

        @lab.recovery.guard("outer", idempotent=True)
        def outer() -> None:
            client.send("GET", server.url).raise_for_status()

        with pytest.raises(client.library.HTTPStatusError):
            outer()
        assert len(server.requests) == 4


def test_the_developer_says_what_may_be_done_twice(client: Client) -> None:
    client = again(client, is_idempotent=lambda request: request.url.path == "/search")
    with serving(answer(500), OK, answer(500)) as server:
        assert client.send("POST", f"{server.url}/search").status_code == 200
        assert client.send("GET", f"{server.url}/pay").status_code == 500


@pytest.mark.parametrize("first", [answer(500), answer(503), answer(429, Retry_After="1"), reset])
def test_a_body_that_is_spent_is_not_sent_again(client: Client, lab: Lab, first: Reply) -> None:
    def parts() -> Iterator[bytes]:
        yield b"abc"

    async def parts_async() -> Any:
        yield b"abc"

    body: dict[str, Any] = {
        "content": parts_async() if client.is_async else parts(),
        "headers": {"Content-Length": "3"},
    }
    with serving(first, OK) as server:
        try:
            assert client.send("PUT", server.url, **body).status_code >= 400
        except client.library.TransportError:
            assert first is reset
        assert len(server.requests) == 1
    assert lab.waits == []


def test_the_breaker_opens_and_nothing_is_sent(client: Client, lab: Lab) -> None:
    client = again(client, operation="prices", max_retries=0, settings=Settings(consecutive_failures=2))
    with serving(otherwise=answer(500)) as server:
        client.send("GET", server.url, times=2)
        with pytest.raises(client.library.ConnectError) as caught:
            client.send("GET", server.url)
        assert len(server.requests) == 2
    assert isinstance(caught.value, client.integration.BreakerOpen)
    assert isinstance(caught.value, CircuitOpen)
    assert (caught.value.operation, caught.value.breaker) == ("prices", "prices")
    assert len(lab.events_of(BreakerStateChanged)) == 1


def test_a_run_without_time_left_sends_nothing(client: Client, lab: Lab) -> None:
    client = again(client, operation="prices")
    with serving(answer(503, Retry_After="1"), OK) as server, lab.recovery.run(timeout=0.5):
        assert client.send("GET", server.url).status_code == 503
        lab.clock.push(2.0)
        with pytest.raises(client.library.ConnectTimeout) as caught:
            client.send("GET", server.url)
    assert isinstance(caught.value, client.integration.NoTimeLeft)


def test_an_attempt_may_take_what_is_left_of_the_run(client: Client, lab: Lab) -> None:
    limits: list[dict[str, float]] = []

    def note(request: Any) -> Any:
        limits.append(dict(request.extensions["timeout"]))
        return client.library.Response(500 if len(limits) == 1 else 200)

    mock = client.library.MockTransport(note)
    with lab.recovery.run(timeout=3.0):
        again(client, transport=mock, operation="prices").send("GET", "http://prices.example")
    assert limits == [dict.fromkeys(("connect", "read", "write", "pool"), 5), {**limits[1]}]
    assert limits[1] == dict.fromkeys(("connect", "read", "write", "pool"), 2.5)


@pytest.mark.parametrize("own", [2.0, 2.5, 3.0, None])
def test_request_keeps_its_own_shorter_timeout(client: Client, lab: Lab, own: float | None) -> None:
    limits: list[dict[str, float | None]] = []

    def note(request: Any) -> Any:
        limits.append(dict(request.extensions["timeout"]))
        return client.library.Response(500 if len(limits) == 1 else 200)

    mock, given = client.library.MockTransport(note), client.library.Timeout(9.0, read=own)
    with lab.recovery.run(timeout=3.0):
        again(client, transport=mock, operation="prices").send("GET", "http://prices.example", timeout=given)
    left_s = dict.fromkeys(("connect", "write", "pool"), 2.5)
    assert limits[1] == {**left_s, "read": min(own or 9.0, 2.5)}


def test_a_stream_is_handed_over_unread(client: Client) -> None:
    heard: list[bytes] = []

    def slowly(connection: Any, request: Request) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        assert heard_first.wait(5)
        connection.sendall(b"3\r\ntwo\r\n0\r\n\r\n")
        return True

    heard_first = threading.Event()

    def hear(chunk: bytes) -> None:
        heard.append(chunk)
        heard_first.set()

    async def read_async(url: str) -> None:
        async with (
            client.library.AsyncClient(transport=client.make()) as made,
            made.stream("GET", url) as response,
        ):
            async for chunk in response.aiter_raw():
                hear(chunk)

    with serving(slowly) as server:
        if client.is_async:
            anyio.run(read_async, server.url)
        else:
            with client.library.Client(transport=client.make()) as made, made.stream("GET", server.url) as response:
                for chunk in response.iter_raw():
                    hear(chunk)
    assert b"".join(heard) == b"onetwo"


def test_an_answer_that_breaks_off_is_told_and_counted_but_not_asked_for_again(client: Client, lab: Lab) -> None:
    with serving(otherwise=CUT) as server:
        with pytest.raises(client.library.RemoteProtocolError):
            again(client, operation="prices").send("GET", server.url)
        assert len(server.requests) == 1
    (fact,) = lab.events_of(FailureClassified)
    assert (fact.operation, fact.category, fact.retryable) == ("prices", Category.NETWORK, False)


def test_hosts_are_not_remembered_without_end(client: Client, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_calls, "MOST_HOSTS", 2)
    asked: list[str] = []

    def note(request: Any) -> Any:
        asked.append(request.url.host)
        return client.library.Response(500)

    mock = client.library.MockTransport(note)
    client = again(client, transport=mock, max_retries=1)
    transport = client.make()
    client.make = lambda: transport
    for host in ("a", "b", "c", "a"):
        client.send("GET", f"http://{host}.example")
    assert asked == ["a.example"] * 2 + ["b.example"] * 2 + ["c.example"] + ["a.example"] * 2
    assert set(lab.recovery.operations) == {"http:a.example", "http:b.example"}


def test_the_request_names_its_operation(client: Client, lab: Lab) -> None:
    with serving(OK) as server:
        client.send("GET", server.url, extensions={"operation": "quotes"})
    assert set(lab.recovery.operations) == {"quotes"}


def test_userinfo_is_not_part_of_a_name(client: Client, lab: Lab) -> None:
    with serving(OK) as server:
        client.send("GET", server.url.replace("http://", "http://ann:secret@"))
    assert "secret" not in next(iter(lab.recovery.operations))


def test_a_runtime_that_is_off_lets_everything_through(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    client = Client(client.library, is_async=client.is_async, lab=Lab())
    with serving(answer(503, b"down")) as server:
        assert client.send("GET", server.url).text == "down"
        with pytest.raises(client.library.HTTPError):
            client.send("GET", "http://127.0.0.1:9")


@pytest.mark.parametrize("library", [name for name in ("asyncio", "trio") if find_spec(name) is not None])
def test_under_each_task_library_it_recovers(lab: Lab, library: str) -> None:
    import httpx

    from recovery_ops.runtime.integrations.httpx import AsyncRecoveryTransport

    async def go(url: str) -> int:
        transport = AsyncRecoveryTransport(lab.recovery, source="main_agent", attempt_timeout=5.0)
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.get(url)).status_code

    with serving(answer(503), reset, OK) as server:
        assert anyio.run(go, server.url, backend=library) == 200
    assert lab.waits == [0.5, 1.0]


def test_a_cancelled_request_closes_what_it_held(lab: Lab) -> None:
    closed: list[int] = []

    async def go() -> None:
        import httpx

        from recovery_ops.runtime.integrations.httpx import AsyncRecoveryTransport

        class Body(httpx.AsyncByteStream):
            async def __aiter__(self) -> Any:
                yield b"down"

            async def aclose(self) -> None:
                closed.append(1)

        async def fail(request: httpx.Request) -> httpx.Response:
            return httpx.Response(500, stream=Body())

        class Waiting(type(lab.waker)):  # type: ignore[misc]
            async def wait_async(self, delay_s: float, since: int) -> Any:
                scope.cancel()
                await anyio.sleep(30)

        lab.recovery.waker = Waiting(lab.clock)
        transport = AsyncRecoveryTransport(lab.recovery, httpx.MockTransport(fail), source="main_agent")
        with anyio.CancelScope() as scope:
            async with httpx.AsyncClient(transport=transport) as client:
                await client.get("http://prices.example")

    anyio.run(go)
    assert closed == [1]


def test_connections_are_given_back(client: Client) -> None:
    with serving(*[answer(503)] * 40, otherwise=OK) as server:
        kind = client.library.AsyncHTTPTransport if client.is_async else client.library.HTTPTransport
        narrow = kind(limits=client.library.Limits(max_connections=1))
        patient = Settings(consecutive_failures=100, minimum_number_of_calls=100)
        client = again(client, transport=narrow, settings=patient)
        assert [client.send("GET", server.url).status_code for _ in range(3)] == [503, 503, 503]
