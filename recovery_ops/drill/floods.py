"""Faults of quantity: bodies that explode, senders that drip, names without end. Others must not feel it."""

from __future__ import annotations

import gzip
import socket
import time
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from recovery_ops.drill.faults import BATCH, Drill
from recovery_ops.drill.history import History, p99
from recovery_ops.drill.senders import deliver, post
from recovery_ops.drill.story import Story, body_of
from recovery_ops.drill.world import MOST_NAMES, wait_until
from recovery_ops.wire import names

DRIPPING = 500
READING = 100
ROUNDS, _ROUND_S = 30, 0.15
"""How often each of them sends or reads a byte."""
SLOWER_AT_MOST = 6.0
"""So many times as long as without them a batch may take at the 99th percentile."""
_SHORT_S = 0.25
"""What is shorter is counted as this: on a busy machine it is chance."""
_PROMPT_S = 0.1
_SMALL = 50
"""Records of a batch, for more batches to measure."""
_ASKED_AHEAD = 300
"""How many answers a slow reader asks for at once: more than the buffers of its connection hold."""
_BOMB_BYTES = 200 * 2**20
_GROWTH_MB = 200.0
_ALL_NAMES = 1_000_000
_NAMED = (names.OPERATION, names.ATTRIBUTES["breaker"])


class Felt(Exception):
    """A flood did what it must not."""


def bombs(drill: Drill, history: History) -> None:
    """J11: gzip bombs, truncated and doubled gzip, deflate, a wrong length: 413 or 400, and memory stays bounded."""
    key, server = drill.key_of(history.environment), drill.servers[0]
    before_mb = server.rss_mb()
    body = gzip.decompress(body_of([record for _, record in Story(1).batch(3)], "i-0"))
    packed = gzip.compress(body, 1)
    bomb = gzip.compress(bytes(_BOMB_BYTES), 1)
    expected = [(bomb, "gzip", {413}), (packed[:-9], "gzip", {400}), (b"no gzip", "gzip", {400})]
    expected += [(zlib.compress(body)[:-5], "deflate", {400}), (packed + b"rubbish", "gzip", {400})]
    with drill.senders(history, records=BATCH * 4):
        for content, coding, statuses in expected * 2:
            status = post(server.address, key, content, content_encoding=coding)
            if status not in statuses:
                raise Felt(f"{coding} of {len(content)} bytes was answered {status}")
        _lie_about_the_length(server.port, key, packed)
    grown = server.rss_mb() - before_mb
    if grown > _GROWTH_MB:
        raise Felt(f"the server grew by {grown:.0f} MB")
    # Two members and deflate are no faults: they are stored.
    story = Story(drill.chance.randrange(2**40))
    for squeeze, coding in ((_two_members, "gzip"), (zlib.compress, "deflate")):
        records = story.batch(BATCH)
        plain = gzip.decompress(body_of([record for _, record in records], "i-0"))
        history.note_sent([uid for uid, _ in records])
        status = post(server.address, key, squeeze(plain), content_encoding=coding)
        history.note_try(status)
        if status == 200:
            history.note_acknowledged([uid for uid, _ in records], 0.0)
    history.notes.append(f"six kinds, two wrong lengths, +{max(0.0, grown):.0f} MB")


def _lie_about_the_length(port: int, key: str, packed: bytes) -> None:
    """A body that is shorter than was said is not stored, as its sender is gone; a part of a longer one is no gzip."""
    for length, statuses in ((len(packed) + 100, {0, 400}), (len(packed) - 9, {400})):
        status = _answered(port, key, packed, length)
        if status not in statuses:
            raise Felt(f"a body of {len(packed)} bytes that was said to have {length} was answered {status}")


def _answered(port: int, key: str, body: bytes, length: int) -> int:
    """The status of a request whose head says this length and whose sender says no more; 0 for no answer."""
    head = f"POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Encoding: gzip\r\n"
    head += f"Content-Type: application/x-protobuf\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as one:
        one.sendall(head.encode() + body)
        one.shutdown(socket.SHUT_WR)
        said = one.recv(64)
    return int(said.split()[1]) if said.startswith(b"HTTP/1.1 ") else 0


def _two_members(content: bytes) -> bytes:
    return gzip.compress(content[:100]) + gzip.compress(content[100:])


