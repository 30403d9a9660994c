"""Celery's schedulers, for a clock that may be set back and a worker that may be slow.

They remember when each task ran last, and by which moment of the clock each is next. Set back by a day, that clock
would let nothing run for a day: what lies in the future never was, so it counts as a moment ago. Here, and not in the
tasks: they look at tables, and need no more than to be asked. Each ask says when it was made
(`recovery_ops.server.coalesced_tasks`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from celery import beat

from recovery_ops.server.coalesced_tasks import ASKED_S

if TYPE_CHECKING:
    _Base = beat.Scheduler
else:
    _Base = object


class _Steady(_Base):
    """Before each tick: no task ran in the future."""

    def tick(self, *arguments: Any, **more: Any) -> Any:
        """Ask for what is due; return after how many seconds to come again."""
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at and entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self._heap = None  # its moments are of the clock as it was: it is made anew
        return super().tick(*arguments, **more)

    def schedules_equal(self, *schedules: Any) -> bool:
        """Whether two are the same. Ours is made at the start: entries change by having run, and that is no change."""
        before, now = (schedule and schedule.keys() for schedule in schedules)
        return bool(before == now)

    def apply_async(self, entry: beat.ScheduleEntry, *arguments: Any, **more: Any) -> Any:
        """Ask for one."""
        options = entry.options or {}
        said = {**options, "headers": {**options.get("headers", {}), ASKED_S: time.time()}}
        # Not copied: an entry that is copied knows no application, and takes it from the schedule that both share.
        return super().apply_async(type(entry)(**{**vars(entry), "options": said}), *arguments, **more)


class Scheduler(_Steady, beat.Scheduler):
    """Remembers in memory: the one inside the server."""


class PersistentScheduler(_Steady, beat.PersistentScheduler):
    """Remembers in a file: a process of its own."""
