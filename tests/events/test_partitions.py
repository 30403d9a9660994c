"""PostgreSQL keeps a day in a partition of its own: made ahead, dropped when its time is over, and never doubled."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction

from events.ingest.records import Row
from events.models import Fact
from events.projections import verification
from events.store import partitions, retention, statements
from events.store.retention import micros, sweep_facts
from events.store.writes import store_facts
from tests.support.partitions import rows
from tests.support.stores import TODAY


def stored(given: list[Row]) -> int:
    with transaction.atomic():
        return store_facts(given)


def asked(statement: str, *, wants_rows: bool = True) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()] if wants_rows else []


on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)


@on_postgres
def test_days_are_made_ahead_and_made_once(engine: str) -> None:
    made = [day.date for day in partitions.days()]
    first = TODAY.date() - timedelta(days=partitions.BEHIND_DAYS)
    assert made == [first + timedelta(days=number) for number in range(len(made))]
    assert made[-1] == TODAY.date() + timedelta(days=partitions.AHEAD_DAYS)
    assert partitions.make_ahead(TODAY.date()) == 0
    assert partitions.make_ahead(TODAY.date() + timedelta(days=2)) == 2


@on_postgres
def test_a_fact_lies_in_its_day_and_is_there_once(engine: str) -> None:
    given = rows("failure", 0, range(3)) + rows("failure", 2, range(3)) + rows("failure", 30, range(3))
    assert (stored(given[:4]), stored(given + given[::-1]), stored(given)) == (4, 5, 0)
    tables = asked("SELECT tableoid::regclass::text FROM events_fact ORDER BY at_us")
    assert tables == [
        *[partitions.LAST] * 3,
        *[partitions.Day(TODAY.date() - timedelta(days=2)).table] * 3,
        *[partitions.Day(TODAY.date()).table] * 3,
    ]
    assert len(asked("SELECT uid FROM events_factid")) == 9
    folded, count = verification.refold()
    assert (count, list(verification.differences(folded, TODAY))) == (9, [])


@on_postgres
def test_a_day_that_is_over_goes_but_for_what_is_kept_longer(engine: str) -> None:
    stored(
        rows("failure", 3, range(5))
        + rows("breaker_state_changed", 3, range(2))
        + rows("failure", 3, range(10, 13), received_days_ago=0)
        + rows("failure", 1, range(1))
    )
    now = TODAY + retention.USUAL - timedelta(days=2)
    sweep_facts(now)
    assert partitions.days()[0].date == TODAY.date() - timedelta(days=2)
    events = Fact.objects.order_by("event", "at_us").values_list("event", flat=True)
    assert list(events) == ["breaker_state_changed"] * 2 + ["failure_classified"] * 4
    sweep_facts(now + timedelta(days=4))
    assert set(Fact.objects.values_list("event", flat=True)) == {"breaker_state_changed"}
    assert len(asked("SELECT uid FROM events_factid")) == 0


@on_postgres
def test_a_day_that_somebody_reads_is_dropped_later(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(rows("failure", 1, range(1)))
    monkeypatch.setattr(partitions, "_LOCK_TIMEOUT", "SET LOCAL lock_timeout = '10ms'")
    theirs = connections["default"].copy()
    try:
        with theirs.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT count(*) FROM events_fact")
            assert not partitions.drop(partitions.days()[-5], [], 2**60)
            cursor.execute("ROLLBACK")
    finally:
        theirs.close()
    assert partitions.drop(partitions.days()[-5], [], 2**60)
    assert Fact.objects.count() == 0


STEPS = [
    "ALTER TABLE events_fact_rest ADD",
    "ALTER TABLE events_fact_rest VALIDATE",
    "ALTER TABLE events_fact_rest DROP",
    "INSERT INTO events_fact",
    "DROP TABLE ",
]
DEFAULT_UNREAD = re.compile(r"default partition.* is implied by existing constraints")
"""PostgreSQL's word for not having read the default partition."""
QUICK = ("ALTER TABLE events_fact DETACH", "ALTER TABLE events_fact ATTACH", "CREATE TABLE")
"""Statements that hold a lock, and read no row: what the rest of their transaction is must read none either."""


def writes(theirs: Any) -> None:
    """Facts come in on another connection: of today, and of a day so long ago that it has no partition."""
    columns = ", ".join(f'"{name}"' for name in statements.FACT_COLUMNS if name not in ("at_us", "uid"))
    with theirs.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SET LOCAL lock_timeout = '1s'")
        for at_us in (micros(TODAY) + 1, 1):
            cursor.execute(
                f"INSERT INTO events_fact (at_us, uid, {columns}) SELECT %s, 'x', {columns} FROM events_fact LIMIT 1",
                [at_us],
            )
        cursor.execute("ROLLBACK")


