"""Clients that follow the desired state as an agent would, and do nothing else: thousands fit into one thread."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

import uvloop

from recovery_ops.bench.served import Server
from recovery_ops.runtime.config.stream import Timing
from recovery_ops.runtime.process.poll_intervals import Pace

CONNECT_WITHIN_S = 60.0
RECEIVE_WITHIN_S = 20.0
T = TypeVar("T")


class NotReached(Exception):
    """Some clients never heard what all should have heard."""


@dataclass(frozen=True, slots=True)
class Returned:
    """How a crowd came back that was cut off: seconds from when the server answered again, and tries in a second.

    A try is answered when its stream is opened; one that is turned away (503) is in vain, like one that reaches nobody.
    """

    after_s: list[float]
    in_vain: int
    busiest: int
    busiest_answered: int


class Crowd:
    """So many streams to one server, read by an event loop in a thread of its own. Times are `time.perf_counter`."""

    def __init__(self, server: Server, size: int, chance: Callable[[], float] = random.random) -> None:
        self.size = size
        self._chance = chance
        self._address = urlsplit(server.url)
        self._key = server.key
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bench-crowd", daemon=True)
        self._transports: list[Any] = []  # uvloop types what it makes more narrowly than it is
        self._heard: dict[int, float] = {}
        self._returns = False
        self._trying: set[asyncio.Task[None]] = set()
        self._paces: dict[int, Pace] = {}
        self._tried_at: list[float] = []
        self._answered_at: list[float] = []
        self._all_heard = threading.Event()

    @classmethod
    @contextmanager
    def of(cls, server: Server, size: int, chance: Callable[[], float] = random.random) -> Iterator[Self]:
        """A crowd that waits to be told what to do; `chance` says how long it waits before it comes back alone."""
        crowd = cls(server, size, chance)
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

    def come_back_alone(self) -> None:
        """From now on a client that is cut off connects again by itself, waiting as a runtime's link does."""
        self._returns = True
        times = Timing()
        for number in range(self.size):
            self._paces[number] = Pace(
                floor_s=times.floor_s, first_s=times.first_s, cap_s=times.cap_s, chance=self._chance
            )

    def returned(self, up_at: float) -> Returned:
        """How all of them came back, told when they have. `up_at`: when the server answered again."""
        after_s = [max(0.0, at - up_at) for at in self._heard.values()]
        in_vain = len(self._tried_at) - len(self._answered_at)
        return Returned(after_s, in_vain, _busiest(self._tried_at), _busiest(self._answered_at))

    def lost(self, number: int, transport: asyncio.BaseTransport | None) -> None:
        """This client was cut off, or never reached the server."""
        if transport in self._transports:
            self._transports.remove(transport)
        if self._returns:
            self._loop.call_later(self._paces[number].next_s(), self._try, number)

    def _try(self, number: int) -> None:
        if self._returns:
            self._trying.add(task := self._loop.create_task(self._one(number)))
            task.add_done_callback(self._trying.discard)

    async def _one(self, number: int) -> None:
        host, port = self._address.hostname or "", self._address.port or 80
        self._tried_at.append(time.perf_counter())
        try:
            transport, _ = await self._loop.create_connection(lambda: _Client(self, number, host), host, port)
        except OSError:
            self.lost(number, None)
        else:
            self._transports.append(transport)

    def answered(self) -> None:
        """A client that came back alone has its stream."""
        if self._returns:
            self._answered_at.append(time.perf_counter())

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
        self._returns = False
        for transport in tuple(self._transports):
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


class CrowdApart:
    """A crowd in a process of its own: beside runtimes it would wait for their interpreter, which no machine shares.

    Times are `time.perf_counter`, which all processes of a machine have alike.
    """

    def __init__(self, pipe: Connection, size: int) -> None:
        self.size = size
        self._pipe = pipe

    @classmethod
    @contextmanager
    def of(cls, server: Server, size: int) -> Iterator[Self]:
        """A crowd that waits to be told what to do."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_obey, args=(theirs, server, size), daemon=True)
        process.start()
        theirs.close()
        try:
            yield cls(ours, size)
        finally:
            ours.close()
            process.join(CONNECT_WITHIN_S)

    def connect(self) -> list[float]:
        """As `Crowd.connect`."""
        return cast("list[float]", self._ask("connect"))

    def leave(self) -> None:
        """As `Crowd.leave`."""
        self._ask("leave")

    def come_back_alone(self) -> None:
        """As `Crowd.come_back_alone`."""
        self._ask("come_back_alone")

    def listen(self) -> float:
        """As `Crowd.listen`."""
        return cast("float", self._ask("listen"))

    def heard(self, began: float, within_s: float = RECEIVE_WITHIN_S) -> list[float]:
        """As `Crowd.heard`."""
        return cast("list[float]", self._ask("heard", began, within_s))

    def returned(self, up_at: float) -> Returned:
        """As `Crowd.returned`."""
        return cast("Returned", self._ask("returned", up_at))

    def _ask(self, what: str, *more: float) -> object:
        self._pipe.send((what, more))
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _obey(pipe: Connection, server: Server, size: int) -> None:
    """What the process of a crowd does until its pipe is closed."""
    with Crowd.of(server, size) as crowd:
        while True:
            try:
                what, more = pipe.recv()
            except EOFError:
                return
            try:
                pipe.send(getattr(crowd, what)(*more))
            except Exception as error:  # told to whoever asked
                pipe.send(error)


class _Client(asyncio.Protocol):
    """Reads one stream, as cheaply as can be: a thousand of these share the cores with the server they measure."""

    def __init__(self, crowd: Crowd, number: int, host: str) -> None:
        self._crowd, self._number, self._host = crowd, number, host
        self._buffer = b""
        self._is_open = False
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        cast("asyncio.WriteTransport", transport).write(self._crowd.request(self._number, self._host))

    def connection_lost(self, error: Exception | None) -> None:
        self._crowd.lost(self._number, self._transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open:
            if b"\r\n" not in self._buffer:
                return
            if self._buffer.split(maxsplit=2)[1] != b"200":  # turned away: it waits, and tries again, as a link does
                cast("asyncio.WriteTransport", self._transport).close()
                return
            self._is_open = True
            self._crowd.answered()
        *events, self._buffer = self._buffer.split(b"\n\n")
        if any(b"\ndata:" in event for event in events):
            self._crowd.note(self._number)


def _busiest(moments: list[float]) -> int:
    """The most of these moments that lie within one second."""
    ordered, first, most = sorted(moments), 0, 0
    for count, moment in enumerate(ordered, start=1):
        while moment - ordered[first] >= 1.0:
            first += 1
        most = max(most, count - first)
    return most
