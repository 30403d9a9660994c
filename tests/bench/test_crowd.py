"""Clients that only follow: what counts as an answer when they come back to a server that turns some of them away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recovery_ops.bench.crowd import Crowd
from recovery_ops.bench.served import Server

_OPENED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_DOCUMENT = b"1c\r\nevent: desired\ndata: {}\n\n\r\n"
_TURNED_AWAY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}"


class _Door:
    """A server that opens streams; told to, it ends them all and turns so many away before it opens the next."""

    def __init__(self) -> None:
        self.turns_away = 0
        self._open: list[asyncio.StreamWriter] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if self.turns_away:
            self.turns_away -= 1
            writer.write(_TURNED_AWAY[:9])  # a status line may come in pieces
            await writer.drain()
            writer.write(_TURNED_AWAY[9:])
            writer.close()
            return
        self._open.append(writer)
        writer.write(_OPENED + _DOCUMENT)

    async def end_all(self, then_turn_away: int = 0) -> None:
        self.turns_away = then_turn_away
        ended, self._open = self._open, []
        for writer in ended:
            writer.close()
        for writer in ended:
            with suppress(ConnectionError):
                await writer.wait_closed()


@contextmanager
def _serving(door: _Door) -> Iterator[tuple[Server, asyncio.AbstractEventLoop]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(door.take, "127.0.0.1", 0), loop).result(10)
    try:
        port = server.sockets[0].getsockname()[1]
        yield Server(f"http://127.0.0.1:{port}", "key", 0, Path()), loop
    finally:
        server.close()
        asyncio.run_coroutine_threadsafe(door.end_all(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def test_who_is_turned_away_tried_in_vain_and_comes_again() -> None:
    door = _Door()
    with _serving(door) as (server, loop), Crowd.of(server, 3, chance=lambda: 0.0) as crowd:
        assert len(crowd.connect()) == 3
        crowd.come_back_alone()
        began = crowd.listen()
        asyncio.run_coroutine_threadsafe(door.end_all(4), loop).result(10)
        assert len(crowd.heard(began)) == 3
        found = crowd.returned(began)
        assert (found.in_vain, found.busiest, found.busiest_answered) == (4, 7, 3)
