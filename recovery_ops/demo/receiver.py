"""The demonstration's receiver of notifications: a signed webhook, a chat, a pager, and a mailbox. It keeps a log.

Signatures are checked as in docs/operate/notifications.md. The chat and the pager take what Slack and PagerDuty take.
The chat is busy when the first message comes, and one chat is closed for good: it shows what is tried again and what
is not.

RECOVERY_OPS_DEMO_SECRET=… python -m recovery_ops.demo.receiver --port 8099 --mail-port 8025
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
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import ThreadingTCPServer

from recovery_ops.demo.mailbox import Mailbox

OLDEST_S = 300
_LARGEST = 1 << 20
WEBHOOK, CHAT, PAGER, CLOSED = "/", "/chat", "/pager/v2/enqueue", "/closed"
"""Where each form is received, and the chat that takes nothing any more."""


def fault_of(secret: str, seconds: str, signature: str, body: bytes, now: float) -> str:
    """What is wrong with a message; empty when it is ours, whole, and not an old one sent again."""
    expected = hmac.new(secret.encode(), seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(f"v1={expected}", signature):
        return "the signature is not of this secret and body"
    if not seconds.isdigit() or abs(now - int(seconds)) > OLDEST_S:
        return "it is older than five minutes"
    return ""


def heard(path: str, headers: Mapping[str, str], body: bytes, *, secret: str, now: float) -> tuple[int, str]:
    """What a message is answered, and the line of the log that it is."""
    if path == WEBHOOK:
        seconds, signature = (headers.get(f"Recovery-Ops-{name}", "") for name in ("Timestamp", "Signature"))
        if fault := fault_of(secret, seconds, signature, body, now):
            return 401, fault
        said = json.loads(body)
        return 204, f"{said['phase']}: {said['title']}"
    if path == CLOSED:
        return 410, "closed: a message came for a chat that is no more"
    if path == CHAT:
        return 200, "chat: {}".format(json.loads(body)["text"].partition("\n")[0])
    said = json.loads(body) if path == PAGER else {}
    if said.get("routing_key") != secret:
        return 400, "the routing key is not known here"
    summary = f": {said['payload']['summary']}" if "payload" in said else ""
    return 202, f"pager: {said['event_action']} {said['dedup_key']}{summary}"


class Receiver(BaseHTTPRequestHandler):
    """Answers 2xx to a message that is ours, 4xx to any other; one line of the log for each.

    The first message to the chat is answered 503, and has to come again.
    """

    secret = ""
    is_busy = True

    def do_POST(self) -> None:
        """Take one message."""
        body = self.rfile.read(min(_LARGEST, int(self.headers.get("Content-Length") or 0)))
        sent = {name.title(): value for name, value in self.headers.items()}
        status, line = heard(self.path, sent, body, secret=self.secret, now=time.time())
        if self.path == CHAT and Receiver.is_busy:
            Receiver.is_busy = False
            status, line = 503, f"busy: {line}"
        print(line, flush=True)
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "2")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """The lines above say it all."""


def main(arguments: list[str]) -> None:
    """Receive until standard input ends."""
    parser = argparse.ArgumentParser(prog="recovery_ops.demo.receiver")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mail-port", type=int, required=True)
    said = parser.parse_args(arguments)
    Receiver.secret = os.environ.get("RECOVERY_OPS_DEMO_SECRET", "")
    server = ThreadingHTTPServer(("127.0.0.1", said.port), Receiver)
    mailbox = ThreadingTCPServer(("127.0.0.1", said.mail_port), Mailbox)
    for one in (server, mailbox):
        threading.Thread(target=one.serve_forever, daemon=True).start()
    sys.stdin.read()
    server.shutdown()
    mailbox.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
