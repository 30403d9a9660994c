"""Long work whose row drives it: claimed once, done in a process of its own, called off by a mark on the row.

A task only looks whether something waits, so a lost or doubled one changes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.db import connections
from django.utils import timezone

from recovery_ops.control.core.models.jobs import Job
from recovery_ops.server.child_process import Child

J = TypeVar("J", bound=Job)

BEAT_S = 1.0
LOST_AFTER = timedelta(seconds=60)
"""A process that has said nothing for this long is gone."""
NICE = 10
"""Behind everything that answers people and agents."""


class CancelAsked(Exception):
    """Somebody called it off while it ran."""


SeparateProcess = Callable[[Callable[[], bool]], bool]
"""Does a piece of work on another connection, and waits for it."""


def run_now(work: Callable[[], bool]) -> bool:
    """On the same connection: for a database that nobody else writes to meanwhile."""
    return work()


def claim(kind: type[J], pk: int, *, now: datetime) -> J | None:
    """Take what waits; None where somebody was quicker."""
    waiting = kind._default_manager.filter(pk=pk, state=Job.WAITING)
    if not waiting.update(state=Job.RUNNING, started_at=now, beat_at=now):
        return None
    return kind._default_manager.get(pk=pk)


def start_next(kind: type[J], *, now: datetime, start: Callable[[J], None]) -> J | None:
    """Start what has waited longest, unless one of its kind runs; tell of one whose process is gone."""
    every = kind._default_manager
    lost = every.filter(state=Job.RUNNING, beat_at__lt=now - LOST_AFTER)
    lost.update(state=Job.FAILED, finished_at=now, problem="Its process ended before it was done. Start it again.")
    if every.filter(state=Job.RUNNING).exists():
        return None
    waiting = every.filter(state=Job.WAITING).order_by("asked_at", "pk").first()
    claimed = None if waiting is None else claim(kind, waiting.pk, now=now)
    if claimed is not None:
        start(claimed)
    return claimed


def finish(job: Job, state: str, *, problem: str = "") -> None:
    """Write down how it ended, where nobody has said so before."""
    mine = type(job)._default_manager.filter(pk=job.pk, state=Job.RUNNING)
    mine.update(state=state, finished_at=timezone.now(), problem=problem)


def cancel_job(job: Job, *, now: datetime) -> None:
    """What waits is over at once; what runs hears of it at its next look."""
    mine = type(job)._default_manager.filter(pk=job.pk)
    waiting = mine.filter(state=Job.WAITING)
    if not waiting.update(state=Job.CANCELLED, finished_at=now, is_cancel_asked=True):
        mine.update(is_cancel_asked=True)
    job.refresh_from_db()


def in_child(job: Job, *, command: str, folder: str) -> None:
    """Do the work in a process of its own, so that nothing that answers people or agents waits for it.

    It runs `django COMMAND PK`; `folder` of the data directory holds what it prints.
    """
    argv = [sys.executable, "-m", "django", command, str(job.pk)]
    ours = {
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "recovery_ops.settings"),
        "RECOVERY_OPS_DATA": str(settings.DATA_DIR),
    }
    child = Child(
        argv,
        env={**os.environ, **ours},
        folder=settings.BASE_DIR,
        log=settings.DATA_DIR / folder / f"{job.environment}-{job.number}.log",
        on_death=lambda code: _noted_death(job, code),
    )
    child.start()
    _children[type(job), job.pk] = child


_children: dict[tuple[type[Job], int], Child] = {}
"""Those that this process started: a child whose handle is forgotten would lose its standard input, and end."""


def _noted_death(job: Job, code: int) -> None:
    """It ended by itself: mostly because it was done. From a thread of its own, which keeps no connection."""
    _children.pop((type(job), job.pk), None)
    try:
        finish(
            job,
            Job.FAILED,
            problem=f"Its process ended with code {code}. Its log in the data directory has the details.",
        )
    finally:
        connections.close_all()


# -- the tray of the header: a mark in the session, so that pages of people without jobs ask for nothing --------------
_TRAY_KEY = "jobs_until"
_TRAY_FOR = timedelta(days=1)


def put_into_tray(session: SessionBase, now: datetime) -> None:
    """From now on the pages of this session show the tray."""
    session[_TRAY_KEY] = (now + _TRAY_FOR).timestamp()


def in_tray(session: SessionBase, now: datetime) -> bool:
    """Whether this session has asked for something that may still go on."""
    return float(session.get(_TRAY_KEY, 0.0)) > now.timestamp()


def leave_tray(session: SessionBase) -> None:
    """Nothing goes on any more."""
    session.pop(_TRAY_KEY, None)
