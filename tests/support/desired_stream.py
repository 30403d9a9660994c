"""The stream's door behind a real server in a thread, and clients that read it as agents do."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from events.live.pulse import Pulse
from recovery_ops.control.desired_state.stream import Board, DesiredDoor
from recovery_ops.runtime.config.server_sent_events import Message, Messages
from tests.support.processes import eventually

PATIENCE_S = 15.0


@dataclass
class Served:
    """A running server: its door, its address, and how to tell it to end."""

    door: DesiredDoor
    url: str
    server: uvicorn.Server

    def end(self) -> None:
        """What the dispatcher does on a signal: the streams first, then the server."""
        self.server.servers[0].get_loop().call_soon_threadsafe(self.door.close)
        self.server.should_exit = True


def door_of(interval_s: float = 0.005, **rest: int) -> DesiredDoor:
    """A door with a board and a pulse of its own."""
    board = Board()
    return DesiredDoor(board, Pulse(board.read, interval_s), **rest)


@contextlib.contextmanager
def served(door: DesiredDoor | None = None) -> Iterator[Served]:
    """A door, without more one of its own, on a free port; ended at the end of the block."""
    door = door or door_of()
    server = uvicorn.Server(uvicorn.Config(door, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started, what="the server")
    found = Served(door, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/", server)
    try:
        yield found
    finally:
        if not server.should_exit:
            found.end()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@dataclass
class Follower:
    """One agent's stream, read in a thread as it comes."""

    messages: queue.Queue[Message] = field(default_factory=queue.Queue)
    raw: bytes = b""
    has_ended: threading.Event = field(default_factory=threading.Event)

    def next(self) -> Message:
        """The next message; fails when none comes."""
        return self.messages.get(timeout=PATIENCE_S)

    def document(self) -> dict[str, Any]:
        """The document in the next message."""
        found: dict[str, Any] = json.loads(self.next().data)
        return found


@contextlib.contextmanager
def following(url: str, key: str, *, last_id: str = "", **who: str) -> Iterator[Follower]:
    """An agent that is connected for the length of the block."""
    follower = Follower()
    headers = {"authorization": f"Bearer {key}"} | ({"last-event-id": last_id} if last_id else {})
    params = {"service": "research", "instance": "r-0"} | who
    with (
        httpx.Client(timeout=PATIENCE_S) as client,
        client.stream("GET", url, headers=headers, params=params) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        reader = threading.Thread(target=_read, args=(answer, follower), daemon=True)
        reader.start()
        try:
            yield follower
        finally:
            # Closing alone would leave the reader in its read.
            with contextlib.suppress(OSError):
                answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            reader.join(PATIENCE_S)
    assert not reader.is_alive()


def _read(answer: httpx.Response, follower: Follower) -> None:
    messages = Messages(limit_bytes=2**22)
    with contextlib.suppress(httpx.HTTPError, OSError):
        for chunk in answer.iter_raw():
            follower.raw += chunk
            for message in messages.feed(chunk):
                follower.messages.put(message)
    follower.has_ended.set()
