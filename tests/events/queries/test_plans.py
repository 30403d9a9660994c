"""No question of a page reads a whole table of facts or sums, on either engine, however much is stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events.capacity import detection
from events.capacity.following import EVERY_S, follow_runs
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.failures.asking import counts_between, last_number, senders_between
from events.failures.clean import RunEnd, callers_between, causes_met, ends_between
from events.models import Agent, Fact
from events.queries import fleet_bins, moves
from events.recoveries.summing import sum_days
from events.store.partitions import make_ahead
from recovery_ops.bench.questions import Place, questions
from recovery_ops.control.breakers.services.quorum import keep_quorum
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.notifications.retry_budgets import watch
from recovery_ops.control.notifications.rules import tell
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import Escalated, RunFinished
from recovery_ops.rules.roles import Role
from tests.support.pages import PAGES, signed_in
from tests.support.stories import NOW, Story, counted, failed

LARGE = "events_(?:fact(?!_number)|minutesum|spansum|degradation)"
WHOLE = {
    "sqlite": re.compile(rf"\bSCAN (?:TABLE )?{LARGE}\w*"),
    "postgresql": re.compile(rf"Seq Scan on {LARGE}\w*"),
}
RANGED = re.compile(r"fact_by_run \(environment=\? AND run>\?\)")
"""Of the index of runs, the part after some run instead of that of one."""
READ = {
    "sqlite": re.compile(rf"SEARCH {LARGE}\w* USING .*?\((?P<by>[^()]*)\)$", re.MULTILINE),
    "postgresql": re.compile(
        rf"Scan (?!using degradation_open).*?on {LARGE}\w*.*(?:\n +(?:Index|Recheck) Cond: (?P<by>.*))?"
    ),
}
"""Of a plan, where it reads a large table by an index, and what it asks that for. `degradation_open` holds no more than
what is open now."""
IN_TIME = re.compile(r"\b(?:at_us|minute|span|started_us|ended_us)\b *(?:[<>=]|IS NULL)|\b(?:row)?id ?>")
"""Some stretch of time, or of what came in last."""
NEWEST = re.compile(r'^SELECT "events_fact"."id" AS "pk" FROM "events_fact" ORDER BY 1 DESC LIMIT 1$')
"""One end of an index, which a plan calls a scan."""
SINGLE = re.compile(r"\b(?:id|rowid|uid|run)\b\)?(?:::text)? *=")
"""Facts by their numbers, or those of one run."""
BY_NUMBER = re.compile(r"\bid = ANY")
MOST_DAYS = 3
"""In the partitions of so many days at most, facts are looked for by their numbers: what was seeded lies in two."""
SORTS = {
    "sqlite": re.compile("USE TEMP B-TREE FOR ORDER BY"),
    "postgresql": re.compile(r"^ *(?:-> +)?Sort  \(", re.MULTILINE),
}
"""All that was found is put in order, instead of being read in order up to a limit."""


def plan_of(statement: str) -> str:
    """What the engine would do; on PostgreSQL it sorts only what it cannot read in order: that little is here says
    nothing. (Not while it is carried out, for which it would choose what never ends.)
    """
    is_sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        if not is_sqlite:
            cursor.execute("SET enable_sort = off")
        cursor.execute(("EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN ") + statement.replace("%", "%%"), ())
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
        if not is_sqlite:
            cursor.execute("RESET enable_sort")
    return plan


def reads_too_much(ask: Callable[[], object], *, is_page: bool = False) -> list[str]:
    """The statements of a question or a look whose plan reads all of a large table or index, and why we think so.

    What is asked by a page has to be bounded as well.
    """
    with CaptureQueriesContext(connection) as asked:
        ask()
    found = []
    for one in asked.captured_queries:
        if not one["sql"].startswith(("SELECT", "WITH", "UPDATE", "DELETE", "INSERT")):
            continue
        if NEWEST.search(one["sql"]):
            continue
        plan = plan_of(one["sql"])
        if line := WHOLE[connection.vendor].search(plan) or RANGED.search(plan):
            found.append(f"{line[0]}: {one['sql'][:300]}")
        elif is_page and (why := unbounded(one["sql"], plan)):
            found.append(f"{why}: {one['sql'][:300]}")
    return found


def unbounded(statement: str, plan: str) -> str:
    """Why a plan reads more the more is stored, whatever the window; empty where it does not."""
    asked_for = [found["by"] or "everything" for found in READ[connection.vendor].finditer(plan)]
    for one in asked_for:
        if not IN_TIME.search(one) and not SINGLE.search(one):
            return f"reads all of {one}"
    if sum(bool(BY_NUMBER.search(one)) for one in asked_for) > MOST_DAYS:
        return "looks for numbers in every day that is kept"
    windows = [one for one in asked_for if IN_TIME.search(one) and not SINGLE.search(one)]
    if windows and " LIMIT " in statement and SORTS[connection.vendor].search(plan):
        return "sorts all that is in its window to show some"
    return ""


def seeded(engine: str, **more: Any) -> None:
    """A small fleet's half day; a small table is cheaper to read whole, but what matters is whether it has to be."""
    call_command("seed", facts=3000, agents=4, breakers=3, runs=9, days=0.5, environment="dev", **more)
    if engine == "postgres":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
            cursor.execute("SET enable_seqscan = off")


