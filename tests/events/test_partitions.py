"""PostgreSQL keeps a day in a partition of its own: made ahead, dropped when its time is over, and never doubled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import ConnectionHandler

from events import partitions, retention, verification
from events.models import Fact
from events.records import Row, read_records
from events.retention import micros, sweep_facts
from events.sent import Batch, Sent
from events.store import store_facts
from recovery_ops import environment

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def rows(event: str, days_ago: float, numbers: range, *, received_days_ago: float | None = None) -> list[Row]:
    """Facts of so many days before this one began; the same event, day and number is the same fact."""
    at = TODAY - timedelta(days=days_ago)
    received = at if received_days_ago is None else TODAY - timedelta(days=received_days_ago)
    sent = [
        Sent(event, micros(at) * 1000, 0, 13, "", {"log.record.uid": f"{event} {days_ago} {number}"}, "", "")
        for number in numbers
    ]
    return read_records([Batch({"service.name": "billing"}, "t", sent)], "dev", micros(received)).rows


def stored(given: list[Row]) -> int:
    with transaction.atomic():
        return store_facts(given)


def asked(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()]


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


def test_facts_that_were_there_before_partitions_are_kept(postgres_url: str, transactional_db: None) -> None:
    config = environment.database(postgres_url, data=Path(), pool_size=2)
    theirs = ConnectionHandler({"default": config})["default"]
    ours, connections["default"] = connections["default"], theirs
    try:
        call_command("migrate", "events", "0005", verbosity=0)
        [known] = rows("failure", 2, range(1))
        then = MigrationExecutor(theirs).loader.project_state(("events", "0005_quarantine_and_names")).apps
        agents, facts = then.get_model("events", "Agent"), then.get_model("events", "Fact")
        agent = agents.objects.create(environment="dev", service="billing", first_seen_us=1, last_seen_us=1)
        values = {name: getattr(known, name) for name in ("environment", "uid", "event", "at_us", "received_us")}
        old = facts.objects.create(agent=agent, **values)
        call_command("migrate", "events", verbosity=0)
        assert stored(rows("failure", 2, range(3))) == 2
        numbers = Fact.objects.order_by("id").values_list("id", flat=True)
        assert numbers[0] == old.pk
        assert len(set(numbers)) == 3
    finally:
        connections["default"] = ours
        theirs.close()
        theirs.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has one
