"""How much the store holds: its size on disk, and how many facts came for each of the last days."""

# ruff: noqa: S608  (tables are named by us; no value ever becomes part of a statement)

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from django.db import connection

from events.ingest.records import LOG
from events.moments import to_us
from events.store import partitions
from events.store.disk import free_bytes
from recovery_ops.wire import names

DAYS = 14
_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_MOST_TABLES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCount:
    """How many facts of one day (UTC) are kept."""

    date: date
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What takes room on disk. `free_bytes` is None where the database is another machine's business."""

    total_bytes: int
    parts: Sequence[tuple[str, int]]
    free_bytes: int | None


def facts_per_day(environment: str, now: datetime) -> list[DayCount]:
    """The facts of the last `DAYS` days by the day they happened, today last. One query, answered by an index alone."""
    today = to_us(now) // _DAY_US
    events = [*(one.name for one in names.EVENTS.values()), LOG]
    since_us = (today - DAYS + 1) * _DAY_US
    marks = ", ".join(["%s"] * len(events))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT at_us / {_DAY_US}, COUNT(*) FROM events_fact "
            f"WHERE environment = %s AND event IN ({marks}) AND at_us >= %s GROUP BY 1",
            [environment, *events, since_us],
        )
        found = dict(cursor.fetchall())
    days = range(today - DAYS + 1, today + 1)
    return [DayCount(date=_EPOCH + timedelta(days=day), count=found.get(day, 0)) for day in days]


def size() -> Size:
    """The size of the whole store, all environments together. One or two queries."""
    return _size_of_files() if connection.vendor == "sqlite" else _size_of_tables()


def _size_of_files() -> Size:
    name = str(connection.settings_dict["NAME"])
    files = [(Path(name + ending).name, name + ending) for ending in ("", "-wal")]
    parts = [(word, os.path.getsize(path)) for word, path in files if os.path.exists(path)]
    return Size(total_bytes=sum(count for _, count in parts), parts=parts, free_bytes=free_bytes())


def _size_of_tables() -> Size:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        total = int(cursor.fetchone()[0])
        # A partitioned table has no bytes of its own: those of its days are counted under its name.
        cursor.execute(
            "SELECT COALESCE(parent.relname, c.relname), SUM(pg_total_relation_size(c.oid)) AS bytes FROM pg_class c "
            "LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class parent ON parent.oid = i.inhparent "
            "WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace "
            "GROUP BY 1 ORDER BY bytes DESC LIMIT %s",
            [_MOST_TABLES],
        )
        parts = [(str(name), int(count)) for name, count in cursor.fetchall()]
    return Size(total_bytes=total, parts=parts, free_bytes=None)


def is_by_day() -> bool:
    """Whether whole days are dropped at once (PostgreSQL), or rows swept (SQLite)."""
    return partitions.is_partitioned()
