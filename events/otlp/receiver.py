"""Takes facts in: the plain ASGI application for everything under /v1/, by the rules of OTLP over HTTP.

Mounted by `recovery_ops/asgi.py` beside Django, whose middleware would redirect, answer HTML, or answer 500. A sender
drops its data on nearly every answer but 200 and 503, so what may be better in a second is always 503:

    200  committed, or nothing was to be stored; `partial_success` says what was set aside
    400  cannot be read         401, 403  the key        404, 405, 413, 415  the address, method, size, encoding
    503  with Retry-After: 1    no room, too slow, the key asks more often than it may, the database is
                                away, busy or full, or a fault of ours

The order is: address, method, encodings, key, room, body. Nothing of a body is read for a sender without a key, nor
while as much is held, or waits to be stored, as may.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.db import close_old_connections

from events import keys
from events.ingest.commits import WAIT_S, Busy, writer
from events.ingest.masking import cleaner_of
from events.ingest.quarantine import prepare
from events.ingest.records import Intake
from events.ingest.trouble import TroubleLog
from events.models import AgentKey
from events.otlp import encodings
from events.otlp.bodies import BodyRefused, Gone, Receive, Room, Share, inflate, read_body
from events.otlp.readers import Asked, Readers
from events.otlp.reading import read_request
from events.otlp.refused import Refused
from events.otlp.sent import Encoding, Malformed, Signal
from events.wording import count_text

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 1
"""A longer wait loses data: the stock exporter gives up at once if it does not fit into the 10 s that it has."""
ROOM_BODIES = 2
"""Bodies of the largest size, on the wire and inflated, that are held at once; of smaller ones accordingly more."""
DECODERS = 2
"""Threads that inflate and read; so many requests may be asked of a process that reads beside us."""
KEY_S = 5.0
"""A key that is not told from a wrong one within this time is answered 503."""
_SIGNALS = {f"/v1/{signal.value}": signal for signal in Signal}
_CODINGS = {"": "", "identity": "", "gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}


class _Refusal(Exception):
    """An answer other than 200. `field` marks a 400 that names what is wrong in the body."""

    def __init__(self, status: int, message: str, *, field: str | None = None, allow: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field
        self.allow = allow


@dataclass(frozen=True, slots=True)
class _Request:
    """What the head of a request says."""

    signal: Signal
    encoding: Encoding
    coding: str
    headers: dict[str, str]


class Receiver:
    """The ASGI application. `close` ends the writer once it has stored what was acknowledged or is being stored."""

    def __init__(self, *, most_bytes: int, reads_beside: bool = False) -> None:
        self._most_bytes = most_bytes
        self.readers = Readers(DECODERS, is_allowed=reads_beside)
        self.room = Room(ROOM_BODIES * most_bytes)
        self._troubles = TroubleLog(logger)
        self._open_pools()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        encoding = _encoding_of(headers.get("content-type", "")) or Encoding.JSON
        try:
            body = await self._take(scope, headers, receive)
        except Gone:
            return
        except _Refusal as refusal:
            await _refuse(send, scope, encoding, refusal)
        except Exception as error:
            self._troubles.note("a request could not be taken", error)
            await _refuse(send, scope, encoding, _Refusal(503, "Something went wrong here. Send this again."))
        else:
            await _answer(send, 200, encoding, body)

    def close(self) -> None:
        """Take leave of the database. What is on its way is still stored, and what still comes, too."""
        writer.close()
        self.readers.close()
        for pool in (self._decoders, self._doormen):
            pool.shutdown(wait=False)
        self._open_pools()

    def _open_pools(self) -> None:
        """Threads of our own: the event loop's are shared with whatever else blocks."""
        self._decoders = ThreadPoolExecutor(DECODERS, thread_name_prefix="decode")
        self._doormen = ThreadPoolExecutor(1, thread_name_prefix="keys")

    async def _take(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes:
        try:
            request = _read_head(scope, headers)
            key = await self._key_of(headers.get("authorization"), keys.address_of(scope))
            _check_environment(scope, key)
            if writer.is_full:
                raise _Refusal(503, "As much waits to be stored as may. Send this again in a second.")
            with self.room.share() as share:
                body = await read_body(receive, headers, share, most_bytes=self._most_bytes)
                async with asyncio.timeout(WAIT_S):
                    return await self._store(request, key, body, share)
        except keys.KeyBusy as error:  # never 429: the stock exporter drops its data on that before 1.45
            raise _Refusal(503, error.message) from error
        except keys.KeyRefused as error:
            raise _Refusal(error.status, error.message) from error
        except keys.KeyStoreAway as error:
            self._troubles.note("keys cannot be read", error)
            raise _Refusal(503, "Keys cannot be read now. Send this again.") from error
        except BodyRefused as error:
            raise _Refusal(error.status, error.reason, field="" if error.status == 400 else None) from error
        except (Busy, TimeoutError) as error:
            raise _Refusal(503, "This was not done in time. Send it again.") from error

    async def _key_of(self, authorization: str | None, address: str) -> AgentKey:
        key = keys.recall(authorization, "ingest", address)
        if key is None:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(KEY_S):
                key = await loop.run_in_executor(self._doormen, _authenticate, authorization, address)
        return key

    async def _store(self, request: _Request, key: AgentKey, body: bytes, share: Share) -> bytes:
        """Decode and store; return the body of the answer."""
        loop = asyncio.get_running_loop()
        received_us = time.time_ns() // 1000
        expected = nullcontext() if request.signal is Signal.METRICS else writer.expecting()  # those are never stored
        try:
            with expected:
                found = await loop.run_in_executor(self._decoders, self._read, request, key, body, share, received_us)
        except Malformed as fault:
            kept = await loop.run_in_executor(self._decoders, _kept, request, key, fault, received_us)
            await asyncio.wrap_future(writer.submit(kept))
            raise _Refusal(400, fault.reason, field=fault.field) from fault
        if request.signal is Signal.METRICS:
            return _no_metrics(found.ignored, request.encoding)
        if found.rows or found.refused or found.marks:
            await asyncio.wrap_future(writer.submit(found))
        return encodings.success(
            request.encoding, request.signal, rejected=len(found.refused), message=_remarks(found, request.signal)
        )

    def _read(self, request: _Request, key: AgentKey, body: bytes, share: Share, received_us: int) -> Intake:
        """What a body holds. On a thread of its own. Raises Malformed with the inflated content."""
        if request.signal is not Signal.LOGS:
            return prepare(self._read_here(request, key, body, share, received_us))
        place = key.environment, received_us, key.prefix
        asked = Asked(request.encoding, request.coding, *place, self._most_bytes)
        with self.readers.counted(asked, body):
            found = self.readers.read_logs(asked, body, share)
            return prepare(self._read_here(request, key, body, share, received_us) if found is None else found)

    def _read_here(self, request: _Request, key: AgentKey, body: bytes, share: Share, received_us: int) -> Intake:
        if request.coding:
            body = inflate(body, request.coding, share, most_bytes=self._most_bytes)
        try:
            return read_request(
                request.signal,
                request.encoding,
                body,
                environment=key.environment,
                received_us=received_us,
                key_prefix=key.prefix,
            )
        except Malformed as fault:
            fault.content = body
            raise


def _kept(request: _Request, key: AgentKey, fault: Malformed, received_us: int) -> Intake:
    """What is kept of a body of which nothing can be read."""
    kept = Intake(key.environment, received_us, key.prefix, refused=[Refused(fault.reason, fault.content)])
    kept.signal, kept.encoding, kept.cleaner = request.signal, request.encoding, cleaner_of(key.environment)
    return prepare(kept)


def _read_head(scope: Scope, headers: dict[str, str]) -> _Request:
    signal = _SIGNALS.get(scope["path"])
    if signal is None:
        raise _Refusal(404, f"There is nothing at this address. Facts go to {', '.join(_SIGNALS)}.")
    if scope["method"] != "POST":
        raise _Refusal(405, f"{scope['path']} takes POST only.", allow="POST")
    encoding = _encoding_of(headers.get("content-type", ""))
    if encoding is None:
        raise _Refusal(415, f"The Content-Type has to be one of {', '.join(Encoding)}.")
    coding = _CODINGS.get(headers.get("content-encoding", "").strip().lower())
    if coding is None:
        raise _Refusal(415, "The Content-Encoding has to be gzip, deflate or none.")
    return _Request(signal, encoding, coding, headers)


def _check_environment(scope: Scope, key: AgentKey) -> None:
    """Reject an address that names an environment other than the key's: the events would be stored elsewhere."""
    for named in parse_qs(scope.get("query_string", b"").decode("latin-1")).get("environment", ()):
        if named != key.environment:
            message = f"The key stores events of {key.environment}, not of another environment; use a key of that one."
            raise _Refusal(400, message, field="environment")


def _encoding_of(content_type: str) -> Encoding | None:
    media_type = content_type.partition(";")[0].strip().lower()
    return Encoding(media_type) if media_type in tuple(Encoding) else None


def _authenticate(authorization: str | None, address: str) -> AgentKey:
    try:
        return keys.authenticate(authorization, "ingest", address)
    finally:
        close_old_connections()  # a pooled connection goes back; one that broke is replaced


def _no_metrics(count: int, encoding: Encoding) -> bytes:
    message = (
        f"{count_text(count, 'data point')} read, none kept: failures and calls are told by log events (/v1/logs) and"
        " by spans (/v1/traces), which tell of which call. Metrics need not be sent here (OTEL_METRICS_EXPORTER=none)."
    )
    return encodings.success(encoding, Signal.METRICS, rejected=count, message=message if count else "")


def _remarks(intake: Intake, signal: Signal) -> str:
    """What the sender's developer should know."""
    item = "span" if signal is Signal.TRACES else "record"
    reasons: dict[str, int] = {}
    for refused in intake.refused:
        reasons[refused.reason] = reasons.get(refused.reason, 0) + 1
    remarks = [f"{count} × set aside: the {item} {reason}" for reason, count in reasons.items()]
    return "; ".join([*remarks, *(f"{count} × {text}" for (_, text), count in intake.remarks.items())][:10])


async def _refuse(send: Send, scope: Scope, encoding: Encoding, refusal: _Refusal) -> None:
    body = encodings.status(encoding, refusal.status, refusal.message, field=refusal.field)
    extra = []
    if refusal.status == 503:
        extra.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    if refusal.status == 401:
        extra.append((b"www-authenticate", b"Bearer"))
    if refusal.allow:
        extra.append((b"allow", refusal.allow.encode()))
    await _answer(send, refusal.status, encoding, b"" if scope["method"] == "HEAD" else body, extra)


async def _answer(
    send: Send, status: int, encoding: Encoding, body: bytes, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    headers = [
        (b"content-type", encoding.value.encode()),
        (b"content-length", str(len(body)).encode()),
        *(extra or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


app = Receiver(most_bytes=settings.OTLP_MAX_BODY_BYTES, reads_beside=settings.OTLP_READS_BESIDE)
close = app.close
