"""What ASGI doors are made of: the shapes that travel, a small JSON answer, and the door to a WSGI application."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from a2wsgi import WSGIMiddleware

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SHORT_BYTES = 64 * 2**10
"""Bodies of this length are always taken: forms, and nearly all that programs send."""
MOST_HELD_BYTES = 128 * 2**20
"""What longer bodies may have of a process's memory together, from their first byte to their answer."""

_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))


class _TooLarge(Exception):
    """The body is longer than we take, announced or not."""


class _TooMuch(Exception):
    """So many long bodies wait at once that no further one is taken now."""


class _Gone(Exception):
    """The client left before its request was whole."""


class Begun:
    """An awaitable that has run as far as it could without waiting; `is_done` where that was to its end.

    A server's `send` mostly hands bytes to a socket and waits for nothing. Whoever sends to a thousand clients at once
    can then do so in one step of the event loop, where a task for each of them would cost more than the sending.
    What has to wait is awaited, from any task of the same loop, and goes on where it stands. Raises what it raises.
    """

    __slots__ = ("_steps", "_waits_for", "is_done")

    def __init__(self, work: Awaitable[None]) -> None:
        self._steps = work.__await__()
        self._waits_for: Any = None
        self.is_done = False
        try:
            self._waits_for = next(self._steps)
        except StopIteration:
            self.is_done = True

    def __await__(self) -> Generator[Any, Any, None]:
        while not self.is_done:
            try:
                yield self._waits_for
            except BaseException as error:  # above all a cancellation: it belongs where the work stands
                self._go_on(partial(self._steps.throw, error))
            else:
                self._go_on(partial(next, self._steps))

    def _go_on(self, step: Callable[[], Any]) -> None:
        try:
            self._waits_for = step()
        except StopIteration:
            self.is_done = True


class WsgiDoor:
    """A WSGI application behind ASGI, at most `threads` requests at once.

    The threads stay, and with them their database connections. Bodies are read whole before a thread is taken: a slow
    sender holds none, and a chunked body, which WSGI would see as empty, gets its length. Who sends is not known before
    the body is whole, so what is longer than `SHORT_BYTES` shares `most_held_bytes` with all others, else 503.
    """

    def __init__(
        self,
        wsgi: Callable[..., Iterable[bytes]],
        *,
        threads: int,
        max_body_bytes: int,
        most_held_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        # a2wsgi types the messages one by one; ours are the plain mappings that every server passes.
        self._bridge = cast("Any", WSGIMiddleware(cast("Any", wsgi), workers=threads))
        self._max_body_bytes = max_body_bytes
        self._room_bytes = most_held_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        try:
            await self._answer(body, scope, receive, send)
        finally:
            self._room_bytes += _long_bytes(body)

    async def _answer(self, body: bytearray, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._read(body, scope, receive)
        except _Gone:
            return
        except _TooMuch:
            detail = "Too many long bodies are on their way at once. Try again in a second."
            await answer(send, 503, {"title": "Busy", "status": 503, "detail": detail}, is_problem=True)
            return
        except _TooLarge:
            detail = f"Send at most {self._max_body_bytes} bytes."
            await answer(send, 413, {"title": "Body too large", "status": 413, "detail": detail}, is_problem=True)
            return
        pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self._bridge(_for_wsgi(scope, len(body)), replay, send)

    def shut_down(self) -> None:
        """Take no more requests; each thread ends as soon as its own is answered."""
        cast("ThreadPoolExecutor", self._bridge.executor).shutdown(wait=False, cancel_futures=True)

    async def _read(self, body: bytearray, scope: Scope, receive: Receive) -> None:
        """Put the whole body there, and take the room that it needs from what all share."""
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._max_body_bytes:
            raise _TooLarge
        has_more = True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            before = _long_bytes(body)
            body += message.get("body", b"")
            self._room_bytes -= _long_bytes(body) - before
            if len(body) > self._max_body_bytes:
                raise _TooLarge
            if self._room_bytes < 0 and len(body) > SHORT_BYTES:
                raise _TooMuch
            has_more = message.get("more_body", False)


def _long_bytes(body: bytearray) -> int:
    return max(0, len(body) - SHORT_BYTES)


def _for_wsgi(scope: Scope, body_bytes: int) -> Scope:
    """Return the scope with what WSGI cannot carry put right.

    `X_Forwarded_For` and `X-Forwarded-For` are one name to WSGI, so the first could pass for what only a proxy may
    say; and a query string there is ASCII.
    """
    replaced = {b"content-length", b"transfer-encoding"}
    headers = [(name, value) for name, value in scope["headers"] if b"_" not in name and name not in replaced]
    headers.append((b"content-length", str(body_bytes).encode()))
    return {**scope, "headers": headers, "query_string": quote(scope["query_string"], safe=_PRINTABLE).encode()}


async def answer(send: Send, status: int, document: Mapping[str, object], *, is_problem: bool = False) -> None:
    """Send a small JSON document; `is_problem` marks it as RFC 9457's kind; 429 and 503: come again in a second."""
    body = json.dumps(document).encode()
    headers = [
        (b"content-type", b"application/problem+json" if is_problem else b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status in (429, 503):
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
