"""Deadlines of many calls with one timer: what a call pays is an entry in a queue, not a timer of its own.

All entries of a line have the same deadline, so the first to come is the first to expire and one timer, for the head
of the queue, is enough. asyncio only; trio's own cancel scopes are cheap.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

LIVE, OVER, EXPIRED = range(3)

# [when it is due on the loop's clock, the task, LIVE | OVER | EXPIRED, the task's cancels when it began, its line]
# A list and not an object: every call makes one.
Entry = list[Any]

_task_of: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None] = asyncio.current_task
_running_loop = asyncio._get_running_loop
_IS_ASKING_DEAR = sys.version_info < (3, 12)
"""Before 3.12 asking for the running loop is a system call, as long as all the rest of a call on the fast path."""
if _IS_ASKING_DEAR:
    # There `current_task` is this very look-up behind a Python function that asks for the loop.
    _task_of = vars(asyncio.tasks)["_current_tasks"].get


class Line:
    """The calls of one event loop with one deadline, in the order in which they began. Only the loop's thread comes."""

    __slots__ = ("deadline_s", "entries", "handle", "is_told_by_thread", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        self.loop: Any = loop
        self.entries: deque[Entry] = deque()
        self.handle: asyncio.TimerHandle | None = None
        self.is_told_by_thread = _IS_ASKING_DEAR and hasattr(loop, "_thread_id")
        """asyncio's own loops know which thread runs them now, None where none does; a thread runs one loop."""

    def watch(self) -> None:
        """See to the first entry; the timer stays when the line runs dry, so that the next call finds one."""
        if self.handle is None:
            self.handle = self.loop.call_at(self.entries[0][0], self._fire)

    def _fire(self) -> None:
        now, entries = self.loop.time(), self.entries
        self.handle = None
        # The loop's clock may be coarser than the one the calls were begun by.
        while entries and (entries[0][2] is not LIVE or entries[0][0] <= now + 0.002):
            entry = entries.popleft()
            task = entry[1]
            if entry[2] is LIVE:
                entry[2] = EXPIRED
                task.cancel()
        if entries:
            self.watch()


class Timers:
    """The lines of one operation, by event loop."""

    __slots__ = ("_latest", "_lines")

    def __init__(self) -> None:
        self._lines: dict[asyncio.AbstractEventLoop, Line] = {}
        self._latest: Line | None = None

    def begin(self, deadline_s: float, began: float | None) -> Entry | None:
        """Time a call of the current task, from `began` on the loop's clock or from now. None: asyncio does not run us.

        Any thread may come: each finds the line of its own loop.
        """
        line = self._latest
        if (
            line is None
            or not line.is_told_by_thread
            or line.deadline_s != deadline_s
            or line.loop._thread_id != get_ident()
        ):
            line = self._here(deadline_s)
            if line is None:
                return None
        loop = line.loop
        task = _task_of(loop)
        if task is None:
            return None
        entry: Entry = [(loop.time() if began is None else began) + deadline_s, task, LIVE, task.cancelling(), line]
        line.entries.append(entry)
        if line.handle is None:
            line.watch()
        return entry

    def forget(self) -> None:
        """After a fork: the loops of the parent do not run in the child, whatever they say."""
        self._lines, self._latest = {}, None

    def _here(self, deadline_s: float) -> Line | None:
        """The line of the loop that runs this thread; a new one after an edit of the deadline, the old one runs dry."""
        loop = _running_loop()
        if loop is None:
            return None
        found = self._lines.get(loop)
        if found is None or found.deadline_s != deadline_s:
            self._lines = {other: line for other, line in self._lines.items() if not other.is_closed()}
            found = self._lines[loop] = Line(loop, deadline_s)
        self._latest = found
        return found


def end(entry: Entry) -> bool:
    """The call is over, however it ended. True: its time was up, and a CancelledError was ours.

    Takes our cancel back, also where the call swallowed it; somebody else's stays.
    """
    state, entry[2] = entry[2], OVER
    entries = entry[4].entries
    while entries and entries[0][2] is not LIVE:
        entries.popleft()
    return state is EXPIRED and bool(entry[1].uncancel() <= entry[3])
