"""Makes a large store out of a small one: what is there is copied in SQL, moved in time, as if more had happened.

Seeding ten million facts one by one takes an hour; copying tables takes minutes. What a week holds is made denser
within its minutes, so that the sums only count more; and then copied by whole multiples of the longest span of the
sums, so that the sums of a copy are those of the original moved as well: around the end of the week and back in at its
start, as a larger fleet would have told it, or into the weeks before it, as the same fleet would have in more time.
Either way each table is what it would have been.
"""

# ruff: noqa: S608  (only names of our own tables and columns are put together; every value is a parameter)

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import django
from django.db import connection, transaction
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "recovery_ops.settings")
django.setup()

from events.issues.anew import sum_failures_anew  # noqa: E402  (models want a Django that is set up)
from events.moments import MINUTE_S, US_PER_S, to_us  # noqa: E402  (models want a Django that is set up)
from events.projections.lanes_anew import sum_lanes_anew  # noqa: E402  (models want a Django that is set up)
from events.projections.summing import COUNTERS  # noqa: E402
from events.store.partitions import make_ahead  # noqa: E402  (models want a Django that is set up)
from events.store.statements import FACT_COLUMNS, INTERVAL_COLUMNS, SPANS, SUMS, Merge  # noqa: E402

STEP_MINUTES = 120
"""The longest span of the sums: copies are moved by multiples of it."""
LENGTH = timedelta(days=7)
MOST_COPIES = LENGTH // timedelta(minutes=STEP_MINUTES)
"""With more, copies would lie upon each other."""
_MINUTE_US = MINUTE_S * US_PER_S
_STEP_US = STEP_MINUTES * _MINUTE_US
_LENGTH_US = MOST_COPIES * _STEP_US
_DENSER = 0x800
"""The numbers of copies within the minute begin here, so that no id of them is one of another copy."""


