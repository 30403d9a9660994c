"""The door to a WSGI application: bodies, headers and queries that WSGI would get wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpx
import pytest

from recovery_ops.server.asgi_apps import SHORT_BYTES, Begun, Message, WsgiDoor

LIMIT = 1000


def echo(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Answer with what arrived."""
    names = ("CONTENT_LENGTH", "QUERY_STRING", "HTTP_X_FORWARDED_FOR", "HTTP_TRANSFER_ENCODING")
    seen = {name: environ[name] for name in names if name in environ}
    seen["body"] = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
    start_response("200 OK", [("content-type", "application/json")])
    return [json.dumps(seen).encode()]


async def ask(**request: Any) -> httpx.Response:
    door = WsgiDoor(echo, threads=1, max_body_bytes=LIMIT)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(door)) as client:
        return await client.post("http://server/", **request)


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_a_chunked_body_arrives_whole_and_with_its_length() -> None:
    seen = asyncio.run(ask(content=chunks(b"one ", b"two"))).json()
    assert (seen["body"], seen["CONTENT_LENGTH"]) == ("one two", "7")
    assert "HTTP_TRANSFER_ENCODING" not in seen


@pytest.mark.parametrize("body", [b"x" * (LIMIT + 1), chunks(b"x" * LIMIT, b"x")], ids=["announced", "chunked"])
def test_too_large_a_body_is_refused_in_json(body: Any) -> None:
    answer = asyncio.run(ask(content=body))
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "Send at most 1000 bytes."


def test_a_header_with_an_underscore_cannot_pass_for_the_proxys() -> None:
    assert "HTTP_X_FORWARDED_FOR" not in asyncio.run(ask(headers={"X_Forwarded_For": "10.0.0.1"})).json()


def test_a_query_in_raw_bytes_is_answered() -> None:
    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    async def no_body() -> Message:
        return {"type": "http.request"}

    asked = {**scope(), "query_string": "q=café%20x&y=1+2".encode()}
    asyncio.run(WsgiDoor(echo, threads=1, max_body_bytes=LIMIT)(asked, no_body, keep))
    assert json.loads(sent[1]["body"])["QUERY_STRING"] == "q=caf%C3%A9%20x&y=1+2"


def test_a_slow_sender_holds_no_thread() -> None:
    async def run() -> int:
        door = WsgiDoor(echo, threads=1, max_body_bytes=LIMIT)
        slow = asyncio.create_task(door(scope(), asyncio.Event().wait, swallow))  # type: ignore[arg-type]
        await asyncio.sleep(0)  # it is waiting for its body now
        async with httpx.AsyncClient(transport=httpx.ASGITransport(door)) as client:
            status = (await client.get("http://server/")).status_code
        slow.cancel()
        return status

    assert asyncio.run(run()) == 200


def test_long_bodies_share_what_there_is_and_short_ones_are_always_taken() -> None:
    long, short = b"x" * (SHORT_BYTES + 600), b"x" * SHORT_BYTES

    async def run() -> list[int]:
        door = WsgiDoor(echo, threads=1, max_body_bytes=len(long), most_held_bytes=1000)
        parts: list[Message] = [{"type": "http.request", "body": long, "more_body": True}]

        async def drip() -> Message:
            if not parts:
                await asyncio.Event().wait()
            return parts.pop()

        slow = asyncio.create_task(door(scope(), drip, swallow))
        await asyncio.sleep(0)  # it holds 600 of the 1000 now
        async with httpx.AsyncClient(transport=httpx.ASGITransport(door)) as client:
            held = [(await client.post("http://server/", content=one)).status_code for one in (long, short)]
            slow.cancel()
            await asyncio.wait([slow])
            return [*held, *[(await client.post("http://server/", content=long)).status_code for _ in range(3)]]

    assert asyncio.run(run()) == [503, 200, 200, 200, 200]


def test_a_client_that_left_is_not_answered() -> None:
    async def leave() -> Message:
        return {"type": "http.disconnect"}

    async def refuse(message: Message) -> None:
        pytest.fail("answered a client that is gone")

    asyncio.run(WsgiDoor(echo, threads=1, max_body_bytes=LIMIT)(scope(), leave, refuse))


def scope() -> Message:
    return {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": [], "http_version": "1.1"}


async def swallow(message: Message) -> None:
    """Take an answer that nobody reads."""


# -- what is begun in the caller's own step ----------------------------------------------------------------------------
def test_what_waits_for_nothing_is_done_where_it_is_begun() -> None:
    sent: list[str] = []

    async def send() -> None:
        sent.append("all")

    assert (Begun(send()).is_done, sent) == (True, ["all"])  # no event loop runs here


def test_what_has_to_wait_goes_on_where_it_stands() -> None:
    async def send(room: asyncio.Event, steps: list[str]) -> None:
        steps.append("first")
        await room.wait()
        steps.append("second")
        await asyncio.sleep(0)
        steps.append("third")

    async def ask() -> list[str]:
        room, steps = asyncio.Event(), list[str]()
        begun = Begun(send(room, steps))
        assert (begun.is_done, steps) == (False, ["first"])
        rest = asyncio.ensure_future(_awaited(begun))
        await asyncio.sleep(0)
        assert steps == ["first"]
        room.set()
        await rest
        assert begun.is_done
        return steps

    assert asyncio.run(ask()) == ["first", "second", "third"]


@pytest.mark.parametrize("room_comes", [False, True], ids=["cancelled before its task ran", "cancelled while it waits"])
def test_a_cancellation_reaches_what_was_begun(room_comes: bool) -> None:
    ended: list[str] = []

    async def send() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def ask() -> None:
        rest = asyncio.ensure_future(_awaited(Begun(send())))
        if room_comes:
            await asyncio.sleep(0)
        rest.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rest

    asyncio.run(ask())
    assert ended == (["cancelled"] if room_comes else [])


@pytest.mark.parametrize("waits", [False, True])
def test_what_it_raises_is_raised(waits: bool) -> None:
    async def send() -> None:
        if waits:
            await asyncio.sleep(0)
        raise OSError("the connection is gone")

    async def ask() -> None:
        await Begun(send())

    with pytest.raises(OSError, match="gone"):
        asyncio.run(ask())


async def _awaited(begun: Begun) -> None:
    await begun
