"""What a question visits does not grow with the facts that are stored: asked of one week, and of the same made denser.

Counted are the steps of SQLite's machine and the rows that PostgreSQL's plans touch, which no other work on the machine
changes. What is read of facts is bounded by the limits of each question, here set low so that both stores reach them.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from recovery_ops.bench.growing import make_denser
from recovery_ops.bench.questions import Place, Question, questions
from tests.support.low_limits import read_little
from tests.support.query_steps import steps

TIMES = 5
MOST_TIMES = 1.5
SPARE = {"sqlite": 20, "postgresql": 500}
"""Thousands of steps, and rows: what is too little to matter, or an index that became one level deeper."""
GROWING = {"gate of a rollout", "calls let through", "sums of some calls, 24 h"}
"""The first two read every count of the last half hour; their price is that of what the fleet sends in that time. The
third looks through the sums of a day: one for each kind of call in each of its spans, which the sparse store has not.
"""


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    read_little(monkeypatch)


def thousands_of_steps(question: Question) -> float:
    """Of SQLite's machine."""
    return steps(question.ask)


def rows_of(question: Question) -> float:
    """Rows that the plans of its statements touched, those that were passed by too."""
    with CaptureQueriesContext(connection) as asked:
        question.ask()
    total = 0.0
    with connection.cursor() as cursor:
        for one in asked.captured_queries:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {one['sql'].replace('%', '%%')}", ())
            told = cursor.fetchone()[0]
            total += _touched((json.loads(told) if isinstance(told, str) else told)[0]["Plan"])
    return total


def know_sizes() -> None:
    """PostgreSQL plans by what it knows of its tables, and learns that in its own time unless it is asked."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def _touched(plan: dict[str, Any]) -> float:
    own = 0.0
    if "Scan" in plan["Node Type"]:
        own = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return own + sum(map(_touched, plan.get("Plans", ())))


@pytest.mark.usefixtures("low_limits")
def test_a_denser_store_costs_no_question_more(engine: str) -> None:
    # At an hour past midnight the newest partition is so small that PostgreSQL reads all of it, sparse or dense.
    now = datetime.now(UTC).replace(hour=13, minute=0, second=0, microsecond=0) - timedelta(days=1)
    call_command("seed", facts=4000, agents=4, breakers=3, runs=9, days=0.5, environment="dev", until=now)
    measure = thousands_of_steps if connection.vendor == "sqlite" else rows_of
    know_sizes()
    place = Place("dev", now, "operation_001")
    few = {one.name: measure(one) for one in questions(place)}
    make_denser(TIMES)
    know_sizes()
    many = {one.name: measure(one) for one in questions(place)}
    spare = SPARE[connection.vendor]
    grown = {name: (few[name], cost) for name, cost in many.items() if cost > MOST_TIMES * few[name] + spare}
    assert {name: pair for name, pair in grown.items() if name not in GROWING} == {}
