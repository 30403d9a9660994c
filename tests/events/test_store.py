"""The statements on both engines: what is stored comes back, and what was there is not stored again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from events.ingest.records import Row, read_records
from events.models import Agent, BreakerState, Fact, MinuteSum, Quarantine, SpanSum
from events.otlp.sent import Batch, Sent
from events.projections.verification import differences, refold
from events.store.writes import store_facts
from tests.support.isolated import rolled_back
from tests.support.otlp import Door, new_uid, protobuf, record, request
from tests.support.records import NOW_US, POISON
from tests.support.store import failures, stored
from tests.support.stores import store_at

ODD_NAMES = ("NULL", "null", "{a,b}", '"', "'", "back\\slash", ",", " leads", "%s", "Äpfel 🍏", "0")
CANARY = "sk-proj-" + "canary" * 6


@pytest.mark.parametrize("size", [1, 249, 250, 251, 500, 501, 999])
def test_any_number_of_rows_is_stored_once(engine: str, size: int) -> None:
    assert connection.vendor.startswith(engine)
    assert stored(failures(range(0, size, 3))) == len(range(0, size, 3))
    assert stored(failures(range(size)) + failures(range(size))) == size - len(range(0, size, 3))
    assert stored(failures(range(size))) == 0
    assert Fact.objects.count() == size
    assert stored([]) == 0


def test_one_uid_in_two_environments_is_two_facts(engine: str) -> None:
    [row] = failures(range(1))
    elsewhere = replace(row, environment="prod", agent=row.agent._replace(environment="prod"))
    assert stored([row, elsewhere, row]) == 2
    assert set(Fact.objects.values_list("environment", "uid")) == {("dev", row.uid), ("prod", row.uid)}


@pytest.mark.parametrize(("before", "new"), [(1, 0), (700, 0), (100, 900), (2000, 6000)])
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_what_is_resent_is_no_error_in_the_log_of_the_database(engine: str, before: int, new: int) -> None:
    stored(failures(range(before)))
    with CaptureQueriesContext(connection) as asked:
        assert stored(failures(range(before + new))) == new
    # Which it would be where all are taken as new: PostgreSQL writes the statement that it refuses to its log.
    taken = [one for one in asked.captured_queries if one["sql"].startswith("INSERT INTO events_factid")]
    assert taken
    assert not [one for one in taken if "ON CONFLICT" not in one["sql"]]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_ids_are_looked_up_one_by_one_before_anything_is_known_of_their_table(engine: str) -> None:
    """Without statistics, which a young store has none of, PostgreSQL thinks that half of a table is any id."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE events_factid SET (autovacuum_enabled = off)")
        cursor.execute(
            "INSERT INTO events_factid SELECT 'dev', decode(lpad(to_hex(n), 32, '0'), 'hex'), 1, 20000"
            " FROM generate_series(1, 20000) AS n"
        )
        with CaptureQueriesContext(connection) as asked:
            stored(failures(range(300)))
            stored(failures(range(301)))
        looks = [one["sql"] for one in asked.captured_queries if "asked.uid" in one["sql"]]
        assert any("known.batch" in sql for sql in looks)
        assert any(sql.startswith("SELECT 1 ") for sql in looks)
        for sql in looks:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "uid = " in plan.partition("Index Cond: ")[2], plan


def test_no_value_is_poison(engine: str) -> None:
    for number, (value, _) in enumerate(POISON.values()):
        assert stored(failures(range(number, number + 1), value=value)) == 1
    found = [fact.attributes["value"] for fact in Fact.objects.order_by("id")]
    assert found == [expected for _, expected in POISON.values()]


