"""No question of a page reads a whole table of facts or sums, on either engine, however much is stored."""

from __future__ import annotations

import re

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events.queries import fleet_bins, moves
from recovery_ops.bench.questions import Place, Question, questions

LARGE = "events_(?:fact|minutesum|spansum|degradation)"
WHOLE = {
    "sqlite": re.compile(rf"\bSCAN (?:TABLE )?{LARGE}\w*"),
    "postgresql": re.compile(rf"Seq Scan on {LARGE}\w*"),
}
RANGED = re.compile(r"fact_by_run \(environment=\? AND run>\?\)")
"""Of the index of runs, the part after some run instead of that of one."""


def plan_of(statement: str) -> str:
    explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
    with connection.cursor() as cursor:
        cursor.execute(explain + statement.replace("%", "%%"), ())
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def whole_tables(question: Question) -> list[str]:
    """The statements of a question whose plan reads all of a large table or index, with that line."""
    with CaptureQueriesContext(connection) as asked:
        question.ask()
    found = []
    for one in asked.captured_queries:
        plan = plan_of(one["sql"])
        if line := WHOLE[connection.vendor].search(plan) or RANGED.search(plan):
            found.append(f"{line[0]}: {one['sql'][:300]}")
    return found


def test_every_question_finds_what_it_reads_by_an_index(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOVES_READ", 20)
    call_command("seed", facts=3000, agents=4, breakers=3, runs=9, days=0.5, environment="dev")
    if engine == "postgres":
        with connection.cursor() as cursor:
            # A small table is cheaper to read whole; what matters is whether it has to be.
            cursor.execute("ANALYZE")
            cursor.execute("SET enable_seqscan = off")
    for most in (0, 1000):
        monkeypatch.setattr(fleet_bins, "EXACT_MOVES", most)
        place = Place("dev", timezone.now(), "operation_001")
        found = {one.name: whole for one in questions(place) if (whole := whole_tables(one))}
        assert found == {}


def test_a_plan_that_reads_everything_is_noticed(engine: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    plan = plan_of("SELECT count(*) FROM events_fact WHERE body = 'x'")
    assert WHOLE[connection.vendor].search(plan)
