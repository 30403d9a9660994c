"""Notes that tasks run and that the scheduler asks for them: in memory at once, in the database every few seconds.

What cannot be noted is forgotten: a sign of life must never keep anything from living.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from celery import signals
from django.db import connection
from django.utils import timezone

from recovery_ops.control.core.models.heartbeats import Beat

logger = logging.getLogger(__name__)

WRITE_EVERY_S = 10.0
_FAILURE_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One task's newest run, and its newest failure."""

    at: datetime
    took_s: float | None = None
    failed_at: datetime | None = None
    failure: str = ""


class HeartbeatLog:
    """The signs of this process since it last wrote. Used by all threads of a worker."""

    def __init__(self, *, write_every_s: float = WRITE_EVERY_S) -> None:
        self._write_every_s = write_every_s
        self._lock = threading.Lock()
        self._signs: dict[str, Sign] = {}
        self._written_at = float("-inf")

    def note(self, name: str, sign: Sign, *, now_s: float) -> None:
        """Keep a sign; write them all when it is time. `now_s` is monotonic."""
        with self._lock:
            kept = self._signs.get(name)
            if kept is not None and kept.failed_at is not None and sign.failed_at is None:
                sign = replace(sign, failed_at=kept.failed_at, failure=kept.failure)
            self._signs[name] = sign
            if now_s - self._written_at < self._write_every_s:
                return
            due, self._signs, self._written_at = self._signs, {}, now_s
        write(due)


def write(signs: dict[str, Sign]) -> None:
    """Write signs of life down, in two statements. An older failure stays until there is a newer one."""
    place = socket.gethostname()
    rows = [
        Beat(
            name=name,
            at=sign.at,
            took_s=sign.took_s,
            place=place,
            failed_at=sign.failed_at,
            failure=sign.failure,
        )
        for name, sign in sorted(signs.items())
    ]
    for is_failure in (False, True):
        fields = ["at", "took_s", "place", *(["failed_at", "failure"] if is_failure else [])]
        part = [row for row in rows if (row.failed_at is not None) is is_failure]
        if part:
            Beat.objects.bulk_create(part, update_conflicts=True, unique_fields=["name"], update_fields=fields)


_notebook = HeartbeatLog()
_started: dict[str, float] = {}


def follow() -> None:
    """Listen to Celery in this process. Twice is once."""
    signals.task_prerun.connect(_began, dispatch_uid="beats")
    signals.task_postrun.connect(_ended, dispatch_uid="beats")
    signals.task_failure.connect(_failed, dispatch_uid="beats")
    signals.before_task_publish.connect(_asked, dispatch_uid="beats")


def _began(task_id: str = "", **_: Any) -> None:
    _started[task_id] = time.monotonic()


def _ended(sender: Any = None, task_id: str = "", state: str = "", **_: Any) -> None:
    began = _started.pop(task_id, None)
    if state not in ("FAILURE", "IGNORED"):  # who was answered by another look did not run
        took_s = None if began is None else time.monotonic() - began
        _note(sender.name, Sign(at=timezone.now(), took_s=took_s))


def _failed(sender: Any = None, exception: BaseException | None = None, **_: Any) -> None:
    now = timezone.now()
    _note(sender.name, Sign(at=now, failed_at=now, failure=repr(exception)[:_FAILURE_CHARS]))


def _asked(**_: Any) -> None:
    _note(Beat.SCHEDULER, Sign(at=timezone.now()))


def _note(name: str, sign: Sign) -> None:
    is_in_transaction = connection.in_atomic_block
    try:
        _notebook.note(name, sign, now_s=time.monotonic())
    except Exception as error:  # whatever it is, the task itself is done
        logger.info("a sign of life could not be written: %r", error)
    finally:
        if not is_in_transaction and name == Beat.SCHEDULER:
            connection.close()  # the scheduler's thread uses the database for nothing else
