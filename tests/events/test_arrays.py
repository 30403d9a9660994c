"""Columns of rows reach PostgreSQL as arrays that we write, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.deployments.told import Told
from events.ingest.records import Row, read_records
from events.models import Agent, MinuteSum
from events.otlp.sent import Batch, Sent
from events.store import copying, statements
from events.store.copying import array_of
from events.store.statements import Merge
from events.store.writes import store_facts
from tests.support.records import NOW_US

on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00")) | st.sampled_from(
    ["", "NULL", "null", "{}", '"', "\\", '","', "a,b", "' or 1", " ", "\t\n", "\\x00", "%s", "Äpfel 🍏"]
)
WHOLE = st.integers(-(2**63), 2**63 - 1)
COLUMNS = [("text", TEXTS), ("bigint", WHOLE), ("boolean", st.booleans()), ("bytea", st.binary())]
COLUMNS += [("double precision", st.floats(allow_nan=False))]


@on_postgres
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_written_is_read(engine: str, data: st.DataObject) -> None:
    for kind, values in COLUMNS:
        column = data.draw(
            st.lists(values, min_size=1, max_size=5) | st.lists(values | st.none(), min_size=1, max_size=5)
        )
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT one FROM unnest(%s::{kind}[]) WITH ORDINALITY AS told(one, at) ORDER BY at", [array_of(column)]
            )
            found = [bytes(one) if isinstance(one, memoryview) else one for (one,) in cursor.fetchall()]
        assert found == column, kind


@on_postgres
def test_every_table_takes_its_columns_as_arrays(engine: str) -> None:
    """Their types are those of the models."""
    merges = [one for one in vars(statements).values() if isinstance(one, Merge)]
    assert len(merges) > 7
    for merge in merges:
        with connection.cursor() as cursor:
            cursor.execute(merge.by_arrays(), ["{}"] * len(merge.columns))
            assert cursor.rowcount == 0


LARGEST = 5_000_000
"""Characters: five times what a statement's arrays may have, because a backslash becomes four on its way."""


def told_of_each(count: int, agents: int, at_us: int) -> list[Row]:
    """Facts that have nothing in common, in names of the worst kind."""
    batches = []
    for agent in range(agents):
        named = [f"{number:04d}".ljust(200, "\\") for number in range(agent, count, agents)]
        given: list[dict[str, object]] = [
            {"recovery.operation.name": name, "recovery.breaker.name": name, "log.record.uid": f"{at_us} {name}"}
            for name in named
        ]
        records = [Sent("recovery.failure_classified", at_us * 1000, 0, 13, "", each, "", "") for each in given]
        resource: dict[str, object] = {
            "service.name": "\\" * 200,
            "service.instance.id": f"{agent:04d}".ljust(200, "\\"),
        }
        batches.append(Batch(resource, "t", records))
    return read_records(batches, "dev", at_us).rows


@on_postgres
@pytest.mark.parametrize("agents", [1, 1500])
def test_no_statement_grows_with_what_comes_at_once(engine: str, agents: int) -> None:
    """PostgreSQL takes none of a gigabyte and more: what needed one would have been refused for ever."""
    for at_us in (NOW_US, NOW_US + 1):  # the second time agents are there to be locked, and sums to be added to
        rows = told_of_each(1500, agents, at_us)
        with transaction.atomic(), CaptureQueriesContext(connection) as asked:
            assert store_facts(rows) == 1500
        assert max(len(one["sql"]) for one in asked.captured_queries) < LARGEST
    assert MinuteSum.objects.aggregate(Sum("failures"))["failures__sum"] == 3000
    assert set(Agent.objects.values_list("last_seen_us", flat=True)) == {NOW_US + 1}
    assert Agent.objects.count() == agents


@on_postgres
def test_agents_are_locked_in_their_order_however_many_they_are(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that locked them in two orders would wait for each other."""
    monkeypatch.setattr(copying, "_MOST_ROWS", 3)
    rows = told_of_each(8, 8, NOW_US)
    with transaction.atomic():  # so that their numbers are in another order than their names
        store_facts(rows[4:])
        store_facts(rows[:4])
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        assert store_facts(told_of_each(8, 8, NOW_US + 1)) == 8
    locking = [one["sql"] for one in asked.captured_queries if one["sql"].endswith("ORDER BY id FOR UPDATE")]
    parts = [[int(number) for number in re.findall(r"\d+", sql.partition("unnest")[2])] for sql in locking]
    assert [len(part) for part in parts] == [3, 3, 2]
    ids = [number for part in parts for number in part]
    assert ids == sorted(Agent.objects.values_list("id", flat=True))


@on_postgres
def test_a_text_that_is_too_long_is_refused_and_not_cut(engine: str) -> None:
    row: Sequence[object] = ("dev", "s" * 1000, "v", *([1] * len(Told._fields)))
    with pytest.raises(DatabaseError, match="too long"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statements.VERSIONS.by_arrays(), [array_of([one]) for one in row])
