"""Facts reach a database without what they have in common, in the order of their time, and are whole in the table."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from django.db import connection, transaction

from events.ingest.records import Row
from events.models import Fact
from events.store import statements
from tests.support.store import failures, stored

MORE_THAN_A_PART = 4_500
BY_NUMBER = "SEARCH head USING INTEGER PRIMARY KEY"
"""As SQLite says in a plan that a row is found by its number."""


def shared_by_few(count: int) -> list[Row]:
    """Facts of which each third has its own operation, so that heads take several statements, too."""
    rows = failures(range(count))
    return [replace(row, operation=f"operation {number // 3}") for number, row in enumerate(rows)]


def test_each_fact_has_what_it_shares_with_others(engine: str) -> None:
    rows = shared_by_few(MORE_THAN_A_PART)
    assert stored(rows) == MORE_THAN_A_PART
    found = {bytes(uid): operation for uid, operation in Fact.objects.values_list("uid", "operation")}
    assert found == {row.uid: row.operation for row in rows}


def test_a_transaction_knows_nothing_of_what_another_shared(engine: str) -> None:
    first, second = failures(range(3)), failures(range(3, 6))
    stored([replace(row, provider="helios") for row in first])
    stored([replace(row, provider="borealis") for row in second])
    found = {bytes(uid): provider for uid, provider in Fact.objects.values_list("uid", "provider")}
    assert found == {row.uid: "helios" for row in first} | {row.uid: "borealis" for row in second}


def test_a_connection_whose_first_transaction_failed_stores_the_next(engine: str) -> None:
    connection.close()  # a new one has no table for what is shared
    with transaction.atomic():
        assert stored(failures(range(2))) == 2
        transaction.set_rollback(True)
    assert stored(failures(range(2))) == 2


def test_facts_are_numbered_in_the_order_of_their_time(engine: str) -> None:
    """What is looked at in the order of numbers is not mixed up by who was read first."""
    rows = failures(range(20))
    random.Random(7).shuffle(rows)
    stored(rows)
    assert list(Fact.objects.order_by("id").values_list("at_us", flat=True)) == sorted(row.at_us for row in rows)


def test_facts_of_one_moment_keep_their_order(engine: str) -> None:
    rows = [replace(row, at_us=row.received_us) for row in failures(range(20))]
    stored(rows)
    assert [bytes(uid) for uid in Fact.objects.order_by("id").values_list("uid", flat=True)] == [
        row.uid for row in rows
    ]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_is_shared_is_found_by_its_number(engine: str) -> None:
    stored(failures(range(1)))
    with connection.cursor() as cursor:
        values = ["0"] * 4 * (1 + len(statements.OWN_COLUMNS))
        told = statements.insert_facts(4).replace("?", "%s")
        cursor.execute(f"EXPLAIN QUERY PLAN {told}", values)
        plan = " / ".join(step[-1] for step in cursor.fetchall())
    assert BY_NUMBER in plan
