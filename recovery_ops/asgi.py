"""The one server entry point: sends each request to the door it belongs to.

Facts and streams are plain ASGI: nothing of Django's stands between their socket and their answer. Everything else is
Django in a pool of threads that keep their database connections, which is two to three times as quick as its ASGI
handler.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, cast
from urllib.parse import quote

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")

from a2wsgi import WSGIMiddleware
from django.conf import settings
from django.core.wsgi import get_wsgi_application

_django = get_wsgi_application()  # sets Django up: everything below may import models

from events import live, receiver
from recovery_ops.control import stream
from recovery_ops.readiness import NotReady, Readiness

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))


class BodyTooLarge(Exception):
    """A body of more than `limit` bytes was announced or sent."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes")
        self.limit = limit


class Gone(Exception):
    """The client left before its request was whole."""


class DjangoDoor:
    """Django's WSGI application behind ASGI, at most `threads` requests at once.

    Bodies are read whole before a thread is taken: a slow sender holds no thread, and a chunked body, which WSGI would
    see as empty, gets its length.
    """

    def __init__(self, *, threads: int, max_body_bytes: int) -> None:
        self._bridge = cast("Any", WSGIMiddleware(cast("Any", _django), workers=threads))
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._read(scope, receive)
        except Gone:
            return
        except BodyTooLarge as error:
            detail = f"Send at most {error.limit} bytes."
            await answer(send, 413, {"title": "Body too large", "status": 413, "detail": detail}, problem=True)
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self._bridge(_for_wsgi(scope, len(body)), replay, send)

    def shut_down(self) -> None:
        """Take no more requests; the threads end as soon as theirs are answered."""
        cast("ThreadPoolExecutor", self._bridge.executor).shutdown(wait=False, cancel_futures=True)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if int(announced) > self._max_body_bytes:
            raise BodyTooLarge(self._max_body_bytes)
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                raise BodyTooLarge(self._max_body_bytes)
            more = message.get("more_body", False)
        return bytes(body)


def _for_wsgi(scope: Scope, body_bytes: int) -> Scope:
    """Return the scope with what WSGI cannot carry put right.

    `X_Forwarded_For` and `X-Forwarded-For` are one name to WSGI, so the first could pass for what only a proxy may
    say; and a query string there is ASCII.
    """
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if b"_" not in name and name not in (b"content-length", b"transfer-encoding")
    ]
    headers.append((b"content-length", str(body_bytes).encode()))
    return {**scope, "headers": headers, "query_string": quote(scope["query_string"], safe=_PRINTABLE).encode()}


class Dispatcher:
    """Chooses the door by path; tells the open streams to end as soon as the server is told to."""

    def __init__(self, django: DjangoDoor) -> None:
        self._django = django
        self._readiness = Readiness()
        self._doors: dict[str, App] = {
            "/api/v1/desired/stream": stream.app,
            "/live/stream": live.app,
            "/healthz": _healthz,
            "/readyz": self._readyz,
        }
        self._closers: tuple[Callable[[], None], ...] = (stream.close, live.close, receiver.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            path = scope["path"]
            door = receiver.app if path.startswith("/v1/") else self._doors.get(path, self._django)
            await door(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._chain_signals(asyncio.get_running_loop())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.close_streams()
        self._django.shut_down()
        await send({"type": "lifespan.shutdown.complete"})

    def close_streams(self) -> None:
        """Call each door's `close`. Safe to call twice."""
        for close in self._closers:
            close()

    def _chain_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        """Put `close_streams` before the server's own handlers.

        Servers wait for open responses *before* they say lifespan.shutdown, and a stream never ends by itself; told
        only then, each would have to be cut off after a timeout.
        """
        if threading.current_thread() is not threading.main_thread():
            return  # a server in a test's thread: only the main thread hears signals
        for number in (signal.SIGINT, signal.SIGTERM):
            previous = signal.getsignal(number)

            def handle(number: int, frame: FrameType | None, previous: Any = previous) -> None:
                loop.call_soon_threadsafe(self.close_streams)
                if callable(previous):
                    previous(number, frame)
                elif previous is signal.SIG_DFL:
                    signal.signal(number, signal.SIG_DFL)
                    signal.raise_signal(number)

            signal.signal(number, handle)

    async def _readyz(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._readiness.check()
        except NotReady as error:
            await answer(send, 503, {"status": "cannot store", "reason": error.reason})
        else:
            await answer(send, 200, {"status": "ready"})


async def _healthz(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, 200, {"status": "alive"})


async def answer(send: Send, status: int, document: dict[str, object], *, problem: bool = False) -> None:
    """Send a small JSON document; `problem` marks it as RFC 9457's kind; a 503 says when to come again."""
    body = json.dumps(document).encode()
    headers = [
        (b"content-type", b"application/problem+json" if problem else b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


application = Dispatcher(
    DjangoDoor(threads=settings.WEB_THREADS, max_body_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
)