def test_every_column_comes_back(engine: str) -> None:
    attributes = {
        "log.record.uid": new_uid(),
        "recovery.sequence_number": 2**63 - 1,
        "recovery.operation.name": "suche nach Äpfeln 🍏",
        "recovery.is_foreground": True,
        "nested": {"list": [1, 2.5, None, "x"]},
    }
    sent = Sent("recovery.exhausted", 2**64 - 1, 0, 17, "gave up", attributes, "ab" * 16, "cd" * 8)
    [row] = read_records([Batch({}, "", [sent])], "dev", NOW_US).rows
    stored([row])
    fact = Fact.objects.get()
    columns = [
        "environment",
        "event",
        "at_us",
        "stated_us",
        "sequence_number",
        "severity",
        "operation",
        "is_foreground",
    ]
    for column in [*columns, "trace_id", "span_id", "attributes", "body"]:
        assert getattr(fact, column) == getattr(row, column), column
    assert bytes(fact.uid) == row.uid


def test_any_text_comes_back(engine: str, subtests: pytest.Subtests) -> None:
    """Whatever reading makes of it before: the store takes it as it is."""
    columns = ["operation", "breaker", "source", "run", "category", "state", "provider", "model", "region", "body"]
    for text in [*ODD_NAMES, r"\N", r"\.", "a\tb", "a\nb\r", "\\\\t", "\x7f\u2028é", r"\x41 \101"]:
        with subtests.test(text=text), rolled_back():
            [row] = failures(range(1))
            texts: dict[str, Any] = dict.fromkeys(columns, text[:16])
            row = replace(row, **texts, attributes_json=json.dumps({"value": text}))
            assert stored([row, *failures(range(1, 3))]) == 3
            fact = Fact.objects.get(operation=text[:16])
            assert [getattr(fact, column) for column in columns] == [text[:16]] * len(columns)
            assert fact.attributes["value"] == text
            assert Fact.objects.filter(region=None, stated_us=None).count() == 2


def test_a_secret_is_nowhere_in_the_database(door: Door) -> None:
    text = f"Authorization: Bearer {CANARY}"
    everywhere = {CANARY: 1, "a": text, "recovery.operation.name": CANARY, "session.id": CANARY, "b": {"c": [text]}}
    ours = record(given={**everywhere, "log.record.uid": CANARY}, body={"stringValue": text})
    theirs = record(text, given=everywhere, severityNumber=17)
    spoilt = record(given={**everywhere, **{f"k{number}": CANARY for number in range(1100)}})
    resource = {"service.name": CANARY, "service.version": text, "host.name": CANARY}
    assert door.post(protobuf(request(ours, theirs, spoilt, resource=resource))).status_code == 200
    assert door.post(f"rubbish {text}".encode(), headers={"content-type": "application/json"}).status_code == 400
    assert (Fact.objects.count(), Quarantine.objects.count()) == (2, 2)
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            assert "canarycanary" not in str(cursor.fetchall()), table


def of_a_fleet(agents: range, breakers: range, at_us: int = NOW_US) -> list[Row]:
    """What each agent says of each of its breakers, and a sign of life."""
    batches = []
    for agent in agents:
        told = [
            Sent(
                "recovery.breaker_state_changed",
                (at_us - number) * 1000,
                0,
                13,
                "",
                {
                    "log.record.uid": f"{at_us} {agent} {number}",
                    "recovery.breaker.name": f"b{number}",
                    "recovery.breaker.state": "open",
                    "recovery.operation.name": f"b{number}",
                },
                "",
                "",
            )
            for number in breakers
        ]
        alive = {"log.record.uid": f"{at_us} {agent} alive", "recovery.schema_version": 1}
        told.append(Sent("recovery.instance_heartbeat", at_us * 1000, 0, 9, "", alive, "", ""))
        batches.append(Batch({"service.name": "billing", "service.instance.id": f"r-{agent}"}, "t", told))
    return read_records(batches, "dev", at_us).rows


@pytest.mark.parametrize("agents", [1, 8, 9, 60])
def test_few_agents_and_many_are_folded_alike(engine: str, agents: int) -> None:
    for later_us in (90_000_000, 0):  # what comes late changes no state, so what it was has to be known
        rows = of_a_fleet(range(agents), range(4), NOW_US + later_us)
        assert stored(rows) == agents * 5
    assert Agent.objects.filter(heartbeat_us=NOW_US + 90_000_000).count() == agents
    assert BreakerState.objects.filter(state="open", at_us__gt=NOW_US).count() == agents * 4
    assert list(differences(refold()[0], None)) == []