def test_every_question_finds_what_it_reads_by_an_index(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOVES_READ", 20)
    seeded(engine)
    # At these minutes a window has short sums at both of its ends.
    for most, minute in ((0, 7), (1000, 38)):
        monkeypatch.setattr(fleet_bins, "EXACT_MOVES", most)
        place = Place("dev", timezone.now().replace(minute=minute), "operation_001")
        found = {one.name: much for one in questions(place) if (much := reads_too_much(one.ask, is_page=True))}
        assert found == {}


def test_every_look_of_the_worker_finds_what_it_reads_by_an_index(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.capacity.hits.READ_MOST", 20)  # of a flood, the ends are looked for
    monkeypatch.setattr("events.capacity.hits.FLOOD_READ", 10)
    story = Story()
    for at in range(60):
        overload = failed(Category.OVERLOADED, provider="helios", model="large", operation="model:large")
        story.tell(overload, at=at, instance=f"a-{at % 2}", run=f"run-{at % 3}")
    story.tell(Escalated(queue="policy", reason="policy_denied", escalation_id="e-1", message="May it?"), at=5)
    story.store()
    seeded(engine, until=NOW)
    now = NOW
    newest = last_number()
    looks: dict[str, Callable[[], object]] = {
        "outages": lambda: detection.look("dev", now),
        "outages of late facts": lambda: detection.look_back("dev", now),
        "whom they reach": lambda: read_reach("dev", now),
        "what becomes of their runs": lambda: follow_runs("dev", now + timedelta(seconds=EVERY_S)),
        "days of recoveries": lambda: sum_days("dev", now),
        "questions to people": lambda: open_escalations("dev", now),
        "their deadlines": lambda: keep_deadlines("dev", now + timedelta(hours=2)),
        "causes that are back": lambda: keep_failures("dev", now=now),
        "what came of causes": lambda: counts_between(0, newest, environment="dev"),
        "who told of causes": lambda: senders_between(0, newest, environment="dev"),
        "who called operations": lambda: callers_between(0, newest, environment="dev"),
        "runs that ended": lambda: ends_between(0, newest, environment="dev"),
        "what these runs met": lambda: causes_met("dev", [RunEnd(1, f"run-{number}", now) for number in range(3)]),
        "quorums": lambda: keep_quorum("dev", now=now),
        "retry budgets": lambda: watch("dev", now),
        "news for people": lambda: tell("dev", now),
    }
    found = {name: whole for name, ask in looks.items() if (whole := reads_too_much(ask))}
    assert found == {}, found
    assert CapacityEvent.objects.exists(), "there was something to look at"
    assert Escalation.objects.exists()


@pytest.mark.full
def test_every_page_finds_what_it_reads_by_an_index(engine: str) -> None:
    seeded(engine, escalations=3)
    client = signed_in(Role.ADMIN)
    run = Fact.objects.filter(environment="dev", run__gt="").values_list("run", flat=True)[:1].get()
    open_one = Escalation.objects.filter(merged_into=None).values_list("pk", flat=True)[:1].get()
    agent = Agent.objects.values("service", "instance").first()
    more = {
        "a run that is looked for": f"/find?q={run}",
        "escalation": f"/escalations/{open_one}",
        "post-mortem": f"/escalations/{open_one}/post-mortem",
        "settings in force": f"/agents/settings?{urlencode(agent or {})}",
        "runs of an instance": f"/agents/settings?{urlencode(agent or {})}&tab=runs",
    }
    pages = {
        name: path.replace("search_web", "operation_001").replace("run-1", run) for name, path in (PAGES | more).items()
    }
    found = {}
    for name, path in pages.items():
        look = partial(client.get, path, headers={"X-Fragment": "all"} if name == "counts" else {})
        assert look().status_code == 200, path
        if much := reads_too_much(look, is_page=True):
            found[name] = much
    assert found == {}, found


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT count(*) FROM events_fact WHERE environment = 'dev' AND event = 'log'", "reads all"),
        ("SELECT max(body) FROM events_fact WHERE environment = 'dev'", "reads all"),
        (
            "SELECT id FROM events_fact WHERE environment = 'dev' AND event = 'x' AND at_us > 1 ORDER BY body LIMIT 5",
            "sorts all",
        ),
    ],
)
def test_a_plan_that_is_not_bounded_is_noticed(engine: str, statement: str, why: str) -> None:
    seeded(engine)
    assert unbounded(statement, plan_of(statement)).startswith(why)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_numbers_that_are_looked_for_in_every_partition_are_noticed(engine: str) -> None:
    seeded(engine)
    statement = "SELECT body FROM events_fact WHERE id IN (1, 2, 3)"
    assert unbounded(statement, plan_of(statement)).startswith("looks for numbers")


