"""The stream for browsers: who is let in, what is sent, and that it ends at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from events.live.stream import LiveDoor


class Browser:
    """One request to the door, without a network: what was sent, and a way to leave."""

    def __init__(self, headers: dict[str, str], method: str = "GET") -> None:
        self.scope = {
            "type": "http",
            "method": method,
            "path": "/live/stream",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self._sent.put_nowait(message["body"])

    def leave(self) -> None:
        self._left.set()

    async def next_chunk(self) -> bytes:
        return await asyncio.wait_for(self._sent.get(), 10)

    async def next_event(self) -> dict[str, str]:
        while True:
            lines = (await self.next_chunk()).decode().strip().splitlines()
            event = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if "event" in event:
                return event


def refused(door: LiveDoor, headers: dict[str, str], method: str = "GET") -> tuple[int, dict[str, Any]]:
    """The status and the document of an answer that is not a stream."""

    async def ask() -> tuple[int, dict[str, Any]]:
        browser = Browser(headers, method)
        await asyncio.wait_for(door(browser.scope, browser.receive, browser.send), 10)
        return browser.status, json.loads(await browser.next_chunk())

    return asyncio.run(ask())
