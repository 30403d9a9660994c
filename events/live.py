"""Tells browsers that there are new facts: server-sent events from a plain ASGI door beside Django's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model, load_backend
from django.core.exceptions import ValidationError
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from events.pulse import Changes, Pulse, Snapshot, let_go

__all__ = ["Changes", "LiveDoor", "Pulse", "Snapshot", "app", "close", "newest_fact", "tell_also"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

logger = logging.getLogger(__name__)

INTERVAL_S = 0.5
"""A browser hears of new facts at most this often."""
RECHECK_S = 60.0
"""A stream asks this often whether its person is still signed in."""
SEND_TIMEOUT_S = 10.0
"""A client that takes nothing for this long is let go; it comes back and is up to date with the first message."""
MOST_STREAMS = 500
"""Streams of one process; the next one is answered 503."""


class Refused(Exception):
    """A stream that is not opened: `status`, and a `title` and `detail` for whoever asked."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(f"{status} {title}: {detail}")
        self.status = status
        self.title = title
        self.detail = detail


class LiveDoor:
    """Server-sent events for signed-in people: `pulse` with the newest fact's id whenever something is new.

    Plain ASGI: an open stream costs a few KiB and no thread.
    """

    def __init__(self, pulse: Pulse, *, most_streams: int = MOST_STREAMS) -> None:
        self._pulse = pulse
        self._most_streams = most_streams
        self._open_streams = 0

    @property
    def open_streams(self) -> int:
        """How many are open in this process."""
        return self._open_streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            _check_request(scope, headers)
            await _check_person(headers)
            with self._place():
                await self._stream(headers, receive, send)
        except Refused as refusal:
            await _answer(send, refusal)
        except TimeoutError:  # the client takes nothing any more
            logger.info("a live stream was let go: its client does not read")

    def close(self) -> None:
        """End every stream within milliseconds. Called when the server begins to end, on its event loop."""
        self._pulse.close()

    @contextlib.contextmanager
    def _place(self) -> Iterator[None]:
        if self._pulse.is_closed:
            raise Refused(503, "The server is ending", "Connect again in a few seconds.")
        if self._open_streams >= self._most_streams:
            detail = f"This process serves {self._most_streams} live streams and has no place left. Try again later."
            raise Refused(503, "Too many live streams", detail)
        self._open_streams += 1
        try:
            yield
        finally:
            self._open_streams -= 1

    async def _stream(self, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        async with self._pulse.follow() as changes:
            gone = asyncio.ensure_future(_disconnected(receive))
            gone.add_done_callback(lambda _: changes.end())
            recheck_at = loop.time() + RECHECK_S
            try:
                await _start(send)
                async with contextlib.aclosing(_chunks(changes, headers.get("last-event-id", ""))) as chunks:
                    async for chunk in chunks:
                        await _send_in_time(send, {"type": "http.response.body", "body": chunk, "more_body": True})
                        if loop.time() >= recheck_at:
                            recheck_at = loop.time() + RECHECK_S
                            await _check_person(headers)
            except Refused:
                logger.info("a live stream ended: its person is signed out")
            finally:
                gone.cancel()
        await _send_in_time(send, {"type": "http.response.body", "body": b"", "more_body": False})


async def _chunks(changes: Changes, last_id: str) -> AsyncGenerator[bytes]:
    """The stream's text: an event per change, a comment when nothing changed for a heartbeat."""
    yield b"retry: 2000\n: live\n\n"
    while True:
        try:
            async with asyncio.timeout(settings.HEARTBEAT_S):
                snapshot = await anext(changes)
        except TimeoutError:
            yield b": heartbeat\n\n"
            continue
        except StopAsyncIteration:
            return
        state = "-".join(str(number) for number in snapshot.values())
        if state != last_id:  # else a client that came back: it has seen this one
            data = json.dumps({"fact": snapshot["fact"], "at": timezone.now().isoformat(timespec="milliseconds")})
            yield f"event: pulse\nid: {state}\ndata: {data}\n\n".encode()
        last_id = ""


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _check_request(scope: Scope, headers: Mapping[str, str]) -> None:
    """Refuse what no page of ours would send: another method, a foreign host name, a foreign page."""
    if scope["method"] != "GET":
        raise Refused(405, "Method not allowed", "A stream is read with GET.")
    host = headers.get("host", "")
    domain, _port = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        raise Refused(400, "Unknown host", "The host name is not one of RECOVERY_OPS_HOSTS.")
    origin = headers.get("origin")
    # The scheme is not compared: behind a proxy that ends TLS we do not see the browser's.
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
    if is_foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused(403, "Foreign page", "Only the console's own pages may follow.")


async def _check_person(headers: Mapping[str, str]) -> None:
    """Refuse who is not signed in (401), or say that it cannot be known now (503)."""
    try:
        is_known = await asyncio.to_thread(_is_signed_in, headers.get("cookie", ""))
    except Exception as error:  # the database or the session store is away, whatever its library calls that
        logger.warning("cannot look up a session: %r", error)
        raise Refused(503, "Sessions cannot be read", "Try again in a few seconds.") from error
    if not is_known:
        raise Refused(401, "Not signed in", f"Sign in at {settings.LOGIN_URL} and come back.")


def _is_signed_in(cookie_header: str) -> bool:
    """What Django's session and authentication middleware check, but read only.

    `django.contrib.auth.get_user` would flush or re-key a session that does not fit, and there is no response here
    that could carry the new cookie.
    """
    session_key = parse_cookie(cookie_header).get(settings.SESSION_COOKIE_NAME)
    if not session_key or "\0" in session_key:  # PostgreSQL would answer the question about one with an error
        return False
    try:
        session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
        backend_path = session.get(BACKEND_SESSION_KEY)
        if SESSION_KEY not in session or backend_path not in settings.AUTHENTICATION_BACKENDS:
            return False
        pk = get_user_model()._meta.pk
        person = load_backend(backend_path).get_user(pk.to_python(session[SESSION_KEY]))
        if person is None or not person.is_active:
            return False
        given = session.get(HASH_SESSION_KEY, "")
        accepted = (person.get_session_auth_hash(), *person.get_session_auth_fallback_hash())
        return any(constant_time_compare(given, one) for one in accepted)
    except (ValidationError, ValueError):  # a session whose content makes no sense
        return False
    finally:
        let_go()


async def _start(send: Send) -> None:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache, no-store"),
        (b"x-accel-buffering", b"no"),  # a proxy that buffered would hold the events back
        (b"x-content-type-options", b"nosniff"),
    ]
    await _send_in_time(send, {"type": "http.response.start", "status": 200, "headers": headers})


