"""A sweep that is killed between two of its statements on PostgreSQL loses and doubles nothing; the next ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from events.ingest.records import Row
from events.models import Fact
from events.projections import verification
from events.store import partitions, retention
from events.store.retention import micros, sweep_facts
from events.store.writes import store_facts
from tests.support import stores
from tests.support.partitions import rows
from tests.support.processes import ROOT, clean_environment
from tests.support.stores import TODAY

NOW = TODAY + retention.USUAL - timedelta(days=partitions.BEHIND_DAYS - 1)
"""The oldest day is over, and the last one ahead is missing: the sweep makes one and drops one."""
OLDEST = partitions.BEHIND_DAYS
OF_DAYS = (
    "ALTER TABLE events_fact_rest ADD CONSTRAINT",
    "ALTER TABLE events_fact_rest VALIDATE CONSTRAINT",
    "CREATE TABLE events_fact_",
    "ALTER TABLE events_fact ATTACH PARTITION",
    "ALTER TABLE events_fact_rest DROP CONSTRAINT",
    "ALTER TABLE events_fact DETACH PARTITION",
    "INSERT INTO events_fact SELECT",
    "DROP TABLE events_fact_",
)
AFTER_DAYS = "DELETE FROM events_fact"
"""The first statement of what the sweep does when days are made and dropped: deleting, a transaction for each step."""


def told() -> list[Row]:
    """Facts whose time is over, facts of the same day that are kept longer or came late, and facts of today."""
    return (
        rows("failure", OLDEST, range(5))
        + rows("breaker_state_changed", OLDEST, range(3))
        + rows("failure", OLDEST, range(10, 12), received_days_ago=0)
        + rows("failure", 0, range(4))
    )


def kept() -> list[Row]:
    """Those of them whose time is not over."""
    given = told()
    return [row for row in given if row.event != "failure_classified" or row.received_us >= micros(TODAY)]


def late() -> list[Row]:
    """What comes in between the kill and the next sweep: of a day that has its partition, and of one that has none."""
    return rows("failure", 0, range(20, 22)) + rows("breaker_state_changed", OLDEST + 30, range(2))


def held() -> list[tuple[str, bytes]]:
    return sorted((event, bytes(uid)) for event, uid in Fact.objects.values_list("event", "uid"))


def uids(given: list[Row]) -> list[tuple[str, bytes]]:
    return sorted((row.event, row.uid) for row in given)


@contextmanager
def sweeper() -> Iterator[Any]:
    """Ask a process to sweep and to die at a moment; returns what it died at."""
    words = [sys.executable, "-m", "tests.events.killed"]
    env = clean_environment({"DJANGO_SETTINGS_MODULE": "tests.settings"})
    with subprocess.Popen(
        words, cwd=ROOT, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, said = process.stdin, process.stdout

        def killed_at(url: str, moment: int) -> str:
            given.write(json.dumps({"url": url, "now": NOW.isoformat(), "moment": moment}) + "\n")
            return said.readline().rstrip("\n")

        yield killed_at
        given.close()


def check(url: str) -> None:
    """Facts come in, some again; then the next sweep leaves what an undisturbed one leaves."""
    with stores.store_at(url):
        assert len(held()) == len(set(held()))
        with transaction.atomic():
            assert store_facts([*late(), *rows("failure", 0, range(4))]) == len(late())
        sweep_facts(NOW)
        assert held() == uids([*kept(), *late()])
        assert partitions.detached() == []
        days = [day.date for day in partitions.days()]
        assert days[0] == TODAY.date() - timedelta(days=OLDEST - 1)
        assert days[-4:] == [NOW.date() + timedelta(days=number) for number in range(partitions.AHEAD_DAYS + 1)]
        assert partitions._kept_out() == []
        assert list(verification.differences(verification.refold()[0], NOW)) == []


@pytest.fixture
def filled(migrated_postgres_url: str, transactional_db: None) -> str:
    """The name of a database that a sweep has something to do in; nobody is connected to it."""
    with stores.store_at(migrated_postgres_url):
        with transaction.atomic():
            store_facts(told())
        partitions.make_ahead((NOW - timedelta(days=1)).date())
    return migrated_postgres_url.partition("?")[0].rpartition("/")[2]


@pytest.mark.full
def test_a_sweep_that_is_killed_between_any_two_statements_is_ended_by_the_next(
    filled: str, postgres_server: str
) -> None:
    died_at: list[str] = []
    with sweeper() as killed_at:
        while not died_at or not died_at[-1].startswith(AFTER_DAYS):
            name = f"killed_{uuid4().hex}"
            url = stores.create_database(postgres_server, name, template=filled)
            try:
                died_at.append(killed_at(url, len(died_at)))
                assert died_at[-1] not in ("", "failed"), "it was to be killed, and was not"
                check(url)
            finally:
                stores.drop_database(postgres_server, name)
    for kind in OF_DAYS:
        assert any(one.startswith(kind) for one in died_at), f"it was killed before {kind} was committed"
    assert sum(one.startswith("SET LOCAL") for one in died_at) == 6, "and after each commit but the last"
