"""The worker and the scheduler inside the server: tasks run, ticks come, and both end in time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from celery import Celery, signals
from celery.beat import ScheduleEntry
from celery.schedules import schedule
from django.conf import settings

from recovery_ops.celery import app
from recovery_ops.server.coalesced_tasks import Looks
from recovery_ops.server.scheduler import Scheduler
from recovery_ops.server.supervisor import EmbeddedCelery

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


def test_what_has_run_is_no_other_schedule() -> None:
    """Celery would otherwise look at every task again, each time that one is asked for."""

    class Planning(Scheduler):
        plans = 0

        def populate_heap(self, *arguments: Any, **more: Any) -> None:
            self.plans += 1
            super().populate_heap(*arguments, **more)

    clock = Clockwork("clock", broker="memory://", set_as_current=False)
    clock.conf.beat_schedule = {
        name: {"task": name, "schedule": schedule(2.0, nowfun=clock.now)} for name in ("one", "two")
    }
    scheduler = Planning(app=clock, lazy=True)
    scheduler.setup_schedule()
    for _ in range(10):
        clock.at += timedelta(seconds=3)
        for _ in range(4):
            scheduler.tick()
    assert {entry.total_run_count for entry in scheduler.schedule.values()} == {10}
    assert scheduler.plans == 1
    assert {getattr(entry.schedule, "app", None) for entry in scheduler.schedule.values()} == {clock}


def test_one_look_answers_all_that_asked_before_it_began() -> None:
    looks = Looks()
    assert looks.begin("one", asked_s=100.0, now_s=106.0)
    assert not looks.begin("one", asked_s=102.0, now_s=106.5)
    assert not looks.begin("one", asked_s=104.0, now_s=107.0)
    assert looks.begin("two", asked_s=104.0, now_s=107.5)  # of that nobody has looked
    assert looks.begin("one", asked_s=106.0, now_s=108.0)  # it may have looked before this was asked for


@pytest.mark.parametrize("asked_s", [1e6 + 400.0, 1e6 - 1000.0])
def test_clocks_that_differ_answer_nothing(asked_s: float) -> None:
    """Whether a clock was set back since, or a machine's is minutes ahead of that of the scheduler's."""
    looks = Looks()
    assert looks.begin("one", asked_s=1e6, now_s=1e6 + 500.0)
    assert looks.begin("one", asked_s=asked_s, now_s=asked_s + 1.0)


def test_a_worker_slower_than_its_schedule_comes_to_every_task() -> None:
    """A round of four takes six seconds, and each is asked for every two."""
    names, looks = ("one", "two", "three", "four"), Looks()
    waiting = [(asked_s, name) for asked_s in range(0, 60, 2) for name in names]
    now_s, began = 0.0, {name: [0.0] for name in names}
    for asked_s, name in waiting:
        now_s = max(now_s, asked_s)
        if looks.begin(name, asked_s, now_s):
            began[name].append(now_s)
            now_s += 1.5
    assert all(max(then - before for before, then in pairwise(moments)) <= 9.0 for moments in began.values())
    assert now_s < 75.0, "what waited costs nothing"


def test_what_was_asked_while_the_worker_was_busy_is_done_once(worker: EmbeddedCelery) -> None:
    ended: Counter[str] = Counter()
    all_ended = threading.Event()

    def count(sender: Any = None, state: str = "", **_: Any) -> None:
        if sender.name == note.name:
            ended[state] += 1
            if ended.total() == 3:
                all_ended.set()

    signals.task_postrun.connect(count)
    for _ in range(2):
        linger.delay()
    assert done.wait(15)
    scheduler, entry = Scheduler(app=app, lazy=True), ScheduleEntry("note", note.name, schedule=schedule(2.0), app=app)
    for _ in range(3):
        scheduler.apply_async(entry, advance=False)
    go_on.set()
    assert all_ended.wait(15)
    assert ended == {"SUCCESS": 1, "IGNORED": 2}


def test_nothing_is_thrown_away_that_waited_for_its_turn() -> None:
    waits_s = [entry["options"]["expires"] for entry in app.conf.beat_schedule.values() if "options" in entry]
    assert min(waits_s) >= settings.LOOKS_WAIT_S


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
