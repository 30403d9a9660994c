"""Asks one store every question some times: `answered.py NOW ENVIRONMENT BREAKER TIMES`; says a line of JSON for each.

A line has the question's `name` and how many there are, `of`; whether it `is_within_a_week`; `took_ms`, the
milliseconds of each answer from the call to the rows; `query_ms`, of each answer those of the slowest of its queries,
from its execution to its last row; and `cpu_ms`, what one answer took of a processor, ours and PostgreSQL's together:
that stays the same while other work keeps the machine busy. NOW is an ISO instant. The store is the one that
the environment names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from statistics import median
from time import perf_counter, process_time
from typing import Any

from recovery_ops.bench.usage import cpu_s_of
from recovery_ops.server.garbage_collection import look_for_cycles_less_often

WARM_UP = 2
LEAST_TIMES = 3
LONGEST_S = 2.0
"""A question that takes long is asked less often."""


def main(now: str, environment: str, breaker: str, times: str, *names: str) -> None:
    """Ask all questions, or those whose names begin with one of these."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
    import django

    django.setup()
    from recovery_ops.bench.questions import Place, questions

    place = Place(environment, datetime.fromisoformat(now), breaker)
    asked = [one for one in questions(place) if not names or one.name.startswith(names)]
    for one in asked[:1]:
        one.ask()  # what is loaded once is loaded now
    look_for_cycles_less_often()  # as the server does
    for one in asked:
        said = {"name": one.name, "of": len(asked), "is_within_a_week": one.is_within_a_week}
        print(json.dumps(said | _times_of(one.ask, int(times))), flush=True)


def _times_of(ask: Callable[[], Any], times: int) -> dict[str, Any]:
    for _ in range(WARM_UP):
        ask()
    took_ms: list[float] = []
    query_ms: list[float] = []
    cpu_s = _cpu_s()
    own_s: list[float] = []
    while len(took_ms) < LEAST_TIMES or (len(took_ms) < times and sum(took_ms) < LONGEST_S * 1e3):
        began, began_cpu = perf_counter(), process_time()
        with queries_timed() as queries_s:
            ask()
        own_s.append(process_time() - began_cpu)
        took_ms.append((perf_counter() - began) * 1e3)
        query_ms.append(max(queries_s, default=0.0) * 1e3)
    theirs_s = (_cpu_s() - cpu_s) / len(took_ms)
    return {"took_ms": took_ms, "query_ms": query_ms, "cpu_ms": (median(own_s) + theirs_s) * 1e3}


@contextmanager
def queries_timed() -> Iterator[list[float]]:
    """The seconds that each query of the block takes in its engine, with the reading of its rows."""
    from django.db import connection
    from django.db.backends.utils import CursorWrapper

    took_s: list[float] = []

    class Timed(CursorWrapper):
        """SQLite finds a row when it is fetched, so what a query costs is in both."""

        def execute(self, sql: Any, params: Any = None) -> Any:
            took_s.append(0.0)
            return self._timed(super().execute, sql, params)

        def fetchone(self) -> Any:
            return self._timed(self.cursor.fetchone)

        def fetchmany(self, *size: int) -> Any:
            return self._timed(self.cursor.fetchmany, *size)

        def fetchall(self) -> Any:
            return self._timed(self.cursor.fetchall)

        def _timed(self, do: Callable[..., Any], *given: Any) -> Any:
            began = perf_counter()
            try:
                return do(*given)
            finally:
                took_s[-1] += perf_counter() - began

    usual = connection.make_cursor
    connection.make_cursor = lambda cursor: Timed(cursor, connection)  # type: ignore[method-assign]
    try:
        yield took_s
    finally:
        connection.make_cursor = usual  # type: ignore[method-assign]


def _cpu_s() -> float:
    """Processor seconds of PostgreSQL's process for us; 0 on SQLite, which works in our own."""
    from django.db import connection

    if connection.vendor == "sqlite":
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cpu_s_of(cursor.fetchone()[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