def test_a_plan_that_reads_everything_is_noticed(engine: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    plan = plan_of("SELECT count(*) FROM events_fact WHERE body = 'x'")
    assert WHOLE[connection.vendor].search(plan)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_what_runs_met_is_looked_for_in_the_days_they_may_have_lasted(engine: str) -> None:
    make_ahead(NOW.date(), behind=9)
    story = Story()
    for day in range(9):
        story.tell(failed(Category.TIMEOUT, fingerprint="one"), at=86_400.0 * day, run=f"run-{day}")
    story.store()
    ends = [RunEnd(1, f"run-{day}", NOW) for day in range(9)]
    with CaptureQueriesContext(connection) as asked:
        met = causes_met("dev", ends)
    assert sorted(met) == ["run-0", "run-1", "run-2"]
    days = set(re.findall(r"Scan.*? on events_fact_(\d{8})", plan_of(asked[0]["sql"])))
    assert min(days) == f"{NOW - timedelta(days=2):%Y%m%d}"


def test_runs_that_did_not_end_are_not_read_to_find_those_that_did(engine: str) -> None:
    story = Story().tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=1.0), at=5, run="ended")
    for number in range(20):
        story.tell(failed(Category.TIMEOUT), at=9, run=f"run-{number}")
    story.store()
    with CaptureQueriesContext(connection) as asked:
        assert [one.run for one in ends_between(0, last_number(), environment="dev")] == ["ended"]
    with connection.cursor() as cursor:
        cursor.execute(asked[-1]["sql"])
        assert len(cursor.fetchall()) == 1


def test_an_instance_calls_an_operation_by_the_attempts_it_counted(engine: str) -> None:
    said: dict[str, dict[str, int]] = {
        "called": {},
        "tried in vain": {"successes": 0},
        "told of answers alone": {"attempts": 0},
        "held back": {"attempts": 0, "successes": 0, "rejected": 4},
    }
    story = Story()
    for name, rest in said.items():
        story.tell(counted(4, "crm", **rest), at=5, instance=name)
    story.store()
    names = dict(Agent.objects.values_list("pk", "instance"))
    callers = callers_between(0, last_number(), environment="dev")["crm"]
    assert {names[one] for one in callers} == set(said) - {"held back"}
