"""Sends where the chains of the audit log end to a place that whoever writes to the database cannot write to.

One JSON line for each chain. Its signature is an HMAC-SHA256 by a secret of the sender's, over what the line says, so a
line that somebody else put there is known; `manage.py audit verify --anchors` asks for both.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from recovery_ops.control.core.audit_log import Anchor
from recovery_ops.control.notifications import transport

_VERSION = "v1"


class NotSent(Exception):
    """The anchors lie nowhere else yet; the text says why."""


def signed(anchor: Anchor, at: datetime, secret: str) -> str:
    """The line for one anchor, noted at this moment."""
    said = {**asdict(anchor), "at": at.isoformat(timespec="seconds")}
    return json.dumps({**said, "signature": _signature(said, secret)})


def is_signed_by(said: dict[str, Any], secret: str) -> bool:
    """Whether a line, read as JSON, has the signature that this secret makes."""
    kept = {name: value for name, value in said.items() if name != "signature"}
    return hmac.compare_digest(str(said.get("signature", "")).encode(), _signature(kept, secret).encode())


def send(lines: Iterable[str], to: str) -> None:
    """Append the lines to a file (kept for this user alone, and on the disk when this returns), or post them.

    An address is one that messages may go to: https, not in our own network, no redirects; it has taken them when it
    answers 2xx. Raises NotSent.
    """
    body = "".join(f"{line}\n" for line in lines).encode()
    if "://" in to:
        _post(to, body)
        return
    try:
        descriptor = os.open(Path(to), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(body)
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise NotSent(f"{to} cannot be written: {error.strerror or error}.") from error


def _post(to: str, body: bytes) -> None:
    try:
        answer = transport.post(to, body, {"Content-Type": "application/x-ndjson", "User-Agent": "recovery-ops"})
    except (transport.Unsendable, transport.Unreached) as error:
        raise NotSent(str(error)) from error
    if not 200 <= answer.status < 300:
        raise NotSent(f"Response status {answer.status}.")


def _signature(said: dict[str, Any], secret: str) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    return f"{_VERSION}={hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()}"
