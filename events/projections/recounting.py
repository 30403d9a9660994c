"""Which counted calls there were once their facts are swept, for SQLite, whose unique index knows its rows alone.

Whoever sends them again after that would have them counted twice: sums stay for longer than what they are made of.
Only counts need it: all else that is swept early folds into what a second telling does not change. On PostgreSQL all
ids have a table of their own (`partitions`).
"""

# ruff: noqa: S608  (tables are named by us; no value ever becomes part of a statement)

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import chain, islice

from django.db import connection
from django.db.backends.utils import CursorWrapper

from events.ingest.records import Row
from recovery_ops.rules import events as facts
from recovery_ops.wire import names

COUNTED = names.EVENTS[facts.CallsCounted].name
KEEP_COUNTED = timedelta(days=7)
"""How long the facts themselves are kept."""
_KEEP_US = KEEP_COUNTED // timedelta(microseconds=1)
_DAY_US = 86_400_000_000
_CHUNK = 200
"""Ids asked for in one statement."""


def note(cursor: CursorWrapper, numbers: Sequence[int]) -> None:
    """Note these counted calls, by the numbers of their facts, in the transaction that deletes them."""
    cursor.execute(
        "INSERT OR IGNORE INTO events_sweptid (environment, uid, day)"
        f" SELECT environment, uid, received_us / {_DAY_US} FROM events_fact"
        f" WHERE event = '{COUNTED}' AND id IN ({', '.join(['%s'] * len(numbers))})",
        list(numbers),
    )


def without(cursor: CursorWrapper, rows: Sequence[Row]) -> Sequence[Row]:
    """The rows but for those that were counted before they were swept. Asks nothing where none is so old."""
    old = [
        (row.environment, row.uid) for row in rows if row.event == COUNTED and row.at_us < row.received_us - _KEEP_US
    ]
    known: set[tuple[str, bytes]] = set()
    remaining = iter(old)
    while chunk := list(islice(remaining, _CHUNK)):
        places = ", ".join(["(%s, %s)"] * len(chunk))
        cursor.execute(
            f"SELECT environment, uid FROM events_sweptid WHERE (environment, uid) IN (VALUES {places})",
            list(chain.from_iterable(chunk)),
        )
        known.update((environment, bytes(uid)) for environment, uid in cursor.fetchall())
    return [row for row in rows if (row.environment, row.uid) not in known] if known else rows


def forget(before_us: int, step_rows: int, may_go_on: Callable[[], bool]) -> None:
    """Forget those that were received before this moment, in steps; resent after that, they are new."""
    count = step_rows
    while connection.vendor == "sqlite" and count == step_rows and may_go_on():
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM events_sweptid WHERE (environment, uid) IN"
                " (SELECT environment, uid FROM events_sweptid WHERE day < %s LIMIT %s)",
                [before_us // _DAY_US, step_rows],
            )
            count = cursor.rowcount
