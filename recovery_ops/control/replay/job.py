"""Runs replays: claims the row, decides in a child process, says how far it has come, and stops when it is told to."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connections
from django.utils import timezone

from events.queries.recordings import Part, count_recorded, stored
from recovery_ops.children import Child
from recovery_ops.control.models import Replay
from recovery_ops.control.replay.beginning import Documents
from recovery_ops.control.replay.comparing import Comparison
from recovery_ops.control.replay.sharing import Deciders

logger = logging.getLogger(__name__)

BEAT_S = 1.0
LOST_AFTER = timedelta(seconds=60)
"""A process that has said nothing for this long is gone."""
MOST_PROCESSES = 4
"""That decide, beside the one that reads: no more than there are processors either."""
NICE = 10
"""Behind everything that answers people and agents."""


class CancelAsked(Exception):
    """Somebody called it off while it ran."""


Apart = Callable[[Callable[[], bool]], bool]
"""Does a piece of work on another connection, and waits for it."""


def at_once(work: Callable[[], bool]) -> bool:
    """On the same connection: for a database that nobody else writes to meanwhile."""
    return work()


def run(
    replay: Replay, *, clock: Callable[[], float] = time.monotonic, apart: Apart = at_once, processes: int = 0
) -> None:
    """Do the work of one replay that was claimed, and write down what came of it.

    It is decided in this process, or by so many others.

    The recording is read all the while. SQLite lets nobody write on a connection whose reading began before somebody
    else wrote, so how far it has come is told `apart`.
    """
    try:
        found = _compared(replay, clock, apart, processes)
    except CancelAsked:
        _finish(replay, Replay.CANCELLED)
    except Exception as error:
        logger.exception("a replay failed")
        _finish(replay, Replay.FAILED, problem=f"{type(error).__name__}: {error}"[:1000])
    else:
        Replay.objects.filter(pk=replay.pk).update(
            result=found.as_document(), done_facts=found.facts, read_facts=found.facts
        )
        _finish(replay, Replay.DONE)


def claim(pk: int, *, now: datetime) -> Replay | None:
    """Take a waiting replay; None where somebody was quicker."""
    waiting = Replay.objects.filter(pk=pk, state=Replay.WAITING)
    if not waiting.update(state=Replay.RUNNING, started_at=now, beat_at=now):
        return None
    return Replay.objects.get(pk=pk)


def start_next(*, now: datetime, start: Callable[[Replay], None]) -> Replay | None:
    """Start the replay that has waited longest, unless one runs; tell of one whose process is gone."""
    lost = Replay.objects.filter(state=Replay.RUNNING, beat_at__lt=now - LOST_AFTER)
    lost.update(state=Replay.FAILED, finished_at=now, problem="Its process ended before it was done. Start it again.")
    if Replay.objects.filter(state=Replay.RUNNING).exists():
        return None
    waiting = Replay.objects.filter(state=Replay.WAITING).order_by("asked_at", "pk").first()
    claimed = None if waiting is None else claim(waiting.pk, now=now)
    if claimed is not None:
        start(claimed)
    return claimed


def in_child(replay: Replay) -> None:
    """Do the work in a process of its own, so that nothing that answers people or agents waits for it."""
    argv = [sys.executable, "-m", "django", "replay", str(replay.pk)]
    ours = {
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "recovery_ops.settings"),
        "RECOVERY_OPS_DATA": str(settings.DATA_DIR),
    }
    child = Child(
        argv,
        env={**os.environ, **ours},
        folder=settings.BASE_DIR,
        log=settings.DATA_DIR / "replays" / f"{replay.environment}-{replay.number}.log",
        on_death=lambda code: _noted_death(replay, code),
    )
    child.start()
    _children[replay.pk] = child


_children: dict[int, Child] = {}
"""Those that this process started: a child whose handle is forgotten would lose its standard input, and end."""


def _noted_death(replay: Replay, code: int) -> None:
    """It ended by itself: mostly because it was done. From a thread of its own, which keeps no connection."""
    _children.pop(replay.pk, None)
    try:
        running = Replay.objects.filter(pk=replay.pk, state=Replay.RUNNING)
        problem = f"Its process ended with code {code}. The log of the replay tells more."
        running.update(state=Replay.FAILED, finished_at=timezone.now(), problem=problem)
    finally:
        connections.close_all()


def _compared(replay: Replay, clock: Callable[[], float], apart: Apart, processes: int) -> Comparison:
    part = Part(
        environment=replay.environment,
        start_us=int(replay.start_at.timestamp() * 1e6),
        end_us=int(replay.end_at.timestamp() * 1e6),
        service=replay.service,
        operation=replay.operation,
    )
    progress = _Progress(replay, count_recorded(part), clock, apart)
    under = Documents(
        old=replay.old_document,
        new=replay.new_document,
        old_version=replay.old_version,
        start_s=replay.start_at.timestamp(),
    )
    with Deciders(under, processes=processes, meanwhile=progress.look) as deciders:
        for speaker, pages in stored(part):
            deciders.decide(speaker, pages)
        return deciders.found()


class _Progress:
    """Tells the row how far it has come, about once a second, and hears whether it is to stop."""

    def __init__(self, replay: Replay, total: int, clock: Callable[[], float], apart: Apart) -> None:
        self._replay, self._clock, self._apart = replay, clock, apart
        self._next_s = clock() + BEAT_S
        Replay.objects.filter(pk=replay.pk).update(total_facts=total)

    def look(self, done_facts: int, read_facts: int) -> None:
        """Raise CancelAsked when somebody called it off."""
        if self._clock() < self._next_s:
            return
        self._next_s = self._clock() + BEAT_S
        if self._apart(lambda: self._told(done_facts, read_facts)):
            raise CancelAsked

    def _told(self, done_facts: int, read_facts: int) -> bool:
        """Write it down; return whether it is to stop."""
        mine = Replay.objects.filter(pk=self._replay.pk)
        mine.update(done_facts=done_facts, read_facts=read_facts, beat_at=timezone.now())
        return bool(mine.values_list("is_cancel_asked", flat=True).first())


def _finish(replay: Replay, state: str, *, problem: str = "") -> None:
    mine = Replay.objects.filter(pk=replay.pk, state=Replay.RUNNING)
    mine.update(state=state, finished_at=timezone.now(), problem=problem)
