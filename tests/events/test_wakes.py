"""What one process commits wakes the others: by PostgreSQL, by Redis, and not at all where nothing was committed."""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
from django.db import connection, transaction

from events.live import wakes
from tests.support.actions import trip
from tests.support.engines import engine
from tests.support.processes import eventually

__all__ = ["engine"]  # the fixture

PATIENCE_S = 10.0


class Woken:
    """Counts wakes as they come."""

    def __init__(self) -> None:
        self._calls: queue.Queue[None] = queue.Queue()

    def __call__(self) -> None:
        self._calls.put(None)

    def wait(self) -> None:
        self._calls.get(timeout=PATIENCE_S)

    @property
    def is_quiet(self) -> bool:
        return self._calls.empty()


@contextmanager
def listening(woken: Woken) -> Iterator[wakes.Ear]:
    ear = wakes.ear_of(woken)
    assert ear is not None
    ear.start()
    try:
        woken.wait()  # it listens from here on
        yield ear
    finally:
        ear.stop()
        assert ear.join(PATIENCE_S)


@pytest.mark.django_db(transaction=True)
def test_a_change_wakes_and_what_was_only_tried_does_not(engine: str) -> None:
    if engine == "sqlite":
        assert wakes.ear_of(Woken()) is None
        return
    woken = Woken()
    with listening(woken):
        trip(ahead=True, dry_run=True)
        with transaction.atomic():
            wakes.announce()
            transaction.set_rollback(True)
        trip(ahead=True)
        woken.wait()
        assert woken.is_quiet  # one wake for the three: words keep their order, so the first two said nothing


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of what the module logged: a trouble is a warning, and its end is told at INFO."""
    return [one.levelname for one in caplog.records if one.name == wakes.__name__]


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_is_lost_is_made_anew(
    engine: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if engine == "sqlite":
        return
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(wakes, "RETRY_S", 0.01)
    woken = Woken()
    with listening(woken), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'")
        woken.wait()
        eventually(lambda: "INFO" in levels(caplog), what="a word about it")
        trip(ahead=True)
        woken.wait()


@pytest.mark.django_db(transaction=True)
def test_a_redis_carries_the_same_word(redis_url: str, settings: Any) -> None:
    settings.WAKE_URL = redis_url
    woken = Woken()
    with listening(woken):
        trip(ahead=True)
        woken.wait()


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_is_away_stops_nobody(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.WAKE_URL = "redis://127.0.0.1:1/0"
    assert trip(ahead=True).revision == 1
    assert levels(caplog) == ["WARNING"]


def test_an_ear_that_cannot_hear_says_so_once_and_tries_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wakes, "RETRY_S", 0.001)
    tried: queue.Queue[None] = queue.Queue()

    def broken() -> AbstractContextManager[wakes.Heard]:
        tried.put(None)
        if tried.qsize() < 4:
            raise OSError("no route")
        return nullcontext(lambda wait_s: False)

    ear = wakes.Ear(broken, woken := Woken())
    ear.start()
    woken.wait()
    ear.stop()
    assert ear.join(PATIENCE_S)
    assert levels(caplog).count("WARNING") == 1
