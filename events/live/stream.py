"""Tells browsers that there is something new: server-sent events from a plain ASGI door beside Django's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model, load_backend
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from events.live.pulse import Changes, Pulse, Snapshot, let_go

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Sees = Callable[[str], bool]
"""Whether a user sees an environment."""

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


@dataclass
class _Reader:
    """Who reads a stream: `cookie` of the session, and which environments the user sees, as last checked."""

    cookie: str
    sees: Sees


class LiveDoor:
    """Server-sent events for signed-in people: `pulse` whenever something is new in an environment that they see.

    Plain ASGI: an open stream costs a few KiB and no thread. The snapshots of `pulse` are by environment; `sees_of`
    reads what a user sees.
    """

    def __init__(
        self, pulse: Pulse, sees_of: Callable[[AbstractBaseUser], Sees], *, most_streams: int = MOST_STREAMS
    ) -> None:
        self._pulse = pulse
        self._sees_of = sees_of
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
            cookie = headers.get("cookie", "")
            reader = _Reader(cookie, await self._checked(cookie))
            with self._place():
                await self._stream(reader, headers.get("last-event-id", ""), receive, send)
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

    async def _checked(self, cookie: str) -> Sees:
        """What the user of this session sees. Raises Refused: 401 not signed in, 503 it cannot be read now."""
        try:
            sees = await asyncio.to_thread(_seen_by, cookie, self._sees_of)
        except Exception as error:  # the database or the session store is away, whatever its library calls that
            logger.warning("cannot look up a session: %r", error)
            raise Refused(503, "Sessions cannot be read", "Try again in a few seconds.") from error
        if sees is None:
            raise Refused(401, "Not signed in", f"Sign in at {settings.LOGIN_URL} and come back.")
        return sees

    async def _stream(self, reader: _Reader, last_id: str, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        async with self._pulse.follow() as changes:
            gone = asyncio.ensure_future(_disconnected(receive))
            gone.add_done_callback(lambda _: changes.end())
            recheck_at = loop.time() + RECHECK_S
            try:
                await _start(send)
                async with contextlib.aclosing(_chunks(changes, reader, last_id)) as chunks:
                    async for chunk in chunks:
                        await _send_in_time(send, {"type": "http.response.body", "body": chunk, "more_body": True})
                        if loop.time() >= recheck_at:
                            recheck_at = loop.time() + RECHECK_S
                            reader.sees = await self._checked(reader.cookie)
            except Refused:
                logger.info("a live stream ended: its person is signed out")
            finally:
                gone.cancel()
        await _send_in_time(send, {"type": "http.response.body", "body": b"", "more_body": False})


async def _chunks(changes: Changes, reader: _Reader, last_id: str) -> AsyncGenerator[bytes]:
    """The stream's text: an event per change that the reader sees, a comment when there was none for a heartbeat."""
    yield b"retry: 2000\n: live\n\n"
    loop = asyncio.get_running_loop()
    beat_at = loop.time() + settings.HEARTBEAT_S
    while True:
        try:
            async with asyncio.timeout_at(beat_at):
                snapshot = await anext(changes)
        except TimeoutError:
            beat_at = loop.time() + settings.HEARTBEAT_S
            yield b": heartbeat\n\n"
            continue
        except StopAsyncIteration:
            return
        state = _state(snapshot, reader.sees)
        if state != last_id:  # else nothing that the reader sees, or a client that came back and knows this
            last_id, beat_at = state, loop.time() + settings.HEARTBEAT_S
            data = json.dumps({"at": timezone.now().isoformat(timespec="milliseconds")})
            yield f"event: pulse\nid: {state}\ndata: {data}\n\n".encode()


def _state(snapshot: Snapshot, sees: Sees) -> str:
    """A digest of what is newest in the environments that a reader sees."""
    seen = sorted((environment, newest) for environment, newest in snapshot.items() if sees(environment))
    return sha256(repr(seen).encode()).hexdigest()[:16]


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


def _seen_by(cookie_header: str, sees_of: Callable[[AbstractBaseUser], Sees]) -> Sees | None:
    """What Django's session and authentication middleware check, but read only; None for who is not signed in.

    `django.contrib.auth.get_user` would flush or re-key a session that does not fit, and there is no response here
    that could carry the new cookie.
    """
    session_key = parse_cookie(cookie_header).get(settings.SESSION_COOKIE_NAME)
    if not session_key or "\0" in session_key:  # PostgreSQL would answer the question about one with an error
        return None
    try:
        session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
        backend_path = session.get(BACKEND_SESSION_KEY)
        if SESSION_KEY not in session or backend_path not in settings.AUTHENTICATION_BACKENDS:
            return None
        pk = get_user_model()._meta.pk
        person = load_backend(backend_path).get_user(pk.to_python(session[SESSION_KEY]))
        if person is None or not person.is_active:
            return None
        given = session.get(HASH_SESSION_KEY, "")
        accepted = (person.get_session_auth_hash(), *person.get_session_auth_fallback_hash())
        return sees_of(person) if any(constant_time_compare(given, one) for one in accepted) else None
    except (ValidationError, ValueError):  # a session whose content makes no sense
        return None
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