def dripping_senders(drill: Drill, history: History) -> None:
    """J12: hundreds of connections that send or read a byte now and then; others go on as if they were not there.

    How long a batch of theirs takes is compared with the same senders a moment before and after, without the drip.
    """
    alone_s = p99(_sent_beside(drill, history, lambda: None))
    port, key = drill.servers[0].port, drill.key_of(history.environment)
    before_mb = drill.servers[0].rss_mb()
    with ExitStack() as stack:
        dripping = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(DRIPPING)]
        head = f"POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n".encode()
        body_head = head + b"Content-Type: application/x-protobuf\r\nContent-Length: 100000\r\n\r\n"
        for number, one in enumerate(dripping):
            one.sendall(body_head if number % 2 else head)
        reading = [stack.enter_context(_slow_reader(port)) for _ in range(READING)]
        # To ask for so much at once is a flood of its own; what is measured is that they do not go away.
        wait_until(lambda: _is_prompt(port), "a server with slow clients")
        beside_s = _sent_beside(drill, history, lambda: _drip(dripping, reading))
        grown = max(0.0, drill.servers[0].rss_mb() - before_mb)
    if grown > _GROWTH_MB:
        raise Felt(f"the server grew by {grown:.0f} MB for who does not read")
    alone_s = max(alone_s, p99(_sent_beside(drill, history, lambda: None)))
    ratio = p99(beside_s) / max(alone_s, _SHORT_S)
    figures = f"p99 {p99(beside_s):.2f} s beside them, {alone_s:.2f} s without: {ratio:.1f} ×"
    if ratio > SLOWER_AT_MOST:
        raise Felt(f"{figures}, {SLOWER_AT_MOST:g} × is the most")
    history.notes.append(f"{DRIPPING} dripping, {READING} reading slowly, +{grown:.0f} MB; {figures}")


def _is_prompt(port: int) -> bool:
    """Whether somebody who asks how it is hears so at once, several times in a row."""
    return all(_asks_s(port) < _PROMPT_S for _ in range(5))


def _asks_s(port: int) -> float:
    began = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:  # nosec B310  # our own address
        answer.read()
    return time.monotonic() - began


def _sent_beside(drill: Drill, history: History, drip: Callable[[], None]) -> Sequence[float]:
    """How long each batch took that was sent during so many rounds of a drip, in seconds."""
    first = len(history.times_s)
    with drill.senders(history, records=drill.records // 3, batch=_SMALL):
        for _ in range(ROUNDS):
            time.sleep(_ROUND_S)
            drip()
    return history.times_s[first:]


def _drip(dripping: Sequence[socket.socket], reading: Sequence[socket.socket]) -> None:
    """A byte of each."""
    for number, one in enumerate(dripping):
        with suppress(OSError):  # closed by the server, which is its right
            one.sendall(b"\x0a" if number % 2 else b"x")
    for one in reading:
        one.recv(1)


def _slow_reader(port: int) -> socket.socket:
    """One that asks for page after page and takes next to nothing of what it is sent."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.settimeout(10.0)
    one.connect(("127.0.0.1", port))
    one.sendall(b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * _ASKED_AHEAD)
    return one


def endless_names(drill: Drill, history: History) -> None:
    """J13: an operation for every record. Tables and memory stay small, and a counter says how many were folded.

    Another environment goes on as if nothing were: its names are its own, and none of them is folded. `--full` makes it
    a million names.
    """
    count = drill.endless // BATCH * BATCH
    story = Story(drill.chance.randrange(2**40))
    key, before_mb = drill.key_of(history.environment), drill.servers[0].rss_mb()
    for number in range(count // BATCH):
        operations = (f"op-{drill.chance.randrange(2**60):x}" for _ in range(BATCH))
        records = [story.record(**dict.fromkeys(_NAMED, operation)) for operation in operations]
        body = body_of([record for _, record in records], "i-0")
        deliver([drill.addresses[number % len(drill.addresses)]], key, body, [uid for uid, _ in records], history)
    grown = drill.servers[0].rss_mb() - before_mb
    if grown > _GROWTH_MB:
        raise Felt(f"the server grew by {grown:.0f} MB")
    folded = _folded(history.environment)
    least = count - MOST_NAMES * len(drill.servers)
    if folded < least:
        raise Felt(f"only {folded:,} of at least {least:,} folded names were counted")
    beside = History("j13-beside")
    with drill.senders(beside, records=BATCH * 4):
        pass
    if _folded(beside.environment) or beside.sent != beside.acknowledged:
        raise Felt("another environment felt it")
    size = "all of them" if count == _ALL_NAMES else f"of {_ALL_NAMES:,} with --full"
    history.notes.append(f"{count:,} names ({size}), {folded:,} counted as folded, +{max(0.0, grown):.0f} MB")
    history.notes.append("no name of another environment was folded")


def _folded(environment: str) -> int:
    """What the Intake page says of operations."""
    from events.models import Tally

    found = Tally.objects.filter(environment=environment, name="operation").first()
    return found.count if found is not None else 0
