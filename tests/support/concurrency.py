"""Several threads at once on either engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connections
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from recovery_ops.control.core.rejections import CommandRejected
from tests.support.stores import store_at

THREADS = 6


@pytest.fixture(params=["sqlite", "postgres"])
def engine(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[Callable[[], None]]:
    """An empty store on each engine; a thread that calls what this yields uses it, too."""
    if request.param == "sqlite":
        request.getfixturevalue("transactional_db")
        yield lambda: None
        return
    with (
        django_db_blocker.unblock(),
        store_at(request.getfixturevalue("migrated_postgres_url"), pool_size=THREADS + 2) as config,
    ):

        def enter() -> None:
            connections["default"] = ConnectionHandler({"default": config})["default"]

        yield enter


def at_once(engine: Callable[[], None], work: Callable[[int], object]) -> list[object]:
    """What each of many threads got, or was refused with."""
    results: list[object] = [None] * THREADS
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        engine()
        gate.wait()
        try:
            results[number] = work(number)
        except CommandRejected as refused:
            results[number] = refused.code
        finally:
            connections["default"].close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