async def _send_in_time(send: Send, message: MutableMapping[str, Any]) -> None:
    async with asyncio.timeout(SEND_TIMEOUT_S):
        await send(message)


async def _answer(send: Send, refusal: Refused) -> None:
    body = json.dumps({"title": refusal.title, "status": refusal.status, "detail": refusal.detail}).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if refusal.status == 503:
        headers.append((b"retry-after", b"5"))
    if refusal.status == 405:
        headers.append((b"allow", b"GET"))
    await _send_in_time(send, {"type": "http.response.start", "status": refusal.status, "headers": headers})
    await _send_in_time(send, {"type": "http.response.body", "body": body})


def newest_fact() -> Snapshot:
    """The id of the newest fact, 0 where there is none: one step in the primary key."""
    from events.models import Fact

    newest = Fact.objects.order_by("-id").values_list("id", flat=True).first()
    return {"fact": newest or 0}


_also: list[Callable[[], Snapshot]] = []


def tell_also(read: Callable[[], Snapshot]) -> None:
    """Have open pages look again when one of these numbers changes, too: what people want is nothing that facts know.

    Twice is once.
    """
    if read not in _also:
        _also.append(read)


def newest() -> Snapshot:
    """The newest fact, and what else pages are to be told of."""
    found = dict(newest_fact())
    for read in _also:
        found |= read()
    return found


app = LiveDoor(Pulse(newest, INTERVAL_S))
close = app.close
