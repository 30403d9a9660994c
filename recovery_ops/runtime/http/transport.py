"""HTTP to one server, for events out and the desired state in; imported in a background thread, because it is heavy.

No redirects (a redirect is an answer, and not a yes), no retries of its own, bodies of bounded size, and a deadline
for the whole of an answer. Proxies are those of the environment, and none for this machine itself.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # else loaded by the first connection, where a fork may come in between
import ipaddress
import math
import os
import socket
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from recovery_ops import __version__
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.runtime.process.clock import Clock

ASKED_CAP_S = 300.0
"""The longest pause that a server can ask for: a proxy in a bad mood must not silence an agent for a day."""
_CONNECT_S = 5.0
_CHUNK_BYTES = 65_536


class NoAnswer(Exception):
    """No whole answer came: refused, reset, cut, too slow, too long, or not HTTP."""


class Silence(NoAnswer):
    """The server, or something between, has the request and says nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """The content type alone."""
        return media_type(self.headers)

    def asked_s(self, wall: float) -> float | None:
        """The pause that the server asks for, in seconds from `wall` (now, seconds since the epoch)."""
        return asked_s(self.headers.get("retry-after", ""), wall)


class Transport:
    """Requests to the server at `url`, with the key. Used by one thread at a time."""

    def __init__(self, url: str, key: str, clock: Clock) -> None:
        self._clock = clock
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": f"recovery-ops/{__version__}", "Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        proxy = _proxy_for(self._url)
        # Two connections: one may still be reading a stream that was given up.
        self._pool: urllib3.PoolManager = (
            urllib3.ProxyManager(proxy, num_pools=1, maxsize=2) if proxy else urllib3.PoolManager(1, maxsize=2)
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_s: float,
        limit_bytes: int,
    ) -> Answer:
        """One request and its whole answer; NoAnswer if there is none in time or it is longer than `limit_bytes`."""
        until = self._clock.now() + timeout_s
        with self.open(method, path, headers=headers, body=body, read_s=timeout_s) as response:
            chunks, size = [], 0
            while chunk := read_some(response):
                size += len(chunk)
                if size > limit_bytes:
                    raise NoAnswer(f"the answer is longer than {limit_bytes} bytes")
                if self._clock.now() > until:
                    raise NoAnswer(f"the answer was not there after {timeout_s:g} s")
                chunks.append(chunk)
            return Answer(response.status, _lower(response), b"".join(chunks))

    @contextlib.contextmanager
    def open(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None, read_s: float
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """A request and the beginning of its answer; `read_s` is the longest silence. NoAnswer if none begins."""
        try:
            response = self._pool.request(
                method,
                self._url + path,
                body=body,
                headers={**self._headers, **headers},
                retries=False,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=min(_CONNECT_S, read_s), read=read_s),
            )
        except ReadTimeoutError as error:
            raise Silence(_said(error)) from error
        except (HTTPError, OSError, ValueError) as error:
            raise NoAnswer(_said(error)) from error
        try:
            yield response
        finally:
            # An answer that was read to its end has given its connection back; the rest of any other is not waited for.
            with contextlib.suppress(HTTPError, OSError, ValueError):
                response.close()
            response.release_conn()

    def close(self) -> None:
        """Close what is open."""
        self._pool.clear()


def read_some(response: urllib3.BaseHTTPResponse) -> bytes:
    """What has arrived, at least one byte; nothing at the end; NoAnswer if it is cut, Silence if nothing comes."""
    try:
        return response.read1(_CHUNK_BYTES)
    except ReadTimeoutError as error:
        raise Silence(_said(error)) from error
    except (HTTPError, OSError, ValueError) as error:
        raise NoAnswer(_said(error)) from error


def allow_silence(response: urllib3.BaseHTTPResponse, silence_s: float) -> None:
    """From here on so much silence is normal.

    A server that closes after this answer has taken the socket along: then what was allowed at the beginning stays.
    """
    if (sock := _socket_of(response)) is not None:
        sock.settimeout(silence_s)


def interrupt(response: urllib3.BaseHTTPResponse) -> None:
    """End the reading of it in another thread, now."""
    with contextlib.suppress(ValueError, RuntimeError, OSError):  # it has ended by itself
        response.shutdown()


def abandon(response: urllib3.BaseHTTPResponse) -> None:
    """In a forked child: let go of the parent's connection without a word on it.

    Only the descriptor is closed. The objects around it have locks that a thread of the parent may have held, which
    nobody here would ever give back.
    """
    if (sock := _socket_of(response)) is not None:
        with contextlib.suppress(OSError):
            os.close(sock.detach())


def media_type(headers: Mapping[str, str]) -> str:
    """The content type, lower case and without parameters; empty if none is given."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def asked_s(text: str, wall: float) -> float | None:
    """A Retry-After header in seconds from now, at most ASKED_CAP_S; None where it says nothing that makes sense."""
    try:
        seconds = float(text)
    except ValueError:
        at = epoch_of(text)
        if at is None:
            return None
        seconds = at - wall
    return min(seconds, ASKED_CAP_S) if 0 <= seconds < math.inf else None


def epoch_of(text: str) -> float | None:
    """An HTTP date in seconds since the epoch."""
    try:
        at: datetime = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _proxy_for(url: str) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_this_machine(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy and proxy.startswith(("http://", "https://")) else None


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _lower(response: urllib3.BaseHTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _socket_of(response: urllib3.BaseHTTPResponse) -> socket.socket | None:
    found = getattr(response.connection, "sock", None)
    return found if isinstance(found, socket.socket) else None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
