"""A plain ASGI door beside Django, mounted by `recovery_ops/asgi.py`.

The contract with the dispatcher: `app` answers HTTP requests; `close` is called on the event loop when the server
begins to end, and every open stream has to return soon after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 503: nothing is mounted here yet."""
    headers = [(b"retry-after", b"1"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def close() -> None:
    """Nothing is open."""


def wake() -> None:
    """Nobody follows."""