@dataclass(frozen=True, slots=True)
class Week:
    """What is filled; it begins at a border of the longest span."""

    start: datetime
    end: datetime

    @staticmethod
    def before(now: datetime) -> Week:
        """The last whole one."""
        end = datetime.fromtimestamp(to_us(now) // _STEP_US * _STEP_US // US_PER_S, UTC)
        return Week(end - LENGTH, end)


@dataclass(frozen=True, slots=True)
class _Move:
    """Where a copy goes: `moment` writes a moment of a column moved on, with `values` for its parameters."""

    number: int
    moment: Callable[[str], str]
    values: tuple[int, ...]


def make_denser(times: int) -> None:
    """Let everything have happened so many times, in the same minutes."""
    _make_quick()
    with transaction.atomic(), connection.cursor() as cursor:
        _keep(cursor, "fact", "degradation")
        for number in range(1, times):
            offset_us = _MINUTE_US * number // times
            moment = f"({{0}} - {{0}} %% {_MINUTE_US} + ({{0}} + %s) %% {_MINUTE_US})".format
            _copy_facts(cursor, move := _Move(_DENSER + number, moment, (offset_us,)))
            _copy_degradations(cursor, move)
        counted = ", ".join(f'"{name}" = "{name}" * {int(times)}' for name in COUNTERS)
        for table in ("events_minutesum", "events_spansum"):
            cursor.execute(f"UPDATE {table} SET {counted}")
    _tidy()


def grow(week: Week, copies: range) -> Iterator[int]:
    """Add these copies of what is there to the same week; yield the number of each as it is done."""
    start_us = to_us(week.start)
    first, length = start_us // _MINUTE_US, _LENGTH_US // _MINUTE_US
    moment = f"(%s + ({{0}} - %s + %s) %% {_LENGTH_US})".format
    minute = f"%s + (minute - %s + %s) %% {length}"
    span = f"%s / minutes + (span - %s / minutes + %s / minutes) %% ({length} / minutes)"
    return _added(
        _Copy(
            _Move(number, moment, (start_us, start_us, number * _STEP_US)),
            minute=minute,
            span=span,
            values=[first, first, number * STEP_MINUTES],
        )
        for number in copies
    )


def lengthen(week: Week, copies: range) -> Iterator[int]:
    """Add these copies of what is there to the weeks before; yield the number of each as it is done."""
    make_ahead(week.end.date(), behind=(copies.stop * LENGTH).days)
    return _added(
        _Copy(
            _Move(number, "({0} - %s)".format, (number * _LENGTH_US,)),
            minute="minute - %s",
            span="span - %s / minutes",
            values=[number * _LENGTH_US // _MINUTE_US],
        )
        for number in copies
    )


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy of facts, and how the minutes and spans of their sums are moved by `values`, in minutes."""

    move: _Move
    minute: str
    span: str
    values: list[int]


def _added(copies: Iterable[_Copy]) -> Iterator[int]:
    _make_quick()
    with connection.cursor() as cursor:
        _keep(cursor, "fact", "degradation", "minutesum", "spansum")
    with _unindexed("events_fact"):
        for copy in copies:
            with transaction.atomic(), connection.cursor() as cursor:
                _copy_facts(cursor, copy.move)
                _copy_degradations(cursor, copy.move)
                _merge(cursor, SUMS, "minute", copy.minute, copy.values)
                _merge(cursor, SPANS, "span", copy.span, copy.values)
            yield copy.move.number
    _tidy()


def _keep(cursor: Any, *tables: str) -> None:
    """Tables of what there is to copy, which do not grow with the copies."""
    for table in tables:
        cursor.execute(f"CREATE TABLE copied_{table} AS SELECT * FROM events_{table}")


def _make_quick() -> None:
    """A copy that is lost is made again: nothing has to reach the disk at once."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET synchronous_commit = off")
            cursor.execute("SET maintenance_work_mem = '512MB'")
        else:
            cursor.execute("PRAGMA synchronous = OFF")
            cursor.execute("PRAGMA cache_size = -500000")
            connection.connection.create_function("uid_of_copy", 3, _uid_of_copy, deterministic=True)


def _tidy() -> None:
    """Make the sums of lanes and of failures of what was copied, because they hold moments; and do what PostgreSQL does
    by itself.
    """
    sum_lanes_anew()
    sum_failures_anew()
    with connection.cursor() as cursor:
        for table in ("fact", "degradation", "minutesum", "spansum"):
            cursor.execute(f"DROP TABLE IF EXISTS copied_{table}")
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM ANALYZE")


def _uid_of_copy(uid: bytes, at_us: int, number: int) -> bytes:
    """The moment in front, as a UUID of version 7 has it, and then the number of the copy."""
    return int(at_us // 1000).to_bytes(6, "big") + (0x7000 + int(number)).to_bytes(2, "big") + bytes(uid)[8:]


@contextmanager
def _unindexed(table: str) -> Iterator[None]:
    """Without the indexes that can be made again: sorting once is quicker than ten million insertions."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s", [table])
        else:
            listed = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = %s AND sql > ''"
            cursor.execute(f"{listed} AND sql NOT LIKE 'CREATE UNIQUE%%'", [table])
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for _, statement in indexes:
                # What PostgreSQL says of a partitioned table's index would make it for that table alone.
                cursor.execute(statement.replace(" ON ONLY ", " ON "))


def _copy_facts(cursor: Any, move: _Move) -> None:
    at = move.moment("at_us")
    values: list[Any] = []
    written = []
    for column in FACT_COLUMNS:
        if column == "uid":
            written.append(_uid(at))
            values += [*move.values, move.number]
        elif column in ("at_us", "received_us"):
            written.append(at)
            values += move.values
        elif column == "run":
            written.append("CASE run WHEN '' THEN '' ELSE run || %s END")
            values.append(f"-{move.number}")
        else:
            written.append(f'"{column}"')
    into = f"INSERT INTO events_fact ({_listed(FACT_COLUMNS)})"
    cursor.execute(f"{into} SELECT {', '.join(written)} FROM copied_fact", values)
    if connection.vendor == "postgresql":
        ids = f"SELECT environment, {_uid(at)}, 0, {at} / 86400000000 FROM copied_fact"
        values = [*move.values, move.number, *move.values]
        cursor.execute(f"INSERT INTO events_factid (environment, uid, batch, day) {ids}", values)


def _uid(at: str) -> str:
    if connection.vendor == "sqlite":
        return f"uid_of_copy(uid, {at}, %s)"
    return f"decode(lpad(to_hex({at} / 1000), 12, '0') || to_hex({0x7000} + %s), 'hex') || substring(uid from 9)"


def _copy_degradations(cursor: Any, move: _Move) -> None:
    """Those that are over: what is open is not open twice because it was copied."""
    started = move.moment("started_us")
    moments = {"started_us": started, "ended_us": f"{started} + ended_us - started_us"}
    columns = ("environment", "agent_id", "operation", "kind", *INTERVAL_COLUMNS)
    written = ", ".join(moments.get(column, f'"{column}"') for column in columns)
    values = [part for column in columns if column in moments for part in move.values]
    into = f"INSERT INTO events_degradation ({_listed(columns)})"
    cursor.execute(f"{into} SELECT {written} FROM copied_degradation WHERE ended_us > 0", values)


def _merge(cursor: Any, merge: Merge, moment: str, moved: str, values: list[int]) -> None:
    written = ", ".join(moved if column == moment else f'"{column}"' for column in merge.columns)
    source = merge.table.replace("events_", "copied_")
    into = f"INSERT INTO {merge.table} ({_listed(merge.columns)})"
    # WHERE true: without it SQLite would take ON CONFLICT for a part of a join.
    cursor.execute(f"{into} SELECT {written} FROM {source} WHERE true {merge.tail}", values)


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def main(until: str, what: str, times: str) -> None:
    """`growing.py UNTIL denser|grow|lengthen TIMES`, on the store that the environment's variables name."""
    if what == "denser":
        make_denser(int(times))
        return
    add = {"grow": grow, "lengthen": lengthen}[what]
    with Progress(*_COLUMNS, console=Console(stderr=True)) as progress:
        bar = progress.add_task("growing", total=int(times) - 1)
        for _ in add(Week.before(datetime.fromisoformat(until)), range(1, int(times))):
            progress.update(bar, advance=1)


_COLUMNS = TextColumn("growing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()

if __name__ == "__main__":
    main(*sys.argv[1:])
