"""The facts' table on PostgreSQL: a partition for each day, made ahead, and a last one for what fits into none.

A unique index of a partitioned table would have to hold the time, so ids live in a table beside it, `events_factid`,
and a fact is new if its id is new there, whatever day it is of. SQLite has one table and one unique index, and none of
this.
"""

# ruff: noqa: S608  (tables are named by us; no value ever becomes part of a statement)

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet

from events.models import Fact

logger = logging.getLogger(__name__)

AHEAD_DAYS = 3
"""A scheduler that is away for less leaves no gap; what falls into one is kept in the last partition."""
BEHIND_DAYS = 8
LAST = "events_fact_rest"
MOVED_MOST = 50_000
"""Early facts that a new partition takes from the last one: moving more would keep facts from coming in for long."""
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '100ms'"
"""Facts that come in wait behind us for the table's lock: give up instead, the next sweep tries again."""
_SOON = timedelta(days=2)
"""A day that begins no sooner can be kept out of the last partition while that is read: no fact is of it yet."""
_DAY = timedelta(days=1)
_EPOCH = date(1970, 1, 1)
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, order=True)
class Day:
    """The partition of one day (UTC)."""

    date: date

    @property
    def table(self) -> str:
        """What it is called."""
        return f"events_fact_{self.date:%Y%m%d}"

    @property
    def start_us(self) -> int:
        """Its first microsecond since the epoch."""
        return (self.date - _EPOCH).days * _DAY_US

    @property
    def end_us(self) -> int:
        """The first one after it."""
        return self.start_us + _DAY_US


def is_partitioned() -> bool:
    """Whether this database has partitions."""
    return connection.vendor == "postgresql"


def days() -> list[Day]:
    """The days that have a partition, in order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'events_fact'::regclass"
        )
        names = [name for (name,) in cursor.fetchall() if name != LAST]
    return sorted(map(_day_of, names))


def make_ahead(today: date, *, behind: int = 0) -> int:
    """Make the partitions of the coming days that are missing; return how many."""
    if not is_partitioned():
        return 0
    for day in _kept_out():
        _let_in(day)
    wanted = (Day(today + _DAY * number) for number in range(-behind, AHEAD_DAYS + 1))
    there = set(days())
    return sum(_make(day, today) for day in wanted if day not in there)


def _make(day: Day, today: date) -> bool:
    """Make the partition of a day. Nobody waits while rows are read, and for a lock nobody longer than we do.

    A table that becomes a partition needs the last one's lock until it is known that none of its rows is of that day;
    so that is made known before, beside everything that goes on. A kill in between leaves a constraint that keeps facts
    of two days ahead out of the last partition; the next sweep takes it away first. Facts of that day that came before
    are moved, with the lock held: they are few, or stay where they are.
    """
    early = _early(day)
    if early > MOVED_MOST:
        logger.warning("could not make %s: more than %s events of that day are in %s", day.table, MOVED_MOST, LAST)
        return False
    is_known = not early and day.date >= today + _SOON and _keep_out(day)
    create = f"CREATE TABLE {day.table} (LIKE events_fact INCLUDING DEFAULTS)"
    attach = f"ALTER TABLE events_fact ATTACH PARTITION {day.table} FOR VALUES FROM ({day.start_us}) TO ({day.end_us})"
    try:
        return _altered(f"make {day.table}", create, *(_moving(day) if early else ()), attach)
    finally:
        if is_known:
            _let_in(day)


def _moving(day: Day) -> Iterator[str]:
    """Move a day's facts from the last partition to its own, which is no part of the table yet."""
    yield f"LOCK TABLE {LAST} IN ACCESS EXCLUSIVE MODE"
    moved = f"DELETE FROM {LAST} WHERE {_of(day)} RETURNING *"
    yield f"WITH moved AS ({moved}) INSERT INTO {day.table} SELECT * FROM moved"


