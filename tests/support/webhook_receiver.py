"""A receiver of messages: a real HTTP server on this machine that answers as it is told, and keeps what it got."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What is answered to one request; `wait_s` before that, `drip_s` between the bytes of the body."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"ok"
    wait_s: float = 0.0
    drip_s: float = 0.0


@dataclass
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """`replies` are given in order, then `usual`."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.replies: list[Reply] = []
        self.usual = Reply()
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/hook"

    def take(self, got: Got) -> Reply:
        with self._lock:
            self.got.append(got)
            return self.replies.pop(0) if self.replies else self.usual

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                found = {name.lower(): value for name, value in self.headers.items()}
                reply = receiver.take(Got(self.path, found, body))
                time.sleep(reply.wait_s)
                with suppress(OSError):  # the sender has hung up
                    self._answer(reply)

            def _answer(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for byte in reply.body if reply.drip_s else ():
                    time.sleep(reply.drip_s)
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                if not reply.drip_s:
                    self.wfile.write(reply.body)

            def log_message(self, *args: object) -> None:
                """Nothing to the terminal."""

        return Handler


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver that listens until the end of the block."""
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()
