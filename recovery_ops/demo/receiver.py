"""The demonstration's receiver of notifications: checks each signature as docs/operating.md tells, and keeps a log.

RECOVERY_OPS_DEMO_SECRET=… python -m recovery_ops.demo.receiver --port 8099
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OLDEST_S = 300
_LARGEST = 1 << 20


def fault_of(secret: str, seconds: str, signature: str, body: bytes, now: float) -> str:
    """What is wrong with a message; empty when it is ours, whole, and not an old one sent again."""
    expected = hmac.new(secret.encode(), seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(f"v1={expected}", signature):
        return "the signature is not of this secret and body"
    if not seconds.isdigit() or abs(now - int(seconds)) > OLDEST_S:
        return "it is older than five minutes"
    return ""


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to a message that is ours, 401 to any other; one line of the log for each."""

    secret = ""

    def do_POST(self) -> None:
        """Take one message."""
        body = self.rfile.read(min(_LARGEST, int(self.headers.get("Content-Length") or 0)))
        seconds = self.headers.get("Recovery-Ops-Timestamp", "")
        fault = fault_of(self.secret, seconds, self.headers.get("Recovery-Ops-Signature", ""), body, time.time())
        said = json.loads(body) if not fault else {}
        print(fault or f"{said['phase']}: {said['title']}", flush=True)
        self.send_response(401 if fault else 204)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """The lines above say it all."""


def main(arguments: list[str]) -> None:
    """Receive until standard input ends."""
    parser = argparse.ArgumentParser(prog="recovery_ops.demo.receiver")
    parser.add_argument("--port", type=int, required=True)
    said = parser.parse_args(arguments)
    Receiver.secret = os.environ.get("RECOVERY_OPS_DEMO_SECRET", "")
    server = ThreadingHTTPServer(("127.0.0.1", said.port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
