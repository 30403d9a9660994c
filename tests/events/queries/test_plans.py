"""No question of a page reads a whole table of facts or sums, on either engine, however much is stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events.capacity import detection
from events.capacity.following import EVERY_S, follow_runs
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.queries import fleet_bins, moves
from events.recoveries.summing import sum_days
from recovery_ops.bench.questions import Place, questions
from recovery_ops.control.actions.failures_due import keep_failures
from recovery_ops.control.actions.quorum import keep_quorum
from recovery_ops.control.escalations.due import keep_deadlines
from recovery_ops.control.escalations.opening import open_escalations
from recovery_ops.control.models import Escalation
from recovery_ops.control.notify.budgets import watch
from recovery_ops.control.notify.telling import tell
from recovery_ops.rules.facts import Escalated
from recovery_ops.rules.words import Category
from tests.events.seeding import NOW, Story, failed

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


def whole_tables(ask: Callable[[], object]) -> list[str]:
    """The statements of a question or a look whose plan reads all of a large table or index, with that line."""
    with CaptureQueriesContext(connection) as asked:
        ask()
    found = []
    for one in asked.captured_queries:
        if not one["sql"].startswith(("SELECT", "WITH", "UPDATE", "DELETE", "INSERT")):
            continue
        plan = plan_of(one["sql"])
        if line := WHOLE[connection.vendor].search(plan) or RANGED.search(plan):
            found.append(f"{line[0]}: {one['sql'][:300]}")
    return found


def seeded(engine: str, **more: datetime) -> None:
    """A small fleet's half day; a small table is cheaper to read whole, but what matters is whether it has to be."""
    call_command("seed", facts=3000, agents=4, breakers=3, runs=9, days=0.5, environment="dev", **more)
    if engine == "postgres":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
            cursor.execute("SET enable_seqscan = off")


def test_every_question_finds_what_it_reads_by_an_index(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOVES_READ", 20)
    seeded(engine)
    for most in (0, 1000):
        monkeypatch.setattr(fleet_bins, "EXACT_MOVES", most)
        place = Place("dev", timezone.now(), "operation_001")
        found = {one.name: whole for one in questions(place) if (whole := whole_tables(one.ask))}
        assert found == {}


def test_every_look_of_the_worker_finds_what_it_reads_by_an_index(engine: str) -> None:
    story = Story()
    for at in range(60):
        overload = failed(Category.OVERLOADED, provider="helios", model="large", operation="model:large")
        story.tell(overload, at=at, instance=f"a-{at % 2}", run=f"run-{at % 3}")
    story.tell(Escalated(queue="policy", reason="policy_denied", escalation_id="e-1", message="May it?"), at=5)
    story.store()
    seeded(engine, until=NOW)
    now = NOW
    looks: dict[str, Callable[[], object]] = {
        "outages": lambda: detection.look("dev", now),
        "outages of late facts": lambda: detection.look_back("dev", now),
        "whom they reach": lambda: read_reach("dev", now),
        "what becomes of their runs": lambda: follow_runs("dev", now + timedelta(seconds=EVERY_S)),
        "days of recoveries": lambda: sum_days("dev", now),
        "questions to people": lambda: open_escalations("dev", now),
        "their deadlines": lambda: keep_deadlines("dev", now + timedelta(hours=2)),
        "causes that are back": lambda: keep_failures("dev", now=now),
        "quorums": lambda: keep_quorum("dev", now=now),
        "retry budgets": lambda: watch("dev", now),
        "news for people": lambda: tell("dev", now),
    }
    found = {name: whole for name, ask in looks.items() if (whole := whole_tables(ask))}
    assert found == {}
    assert CapacityEvent.objects.exists(), "there was something to look at"
    assert Escalation.objects.exists()


def test_a_plan_that_reads_everything_is_noticed(engine: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    plan = plan_of("SELECT count(*) FROM events_fact WHERE body = 'x'")
    assert WHOLE[connection.vendor].search(plan)
