"""A receiver of messages that counts what comes in, and can keep one sender waiting while something is done to it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_HELD_S = 30.0
_LARGEST = 1 << 20


class Receiver:
    """Listens on a free port of this machine. `counts` is how often each message came, by its number."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._holds = False
        self._is_held, self._may_go = threading.Event(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def hold_next(self) -> None:
        """Answer the next message only when told to."""
        self._is_held.clear()
        self._may_go.clear()
        with self._lock:
            self._holds = True

    def waits_for_held(self, timeout_s: float) -> bool:
        """Wait until a message is held; say whether one is."""
        return self._is_held.wait(timeout_s)

    def let_go(self) -> None:
        """Answer what is held, and hold nothing more."""
        with self._lock:
            self._holds = False
        self._may_go.set()

    def take(self, body: bytes) -> None:
        """Count one message, and keep it waiting where that was asked for."""
        number = int(json.loads(body)["id"])
        with self._lock:
            self.counts[number] += 1
            is_held, self._holds = self._holds, False
        if is_held:
            self._is_held.set()
            self._may_go.wait(_HELD_S)

    def close(self) -> None:
        """End it."""
        self.let_go()
        self._server.shutdown()
        self._server.server_close()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self.rfile.read(min(_LARGEST, int(self.headers["Content-Length"]))))
            with suppress(OSError):  # the sender is gone: that is what it is about
                self.send_response(204)
                self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Nothing to the terminal."""

    return Handler
