"""Reads and inflates request bodies within bounds: of one body, of all bodies held at once, and of time.

A body is bounded on the wire and again inflated, because 200 KiB of gzip can hold 200 MiB. What is over a bound is
refused as soon as that is known, never read to its end.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Self

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

READ_S = 20.0
"""A body has to arrive within this time …"""
IDLE_S = 5.0
"""… and never pause longer than this."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""What zlib calls these forms."""
_PIECE_BYTES = 2**20
_SLICE_BYTES = 2**16
MOST_MEMBERS = 100


class BodyRefused(Exception):
    """A body that is not taken: `status` and, for whoever sent it, the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Gone(Exception):
    """The client left before its body was whole."""


class Room:
    """How many bytes of bodies a process may hold at once. Each request takes a share and gives it back at its end."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self.held_bytes = 0

    def share(self) -> Share:
        """An empty share, to be used as a context."""
        return Share(self)


class Share:
    """What one request holds; given back when the context ends, after which nothing more can be taken.

    That end may come while a thread is still inflating for a request that was given up.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held_bytes = 0
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._room._lock:
            self._is_over = True
            self._room.held_bytes -= self._held_bytes

    def check(self, size: int) -> None:
        """Refuse now (503) what would find no room later."""
        if self._room.held_bytes + size > self._room._most_bytes:
            raise _full()

    def take(self, size: int) -> None:
        """Hold so many bytes more, or refuse the request (503)."""
        with self._room._lock:
            self.check(size)
            if self._is_over:
                raise _full()
            self._room.held_bytes += size
            self._held_bytes += size


def _full() -> BodyRefused:
    return BodyRefused(503, "The server holds as many requests as it may. Send this one again in a second.")


async def read_body(receive: Receive, headers: Mapping[str, str], share: Share, *, most_bytes: int) -> bytes:
    """The body as it travels. Raises BodyRefused (413 too large, 503 no room or too slow) and Gone."""
    announced = headers.get("content-length", "")
    size = int(announced) if announced.isdecimal() and len(announced) < 20 else 0
    if size > most_bytes:
        raise _too_large(most_bytes, "")
    share.check(size)
    body = bytearray()
    try:
        async with asyncio.timeout(READ_S):
            while True:
                async with asyncio.timeout(IDLE_S):
                    message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                piece = message.get("body", b"")
                if len(body) + len(piece) > most_bytes:
                    raise _too_large(most_bytes, "")
                share.take(len(piece))
                body += piece
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise BodyRefused(503, "The body came too slowly. Send it again.") from None


def inflate(body: bytes, coding: str, share: Share, *, most_bytes: int) -> bytes:
    """The body as it was before `gzip` or `deflate`. Raises BodyRefused (400 broken, 413 too large, 503 no room)."""
    if coding != "deflate":
        return _inflate(body, "gzip", _GZIP, share, most_bytes)
    # By the book deflate is zlib's form, whose first byte ends in 8; some senders leave that header away.
    form = _ZLIB if body[:1] and body[0] & 15 == 8 else _RAW
    return _inflate(body, coding, form, share, most_bytes)


def _inflate(body: bytes, coding: str, form: int, share: Share, most_bytes: int) -> bytes:
    """All members, one after another: a gzip body may have several."""
    whole, at, pieces, size = memoryview(body), 0, [], 0
    try:
        for _ in range(MOST_MEMBERS):
            member, tail = zlib.decompressobj(form), b""
            while not member.eof:
                # In slices: what follows the end of a member is copied, and must not be all the rest each time.
                given = tail or whole[at : at + _SLICE_BYTES]
                at += 0 if tail else len(given)
                piece, tail = member.decompress(given, _PIECE_BYTES), member.unconsumed_tail
                if not piece and not given and not member.eof:
                    raise zlib.error("it ends too early")
                size += len(piece)
                if size > most_bytes:
                    raise _too_large(most_bytes, " after inflating")
                share.take(len(piece))
                pieces.append(piece)
            at -= len(member.unused_data)
            if at >= len(whole) or (form == _GZIP and _is_padding(whole[at:])):
                return b"".join(pieces)
    except zlib.error as error:
        raise BodyRefused(400, f"The body is no {coding}, or a broken one: {error}.") from error
    raise BodyRefused(400, f"The body has more than {MOST_MEMBERS} parts of {coding}.")


def _is_padding(rest: memoryview) -> bool:
    """Whether nothing but zeros follows, which whoever writes in blocks leaves behind a gzip body."""
    return not rest[0] and not any(
        bytes(rest[at : at + _SLICE_BYTES]).strip(b"\0") for at in range(0, len(rest), _SLICE_BYTES)
    )


def _too_large(most_bytes: int, when: str) -> BodyRefused:
    return BodyRefused(413, f"The body has more than {most_bytes} bytes{when}. Send smaller batches.")
