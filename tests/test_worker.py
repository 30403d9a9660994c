"""The worker and the scheduler inside the server: tasks run, ticks come, and both end in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from recovery_ops.celery import app
from recovery_ops.scheduler import Scheduler
from recovery_ops.server import EmbeddedCelery

done = threading.Event()
go_on = threading.Event()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    done.clear()
    go_on.clear()
    yield
    go_on.set()  # whatever still waits, ends


@app.task(name="tests.note")
def note() -> None:
    done.set()


@app.task(name="tests.linger")
def linger() -> None:
    done.set()
    go_on.wait(30)


@pytest.fixture
def worker() -> Iterator[EmbeddedCelery]:
    running = EmbeddedCelery()
    running.start()
    yield running
    running.stop(5)


def test_a_task_runs_and_the_worker_ends_when_told(worker: EmbeddedCelery) -> None:
    note.delay()
    assert done.wait(15)
    assert worker.stop(5)


def test_the_scheduler_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"task": "tests.note", "schedule": timedelta(seconds=0.2)}
    monkeypatch.setitem(app.conf.beat_schedule, "tests", entry)
    running = EmbeddedCelery()
    running.start()
    assert done.wait(15)
    assert running.stop(5)


class Clockwork(Celery):
    """An application whose clock is set by hand."""

    at = datetime(2026, 1, 2, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


class Noting(Scheduler):
    """Notes which tasks it would have asked for."""

    asked: list[str | None] = []

    def apply_async(self, entry: ScheduleEntry, *_: Any, **__: Any) -> None:
        self.asked.append(entry.name)


def test_a_clock_that_is_set_back_a_day_stops_no_task() -> None:
    clock = Clockwork("clock", broker="memory://", set_as_current=False)
    clock.conf.beat_schedule = {
        name: {"task": name, "schedule": schedule(2.0, nowfun=clock.now)} for name in ("one", "two")
    }
    scheduler = Noting(app=clock, lazy=True)
    scheduler.setup_schedule()
    for step in (timedelta(seconds=3), -timedelta(days=1), timedelta(seconds=3)):
        clock.at += step
        scheduler.asked.clear()
        for _ in range(4):
            scheduler.tick()
    assert sorted(map(str, scheduler.asked)) == ["one", "two"]


def test_every_task_of_the_schedule_exists() -> None:
    app.loader.import_default_modules()
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)


def test_a_task_that_does_not_end_is_left_behind(worker: EmbeddedCelery) -> None:
    linger.delay()
    assert done.wait(15)
    assert not worker.stop(0.3)


def test_a_worker_that_was_just_started_can_be_stopped() -> None:
    running = EmbeddedCelery()
    running.start()
    assert running.stop(10)