@pytest.mark.parametrize("later_us", [1, 90_000_000], ids=["one minute", "two minutes"])
def test_parts_of_one_transaction_are_each_counted_once(engine: str, later_us: int) -> None:
    """As a group is stored of which one record cannot be."""
    first = of_a_fleet(range(12), range(4))
    with transaction.atomic():
        assert [store_facts(first), store_facts(first[:30])] == [60, 0]
        assert store_facts([*first[:30], *of_a_fleet(range(12), range(4, 8), NOW_US + later_us)]) == 60
    assert list(differences(refold()[0], None)) == []


def test_sums_are_locked_in_the_order_of_their_keys(migrated_postgres_url: str, transactional_db: None) -> None:
    """Two processes that add to the same ones wait for each other, and never for ever."""
    with store_at(migrated_postgres_url):
        for minute in range(4):
            at_ns = (NOW_US - minute * 60_000_000) * 1000
            told = [
                Sent(
                    "failure",
                    at_ns,
                    0,
                    13,
                    "",
                    {
                        "log.record.uid": f"{minute} {number}",
                        "recovery.operation.name": "o" * (number % 150) + f"{number}",
                    },
                    "",
                    "",
                )
                for number in range(400)
            ]
            stored(read_records([Batch({"service.name": "billing"}, "t", told)], "dev", NOW_US).rows)
        for table, minutes in ((MinuteSum.objects, "minute"), (SpanSum.objects.filter(view="each", minutes=5), "span")):
            made = [(row[0], bytes(row[1])) for row in table.order_by("id").values_list(minutes, "dimensions")]
            assert len(made) >= 400
            for which in {row[0] for row in made}:
                own = [row for row in made if row[0] == which]
                assert own == sorted(own)


def test_any_name_is_found_again(engine: str) -> None:
    for later in range(2):
        batches = [
            Batch(
                {"service.name": name, "service.instance.id": name, "service.version": name},
                "t",
                [
                    Sent(
                        "recovery.breaker_state_changed",
                        (NOW_US + later) * 1000,
                        later,
                        13,
                        "",
                        said(name, later),
                        "",
                        "",
                    )
                ],
            )
            for name in ODD_NAMES
        ]
        assert stored(read_records(batches, "dev", NOW_US + later).rows) == len(ODD_NAMES)
    assert set(BreakerState.objects.values_list("breaker", "agent__instance")) == {(one, one) for one in ODD_NAMES}
    assert BreakerState.objects.count() == Agent.objects.count() == len(ODD_NAMES)
    assert list(differences(refold()[0], None)) == []


def said(name: str, later: int) -> dict[str, object]:
    state = "closed" if later else "open"
    return {"log.record.uid": f"{name} {later}", "recovery.breaker.name": name, "recovery.breaker.state": state}


def test_what_breakers_were_is_looked_up_and_not_searched_for_in_a_large_fleet(
    migrated_postgres_url: str, transactional_db: None
) -> None:
    with store_at(migrated_postgres_url):
        for first in range(0, 300, 100):
            stored(of_a_fleet(range(first, first + 100), range(20)))
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE events_breakerstate")
        with CaptureQueriesContext(connection) as queries:
            stored(of_a_fleet(range(20), range(10), NOW_US + 90_000_000))
        asked = [
            one["sql"] for one in queries if "FROM events_breakerstate" in one["sql"] and "SELECT" in one["sql"][:8]
        ]
        assert asked
        with connection.cursor() as cursor:
            for sql in asked:
                cursor.execute(f"EXPLAIN {sql}")
                plan = "\n".join(line for (line,) in cursor.fetchall())
                assert "breaker_state_once" in plan, plan
