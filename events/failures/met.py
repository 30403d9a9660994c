"""The runs that met a cause of failures: how many, and the newest of them. Index: `run_failure_by_kind`."""

# ruff: noqa: S608  (only words of our own are put together; every value is a parameter)

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from django.db import connection

from events.failures.sums import instances_among

RUNS_MOST = 10_000
"""So many runs of a cause are counted, and no more."""
_STATEMENT_PARTS = 100
"""SQLite takes 500 parts in one statement; each has several values."""

_INSTANCES = -1
"""In the place of a recovery step: the row counts instances."""


def _of(kinds: Collection[bytes]) -> str:
    among = ", ".join(["%s"] * len(kinds))
    return f"FROM events_runfailure WHERE kind IN ({among}) AND last_us >= %s AND first_us < %s"


class Met(NamedTuple):
    """A run that met a kind of failure."""

    kind: bytes
    run: str
    last_us: int


def runs_met(
    environment: str, causes: Mapping[str, Collection[bytes]], *, start_us: int, end_us: int, most: int = RUNS_MOST
) -> dict[str, int]:
    """How many runs have failures of each cause (of these kinds) in [`start_us`, `end_us`), `most` at most.

    A run with failures before and after the range has some in it as far as is known. One query for each 100 causes.
    """
    names = list(causes)
    found: dict[str, int] = {}
    for start in range(0, len(names), _STATEMENT_PARTS):
        some = names[start : start + _STATEMENT_PARTS]
        parts, values = [], list[Any]()
        for place, name in enumerate(some):
            kinds = list(causes[name])
            # Of one kind a run has one row, so its rows need not be read.
            each = f"SELECT DISTINCT run {_of(kinds)}" if len(kinds) > 1 else f"SELECT 1 {_of(kinds)}"
            parts.append(f"SELECT {place} AS place, count(*) FROM ({each} LIMIT %s) met")
            values += [*kinds, start_us, end_us, most]
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), values)
            found |= {some[place]: int(count) for place, count in cursor.fetchall()}
    return found


def newest_met(kinds: Iterable[bytes], *, start_us: int, end_us: int, each: int) -> Iterator[Met]:
    """The runs that met each of these kinds last, so many of each, newest first. One query for each 100 kinds."""
    listed = list(kinds)
    for start in range(0, len(listed), _STATEMENT_PARTS):
        some = listed[start : start + _STATEMENT_PARTS]
        one = f"SELECT kind, run, last_us {_of([b''])} ORDER BY last_us DESC LIMIT %s"
        statement = " UNION ALL ".join(f"SELECT kind, run, last_us FROM ({one}) part" for _ in some)
        values = [value for kind in some for value in (kind, start_us, end_us, each)]
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            rows = cursor.fetchall()
        yield from sorted((Met(bytes(kind), run, last_us) for kind, run, last_us in rows), key=lambda one: -one.last_us)


class Reach(NamedTuple):
    """How many instances met an issue, and how many runs, by highest step and status (empty: it goes on)."""

    runs: Counter[tuple[int, str]]
    instances: int


def reach_of(environment: str, kinds: Collection[bytes], *, start_us: int, end_us: int, most: int = RUNS_MOST) -> Reach:
    """What failures of these kinds in [`start_us`, `end_us`) reached; of the runs `most` at most. One query."""
    which, values = instances_among(environment, start_us, end_us, kinds)
    met = f"SELECT DISTINCT run {_of(kinds)} LIMIT %s"
    statement = (
        f"SELECT r.level, r.status, COUNT(*) FROM ({met}) met JOIN events_run r ON r.environment = %s"
        " AND r.run = met.run GROUP BY r.level, r.status"
        f" UNION ALL SELECT {_INSTANCES}, '', COUNT(DISTINCT agent_id) {which}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*kinds, start_us, end_us, most, environment, *values])
        found = {(level, status): count for level, status, count in cursor.fetchall()}
    instances = found.pop((_INSTANCES, ""))
    return Reach(Counter(found), instances)
