"""Deadlines of many calls with one timer: what a call pays is an entry in a queue, not a timer of its own.

All entries of a line have the same deadline, so the first to come is the first to expire and one timer, for the head of
the queue, is enough. asyncio only; trio's own cancel scopes are cheap.
"""

from __future__ import annotations

import asyncio
from collections import deque

LIVE, OVER, EXPIRED = range(3)

# [when it expires on the loop's clock, the task, LIVE | OVER | EXPIRED, cancels of the task that were not ours]
# A list and not an object: every call makes one.
Entry = list[object]


class Line:
    """The calls of one event loop with one deadline, in the order in which they began."""

    __slots__ = ("_entries", "_handle", "deadline_s", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.loop = loop
        self._entries: deque[Entry] = deque()
        self._handle: asyncio.TimerHandle | None = None

    def begin(self, at: float, task: asyncio.Task[object] | None) -> Entry:
        """Time a call; `at`, on the loop's clock, is never before that of an earlier call."""
        entry: Entry = [at, task, LIVE, 0]
        self._entries.append(entry)
        if self._handle is None:
            self._handle = self.loop.call_at(at, self._fire)
        return entry

    def end(self, entry: Entry) -> None:
        """The call is over, however it ended."""
        if entry[2] is LIVE:
            entry[2] = OVER
        entries = self._entries
        while entries and entries[0][2] is not LIVE:
            entries.popleft()

    def _fire(self) -> None:
        now, entries = self.loop.time(), self._entries
        self._handle = None
        # The loop's clock may be coarser than the one the calls were begun by.
        while entries and (entries[0][2] is not LIVE or _at(entries[0]) <= now + 0.002):
            entry = entries.popleft()
            task = entry[1]
            if entry[2] is LIVE and isinstance(task, asyncio.Task):
                entry[2] = EXPIRED
                entry[3] = task.cancelling()
                task.cancel()
        if entries:
            self._handle = self.loop.call_at(_at(entries[0]), self._fire)


def is_timeout(entry: Entry) -> bool:
    """After a CancelledError: whether the cancel was ours. Takes our cancel back; somebody else's stays."""
    task, before = entry[1], entry[3]
    if entry[2] is not EXPIRED or not isinstance(task, asyncio.Task) or not isinstance(before, int):
        return False
    return task.uncancel() <= before


def _at(entry: Entry) -> float:
    at = entry[0]
    return at if isinstance(at, float) else 0.0


class Timers:
    """The lines of one operation, by event loop; `latest` is the one that was asked for last."""

    __slots__ = ("_lines", "latest")

    def __init__(self) -> None:
        self._lines: dict[asyncio.AbstractEventLoop, Line] = {}
        self.latest: Line | None = None

    def line(self, loop: asyncio.AbstractEventLoop, deadline_s: float) -> Line:
        """The line of this loop. After an edit of the deadline it is a new one; the old one runs dry."""
        latest = self.latest
        if latest is not None and latest.loop is loop and latest.deadline_s == deadline_s:
            return latest
        found = self._lines.get(loop)
        if found is None or found.deadline_s != deadline_s:
            self._lines = {other: line for other, line in self._lines.items() if not other.is_closed()}
            found = self._lines[loop] = Line(loop, deadline_s)
        self.latest = found
        return found
