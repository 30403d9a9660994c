"""Commits what was taken in: one writer per process, all requests that wait in one transaction, answered after it.

Grouping costs a lone request nothing and lets many share one commit, and on SQLite one writer waits for nobody. While
others are being read, a small group waits a moment for them: a transaction costs as much as several hundred facts. A
transaction that fails for what is *in* it is cut in half until the record at fault stands alone and goes to the
quarantine; one that fails for any other reason is rolled back, and its requests are told to come again. Nothing is
remembered between transactions, so a kill at any point loses nothing that was acknowledged.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from django.db import connection, transaction

from events.derived.traces import decide_alone, settle
from events.ingest import tallies
from events.ingest.cardinality import known_names
from events.ingest.quarantine import FAULTS_OF_DATA, request_of_row, set_aside
from events.ingest.records import Intake, Row
from events.ingest.trouble import TroubleLog
from events.otlp.refused import Refused
from events.otlp.remarks import counted_by_reason
from events.otlp.sent import Encoding
from events.projections.corrections import Corrections
from events.store.disk import has_room
from events.store.writes import store_facts

logger = logging.getLogger(__name__)

WAIT_S = 8.0
"""What has waited longer is given up: its sender has, too (the stock exporter after 10 s)."""
GROUP_ROWS = 8000
"""No more requests join a transaction that has this many rows."""
GATHER_ROWS = 2000
"""What a transaction costs is small beside so many rows: behind them nobody is waited for."""
GATHER_S = 0.02
"""So long at most a smaller group waits for requests that are being read (docs/decisions/0011)."""
MOST_WAITING_ROWS = 8 * GROUP_ROWS
"""Behind more than this a request would hardly be stored before it is given up, even on a slow machine."""
MOST_WAITING = 4_000
"""So many requests may wait, however small: each is held in memory with all that belongs to it."""


class Busy(Exception):
    """The facts were not committed, or not in time. Worth another try; what was stored will be recognised."""


@dataclass(slots=True)
class _Task:
    intake: Intake
    future: Future[list[Refused]]
    give_up_at: float
    weight: int
    """How many rows it has, or what takes about as long."""


_Tasks = queue.SimpleQueue["_Task | None"]


class Writer:
    """The one thread of a process that writes facts. Started by the first request, ended by `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._tasks: _Tasks = queue.SimpleQueue()
        self._waiting_rows = 0
        self._expected = 0
        self.counts: Counter[str] = Counter()
        """Records since the start of the process: stored, repeated, quarantined, ignored."""

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return self._tasks.qsize()

    @property
    def is_full(self) -> bool:
        """Whether so much waits, or is being stored, that one more would wait in vain."""
        return self._waiting_rows >= MOST_WAITING_ROWS or self.waiting >= MOST_WAITING

    @contextlib.contextmanager
    def expecting(self) -> Iterator[None]:
        """While a request is read here that is submitted next, if it holds anything."""
        with self._lock:
            self._expected += 1
        try:
            yield
        finally:
            with self._lock:
                self._expected -= 1

    def submit(self, intake: Intake) -> Future[list[Refused]]:
        """Have this stored. Once it is, the future holds what was set aside instead; Busy if it could not be."""
        task = _Task(intake, Future(), time.monotonic() + WAIT_S, intake.weight)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                # Of one that died, what waited is not answered, and its senders send it again.
                self._tasks, self._waiting_rows = queue.SimpleQueue(), 0
                self._thread = threading.Thread(target=self._work, args=(self._tasks,), name="facts", daemon=True)
                self._thread.start()
            self._waiting_rows += task.weight
            self._tasks.put(task)
        return task.future

    def close(self, *, timeout_s: float = 0.0) -> None:
        """Let the thread end once it has stored what it was given; wait for that at most `timeout_s`.

        A request that comes later starts a new one.
        """
        with self._lock:
            thread, self._thread = self._thread, None
            self._tasks.put(None)
        if thread is not None and timeout_s:
            thread.join(timeout_s)

    def _work(self, tasks: _Tasks) -> None:
        try:
            while (group := self._next_group(tasks)) is not None:
                rows = sum(task.weight for task in group)
                try:
                    self._settle(group)
                finally:
                    with self._lock:
                        self._waiting_rows -= rows
        finally:
            connection.close()

    def _next_group(self, tasks: _Tasks) -> list[_Task] | None:
        """All that waits, or the next to come and what is read beside it; None when nothing more will."""
        task = tasks.get()
        if task is None:
            return None
        group, rows, until = [task], task.weight, time.monotonic() + GATHER_S
        with contextlib.suppress(queue.Empty):
            while rows < GROUP_ROWS:
                waits = self._expected and rows < GATHER_ROWS
                more = tasks.get(timeout=max(0.0, until - time.monotonic()) if waits else 0.0)
                if more is None:
                    tasks.put(None)  # nothing comes behind it, so it is the next to be seen
                    break
                group.append(more)
                rows += more.weight
        return group

    def _settle(self, group: Sequence[_Task]) -> None:
        """Store a group and answer each of its requests, one way or the other."""
        now = time.monotonic()
        waiting = []
        for task in group:
            if not task.future.set_running_or_notify_cancel():
                continue
            if now > task.give_up_at:
                task.future.set_exception(Busy(f"waited more than {WAIT_S:g} s for the database"))
            else:
                waiting.append(task)
        try:
            refused = self._store([task.intake for task in waiting])
        except Exception as error:  # whatever it is – away, locked, full, ours – it is not the data's fault
            _troubles.note("cannot store facts", error)
            known_names.forget()
            with contextlib.suppress(Exception):
                connection.close()
            for task in waiting:
                task.future.set_exception(Busy("the facts cannot be stored now"))
        else:
            for task, one in zip(waiting, refused, strict=True):
                task.future.set_result(one)

    def _store(self, intakes: Sequence[Intake]) -> list[list[Refused]]:
        """Store these; return for each what was set aside."""
        if not has_room():
            raise Busy("the disk is nearly full")
        try:
            with transaction.atomic():
                known_names.bound(_named(intakes))
                stored = _store_settled(*settle(intakes))
                set_aside(intakes)
                _note_remarks(intakes)
        except FAULTS_OF_DATA:
            known_names.forget()
            stored = self._store_what_can_be(intakes)
        self._count(intakes, sum(len(intake.rows) for intake in intakes), stored)
        return [intake.refused for intake in intakes]

    def _store_what_can_be(self, intakes: Sequence[Intake]) -> int:
        """Store all but what no database takes; in one transaction, because marks go with their facts."""
        refused: list[list[Refused]] = []
        stored = 0
        with transaction.atomic():
            known_names.bound(_named(intakes))  # before traces are locked, as wherever facts are stored
            decide_alone(intakes)
            for intake in intakes:
                settled, corrections = settle([intake])
                _store_settled([], corrections)
                faulty = _store_apart(settled)
                stored += len(settled) - len(faulty)
                refused.append([_refused(row, error) for row, error in faulty])
            for intake, more in zip(intakes, refused, strict=True):
                intake.refused += more
            set_aside(intakes)
            _note_remarks(intakes)
        return stored

    def _count(self, intakes: Sequence[Intake], rows: int, stored: int) -> None:
        refused = sum(len(intake.refused) for intake in intakes)
        ignored = sum(intake.ignored for intake in intakes)
        self.counts.update(stored=stored, repeated=rows - stored, quarantined=refused, ignored=ignored)


def _named(intakes: Sequence[Intake]) -> list[Row]:
    """All rows that may be stored."""
    return [row for intake in intakes for row in (*intake.rows, *intake.held)]


def _note_remarks(intakes: Sequence[Intake]) -> None:
    """Count what was not understood, for the intake page. In the caller's transaction, after everything else."""
    counts = counted_by_reason((intake.environment, intake.remarks) for intake in intakes if intake.remarks)
    if counts:
        tallies.add(counts, max(intake.received_us for intake in intakes))


def _store_settled(rows: Sequence[Row], corrections: Corrections) -> int:
    """Store these; return how many were new. Corrections are rare."""
    return store_facts(rows, corrections) if corrections else store_facts(rows)


def _store_apart(rows: Sequence[Row]) -> list[tuple[Row, Exception]]:
    """Store all rows but those that cannot be; return these with the reason. Halves what fails until one is left."""
    try:
        with transaction.atomic():
            store_facts(rows)
        return []
    except FAULTS_OF_DATA as error:
        if len(rows) == 1:
            return [(rows[0], error)]
        half = len(rows) // 2
        return _store_apart(rows[:half]) + _store_apart(rows[half:])


def _refused(row: Row, error: Exception) -> Refused:
    return Refused(f"cannot be stored: {error}", request_of_row(row), Encoding.JSON)


_troubles = TroubleLog(logger)
writer = Writer()
"""The writer of this process."""
