"""A server that breaks connections in every way a client has to survive."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

HTTP = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: application/json\r\n"


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drop(peer: socket.socket) -> None:
    """Close without a word."""


def cut_body(peer: socket.socket) -> None:
    peer.sendall(HTTP % b"200 OK" + b"Content-Length: 100\r\n\r\nabc")


def cut_chunks(peer: socket.socket) -> None:
    peer.sendall(HTTP % b"200 OK" + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc")


def garbage(peer: socket.socket) -> None:
    peer.sendall(b"this is not HTTP\r\n\r\n")


def too_many_requests(peer: socket.socket) -> None:
    body = b'{"error":{"type":"rate_limit_error","message":"slow down"}}'
    peer.sendall(HTTP % b"429 Too Many Requests" + b"Retry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@contextlib.contextmanager
def serving(behaviour: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that reads a request and then does this."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, behaviour), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        server.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        thread.join(5)


def _serve(server: socket.socket, behaviour: Callable[[socket.socket], None]) -> None:
    with contextlib.suppress(OSError):
        while True:
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError):
                peer.settimeout(5)
                peer.recv(65_536)
                behaviour(peer)


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """The URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


@contextlib.contextmanager
def refusing() -> Iterator[str]:
    """The URL of a port that is bound but does not listen, so that nobody else takes it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}/"
