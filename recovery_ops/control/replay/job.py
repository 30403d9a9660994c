"""Runs replays: claims the row, decides in a child process, says how far it has come, and stops when it is told to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime

from django.utils import timezone

from events.queries.recordings import Part, count_recorded, stored
from recovery_ops.control.core import jobs
from recovery_ops.control.core.jobs import BEAT_S, NICE, CancelAsked, SeparateProcess, finish, run_now
from recovery_ops.control.replay.comparison import Comparison
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.replay.process_start import Documents
from recovery_ops.control.replay.processes import Deciders

logger = logging.getLogger(__name__)

MOST_PROCESSES = 4
"""That decide, beside the one that reads: no more than there are processors either."""
__all__ = ["BEAT_S", "MOST_PROCESSES", "NICE", "CancelAsked", "claim", "in_child", "run", "start_next"]


def run(
    replay: Replay, *, clock: Callable[[], float] = time.monotonic, apart: SeparateProcess = run_now, processes: int = 0
) -> None:
    """Do the work of one replay that was claimed, and write down what came of it.

    It is decided in this process, or by so many others.

    The recording is read all the while. SQLite lets nobody write on a connection whose reading began before somebody
    else wrote, so how far it has come is told `apart`.
    """
    try:
        found = _compared(replay, clock, apart, processes)
    except CancelAsked:
        finish(replay, Replay.CANCELLED)
    except Exception as error:
        logger.exception("a replay failed")
        finish(replay, Replay.FAILED, problem=f"{type(error).__name__}: {error}"[:1000])
    else:
        Replay.objects.filter(pk=replay.pk).update(
            result=found.as_document(), done_facts=found.facts, read_facts=found.facts
        )
        finish(replay, Replay.DONE)


def claim(pk: int, *, now: datetime) -> Replay | None:
    """Take a waiting replay; None where somebody was quicker."""
    return jobs.claim(Replay, pk, now=now)


def start_next(*, now: datetime, start: Callable[[Replay], None]) -> Replay | None:
    """Start the replay that has waited longest, unless one runs; tell of one whose process is gone."""
    return jobs.start_next(Replay, now=now, start=start)


def in_child(replay: Replay) -> None:
    """Do the work in a process of its own, so that nothing that answers people or agents waits for it."""
    jobs.in_child(replay, command="replay", folder="replays")


def _compared(replay: Replay, clock: Callable[[], float], apart: SeparateProcess, processes: int) -> Comparison:
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

    def __init__(self, replay: Replay, total: int, clock: Callable[[], float], apart: SeparateProcess) -> None:
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