def _early(day: Day) -> int:
    """How many facts of a day came before its partition was made; counted to one more than are moved."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM (SELECT FROM {LAST} WHERE {_of(day)} LIMIT {MOVED_MOST + 1}) early")
        return int(cursor.fetchone()[0])


def _of(day: Day) -> str:
    return f"at_us >= {day.start_us} AND at_us < {day.end_us}"


def _keep_out(day: Day) -> bool:
    """Have the last partition know that it holds nothing of a day: that is read without keeping anybody out."""
    apart = f"CHECK (at_us < {day.start_us} OR at_us >= {day.end_us})"
    return _altered(
        f"keep {day.table} apart", f"ALTER TABLE {LAST} ADD CONSTRAINT {day.table}_not {apart} NOT VALID"
    ) and _altered(f"keep {day.table} apart", f"ALTER TABLE {LAST} VALIDATE CONSTRAINT {day.table}_not")


def _kept_out() -> list[Day]:
    """Days that a sweep that was killed keeps out of the last partition, whether they have one of their own or not.

    It must not last: when such a day is dropped, what is kept longer goes to the last partition.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint"
            " WHERE conrelid = %s::regclass AND conname ~ '^events_fact_[0-9]{8}_not$'",
            [LAST],
        )
        return sorted(_day_of(name.removesuffix("_not")) for (name,) in cursor.fetchall())


def _let_in(day: Day) -> None:
    _altered(f"let {day.table} in", f"ALTER TABLE {LAST} DROP CONSTRAINT IF EXISTS {day.table}_not")


def drop(day: Day, kept_events: Sequence[str], kept_since_us: int) -> bool:
    """Let go of a day, but for facts of these kinds and facts received since then, which go to the last partition.

    The table's lock is taken to set the day aside and given back at once; then what is kept is copied, and nobody waits
    for that. In between the day's facts are nowhere to be seen. CONCURRENTLY is not possible beside a last partition.
    """
    if day in detached() or _altered(f"detach {day.table}", f"ALTER TABLE events_fact DETACH PARTITION {day.table}"):
        return _altered(
            f"drop {day.table}",
            f"INSERT INTO events_fact SELECT * FROM {day.table} WHERE event = ANY(%s) OR received_us >= %s",
            f"DROP TABLE {day.table}",
            values={0: [list(kept_events), kept_since_us]},
        )
    return False


def detached() -> list[Day]:
    """Days that were set aside by a sweep that did not come to its end."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^events_fact_[0-9]{8}$'"
            " AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'events_fact'::regclass)"
            " AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = pg_class.oid)"
        )
        return sorted(_day_of(name) for (name,) in cursor.fetchall())


def _day_of(table: str) -> Day:
    return Day(datetime.strptime(table[-8:], "%Y%m%d").replace(tzinfo=UTC).date())


def tables_before(before_us: int) -> list[str]:
    """The tables that may hold facts of before this moment."""
    if not is_partitioned():
        return ["events_fact"]
    return [*(day.table for day in days() if day.start_us < before_us), LAST]


def _altered(what: str, *statements: str, values: dict[int, list[Any]] | None = None) -> bool:
    """Run these in one transaction. What cannot be done now, because of a lock or of late facts, is left for later."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_LOCK_TIMEOUT)
            for place, statement in enumerate(statements):
                cursor.execute(statement, (values or {}).get(place))
    except DatabaseError as error:
        logger.warning("could not %s: %s", what, error)
        return False
    return True


def facts_at(moments: Mapping[int, int]) -> QuerySet[Fact]:
    """Facts by number, with the moment of each: without it, PostgreSQL would look for each in every day there is."""
    times = moments.values()
    return Fact.objects.filter(pk__in=list(moments), at_us__gte=min(times, default=0), at_us__lte=max(times, default=0))


def newest_number() -> int:
    """The number of the newest fact; on PostgreSQL of one that may be being stored. One query."""
    if not is_partitioned():
        return Fact.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM events_fact_number")
        return int(cursor.fetchone()[0])


def forget_ids(before_us: int, step_rows: int, may_go_on: Callable[[], bool]) -> None:
    """Forget which facts there were before this moment, in steps; resent after that, they are new."""
    count = step_rows
    while is_partitioned() and count == step_rows and may_go_on():
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM events_factid WHERE ctid = ANY(ARRAY("
                "SELECT ctid FROM events_factid WHERE day < %s LIMIT %s))",
                [before_us // _DAY_US, step_rows],
            )
            count = cursor.rowcount