@on_postgres
def test_facts_come_in_while_a_day_is_made_and_another_is_dropped(engine: str) -> None:
    """After each statement that reads rows, with its transaction still open, another connection stores facts."""
    long_ago = rows("breaker_state_changed", 100, range(3))
    stored(
        long_ago
        + rows("failure", 3, range(5))
        + rows("breaker_state_changed", 3, range(2))
        + rows("failure", 0, range(1))
    )
    theirs, passed, held = connections["default"].copy(), [], []

    def beside(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith(QUICK):
            held.append(sql)
        elif sql.startswith(("ALTER TABLE events_fact_rest", "INSERT INTO events_fact SELECT", "DROP TABLE")):
            if "CONSTRAINT" not in sql or "VALIDATE" in sql:
                writes(theirs)
            passed.append(sql.split(" SELECT", maxsplit=1)[0].split(" CHECK", maxsplit=1)[0])
        return result

    notices: list[str] = []
    with connection.cursor() as cursor:
        cursor.execute("SET client_min_messages = debug1")
    connection.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    try:
        with connection.execute_wrapper(beside):
            assert partitions.make_ahead(TODAY.date() + timedelta(days=1)) == 1
            assert partitions.drop(partitions.days()[5], ["breaker_state_changed"], 2**60)
    finally:
        theirs.close()
        with connection.cursor() as cursor:
            cursor.execute("RESET client_min_messages")
    assert [sql.split("events_fact_2")[0].split(" CONSTRAINT")[0] for sql in passed] == STEPS
    assert len(held) == 3
    assert [one for one in notices if DEFAULT_UNREAD.search(one)]
    assert Fact.objects.filter(event="breaker_state_changed").count() == 5
    assert Fact.objects.filter(event="failure_classified").count() == 1
    assert (
        asked("SELECT conname FROM pg_constraint WHERE conrelid = 'events_fact_rest'::regclass AND contype = 'c'") == []
    )


@on_postgres
def test_a_new_day_has_every_index_and_its_facts(engine: str) -> None:
    partitions.make_ahead(TODAY.date() + timedelta(days=1))
    new, old = partitions.days()[-1], partitions.days()[0]
    indexes = "SELECT replace(indexdef, '{0}', '') FROM pg_indexes WHERE tablename = '{0}' ORDER BY 1"

    def shapes(table: str) -> list[str]:
        return sorted(one[one.index(" USING") :] for one in asked(indexes.format(table)))

    assert shapes(new.table) == shapes(old.table) != []
    stored(rows("failure", -(new.date - TODAY.date()).days, range(2)))
    assert asked(f"SELECT count(*) FROM {new.table}") == [2]
    assert asked(f"SELECT count(DISTINCT id) FROM {new.table}") == [2]


@on_postgres
def test_a_day_that_was_set_aside_by_a_sweep_that_was_killed_is_finished_by_the_next(engine: str) -> None:
    stored(rows("failure", 3, range(5)) + rows("breaker_state_changed", 3, range(2)))
    day = partitions.Day(TODAY.date() - timedelta(days=3))
    asked(f"ALTER TABLE events_fact DETACH PARTITION {day.table} -- and killed", wants_rows=False)
    assert (Fact.objects.count(), partitions.detached()) == (0, [day])
    sweep_facts(TODAY + retention.USUAL - timedelta(days=2))
    assert partitions.detached() == []
    assert list(Fact.objects.values_list("event", flat=True)) == ["breaker_state_changed"] * 2


@on_postgres
def test_what_a_killed_sweep_kept_out_is_let_in_by_the_next(engine: str) -> None:
    day = partitions.Day(TODAY.date() + timedelta(days=partitions.AHEAD_DAYS + 1))
    assert partitions._keep_out(day)
    assert partitions.make_ahead(TODAY.date() + timedelta(days=1)) == 1
    assert (
        asked("SELECT conname FROM pg_constraint WHERE conrelid = 'events_fact_rest'::regclass AND contype = 'c'") == []
    )


def in_last() -> int:
    return int(asked(f"SELECT count(*) FROM {partitions.LAST}")[0])


@on_postgres
def test_day_takes_its_early_facts_from_the_last_partition(engine: str) -> None:
    away = TODAY + timedelta(days=30)
    long_ago = rows("breaker_state_changed", 100, range(1))
    stored(rows("failure", -30, range(2)) + long_ago)
    before = list(Fact.objects.order_by("pk").values())
    assert partitions.make_ahead(away.date()) == partitions.AHEAD_DAYS + 1
    assert partitions.Day(away.date()) in partitions.days()
    assert list(Fact.objects.order_by("pk").values()) == before
    assert in_last() == 1
    assert stored(rows("failure", -30, range(3))) == 1
    assert in_last() == 1


@on_postgres
def test_day_is_made_after_the_transaction_that_stores_an_early_fact(engine: str) -> None:
    away, theirs = TODAY + timedelta(days=30), connections["default"].copy()
    stored(rows("failure", 0, range(1)))
    columns = ", ".join(f'"{name}"' for name in statements.FACT_COLUMNS if name not in ("at_us", "uid"))
    early = f"INSERT INTO events_fact (at_us, uid, {columns}) SELECT %s, 'x', {columns} FROM events_fact LIMIT 1"
    day = partitions.Day(away.date())
    try:
        with theirs.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(early, [day.start_us])
            assert partitions.make_ahead(away.date()) < partitions.AHEAD_DAYS + 1
            cursor.execute("COMMIT")
    finally:
        theirs.close()
    partitions.make_ahead(away.date())
    assert day in partitions.days()
    assert (in_last(), Fact.objects.count()) == (0, 2)


@on_postgres
def test_day_with_too_many_early_facts_stays_in_the_last_partition(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MOVED_MOST", 2)
    away = TODAY + timedelta(days=30)
    stored(rows("failure", -30, range(3)))
    assert partitions.make_ahead(away.date()) == partitions.AHEAD_DAYS
    assert partitions.Day(away.date()) not in partitions.days()
    assert in_last() == Fact.objects.count() == 3
