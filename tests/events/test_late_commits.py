"""Two processes store at once, and the one that numbered its rows first commits last: nothing of it is passed over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from events.failures.asking import settled_number
from events.ingest.records import read_records
from events.ingest.reporters import reporters
from events.models import Fact
from events.otlp.sent import Batch, Sent
from events.store.retention import micros
from events.store.writes import store_facts
from recovery_ops.control.dashboard.live_stream import Newest
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from tests.support.rows import row
from tests.support.stores import store_at

Config = dict[str, Any]
SECOND = timedelta(seconds=1)


@pytest.fixture
def config(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[Config]:
    """An empty store on PostgreSQL; its settings, with which another process connects."""
    reporters.forget()
    url = request.getfixturevalue("migrated_postgres_url")
    with django_db_blocker.unblock(), store_at(url) as settings:
        yield settings


@contextmanager
def uncommitted(config: Config) -> Iterator[Any]:
    """A transaction of another process; what is called by what this yields belongs to it. Committed at the end."""
    ours = connections["default"]
    theirs: Any = ConnectionHandler({"default": config})["default"]

    def within(work: Any) -> None:
        connections["default"] = theirs
        try:
            work()
        finally:
            connections["default"] = ours

    theirs.set_autocommit(False)
    try:
        yield within
        theirs.commit()
    finally:
        theirs.close()
        theirs.close_pool()


def store(instance: str, received: datetime, *, days_late: int = 0) -> None:
    """Store a failure. Transactions that add to the same sums wait for each other; of two days they do not."""
    at_ns = micros(received - timedelta(days=days_late)) * 1000
    sent = Sent("failure", at_ns, 0, 13, "", {"log.record.uid": f"{instance} {at_ns}"}, "", "")
    batch = Batch({"service.name": "billing", "service.instance.id": instance}, "t", [sent])
    with transaction.atomic():
        store_facts(read_records([batch], "dev", micros(received)).rows)


def test_late_commit_of_older_event_pulses(config: Config) -> None:
    newest, now = Newest(), datetime.now(UTC)
    store("a", now - SECOND)
    with uncommitted(config) as within:
        within(lambda: store("b", now, days_late=2))
        store("c", now + SECOND)
        before = newest()
    assert [one.agent.instance for one in Fact.objects.order_by("pk")] == ["a", "b", "c"]
    assert newest() != before


@pytest.mark.usefixtures("engine")
def test_event_received_before_the_newest_pulses() -> None:
    newest, now = Newest(), datetime.now(UTC)
    store("a", now)
    before = newest()
    store("a", now - SECOND)  # another process received it, or the clock was set back
    assert newest() != before


def test_late_commit_of_older_line_pulses(config: Config) -> None:
    newest = Newest()
    one, other = row(Escalation, key="1"), row(Escalation, key="2")
    with uncommitted(config) as within:
        within(lambda: row(EscalationNote, escalation=one))
        row(EscalationNote, escalation=other)
        before = newest()
    assert newest() != before


def test_number_of_open_transaction_is_not_settled(config: Config) -> None:
    now = datetime.now(UTC)
    store("a", now - 60 * SECOND)
    settled = Fact.objects.get().pk
    with uncommitted(config) as within:
        within(lambda: store("b", now, days_late=2))
        store("c", now)
        assert settled_number(now + 60 * SECOND) == settled
    assert settled_number(now + 60 * SECOND) == settled + 2
