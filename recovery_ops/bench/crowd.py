"""Clients that follow the desired state as an agent would, and do nothing else: thousands fit into one thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

import uvloop

from recovery_ops.bench.served import Server

CONNECT_WITHIN_S = 60.0
RECEIVE_WITHIN_S = 20.0
T = TypeVar("T")


class NotReached(Exception):
    """Some clients never heard what all should have heard."""


class Crowd:
    """So many streams to one server, read by an event loop in a thread of its own. Times are `time.perf_counter`."""

    def __init__(self, server: Server, size: int) -> None:
        self.size = size
        self._address = urlsplit(server.url)
        self._key = server.key
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bench-crowd", daemon=True)
        self._transports: list[Any] = []  # uvloop types what it makes more narrowly than it is
        self._heard: dict[int, float] = {}
        self._all_heard = threading.Event()

    @classmethod
    @contextmanager
    def of(cls, server: Server, size: int) -> Iterator[Self]:
        """A crowd that is connected, each with its first document."""
        crowd = cls(server, size)
        crowd._thread.start()
        try:
            yield crowd
        finally:
            crowd._run(crowd._leave())
            crowd._loop.call_soon_threadsafe(crowd._loop.stop)
            crowd._thread.join()
            crowd._loop.close()

    def connect(self) -> list[float]:
        """Everybody comes at once; the seconds until each has its first document."""
        began = self.listen()
        self._run(self._come())
        return self.heard(began, CONNECT_WITHIN_S)

    def leave(self) -> None:
        """Everybody goes."""
        self._run(self._leave())

    def listen(self) -> float:
        """From now on the next document counts; returns what time it is."""
        self._heard.clear()
        self._all_heard.clear()
        return time.perf_counter()

    def heard(self, began: float, within_s: float = RECEIVE_WITHIN_S) -> list[float]:
        """The seconds until each had the next document. Raises NotReached."""
        if not self._all_heard.wait(within_s):
            raise NotReached(f"{self.size - len(self._heard)} of {self.size} clients heard nothing in {within_s:g} s")
        return [at - began for at in self._heard.values()]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CONNECT_WITHIN_S)

    async def _come(self) -> None:
        host, port = self._address.hostname or "", self._address.port or 80
        coming = [
            self._loop.create_connection(lambda number=number: _Client(self, number, host), host, port)  # type: ignore[misc]
            for number in range(self.size)
        ]
        self._transports = [transport for transport, _ in await asyncio.gather(*coming)]

    async def _leave(self) -> None:
        for transport in self._transports:
            transport.close()
        self._transports = []

    def note(self, number: int) -> None:
        """This client has a document."""
        self._heard.setdefault(number, time.perf_counter())
        if len(self._heard) == self.size:
            self._all_heard.set()

    def request(self, number: int, host: str) -> bytes:
        """What this client asks for."""
        query = f"service=bench-crowd&instance=client-{number}"
        request = f"GET /api/v1/desired/stream?{query} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {self._key}"
        return f"{request}\r\naccept: text/event-stream\r\n\r\n".encode()


class _Client(asyncio.Protocol):
    """Reads one stream, as cheaply as can be: a thousand of these share the cores with the server they measure."""

    def __init__(self, crowd: Crowd, number: int, host: str) -> None:
        self._crowd, self._number, self._host = crowd, number, host
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._crowd.request(self._number, self._host))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        *events, self._buffer = self._buffer.split(b"\n\n")
        if any(b"\ndata:" in event for event in events):
            self._crowd.note(self._number)
