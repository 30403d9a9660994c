"""On PostgreSQL, facts lie in days: no question asks more of them because more are kept, and runs are told whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events import partitions
from events.models import Fact
from events.moments import to_us
from events.queries.evidence import evidence_of
from events.queries.fleet_lanes import fleet_lanes
from events.queries.lanes import segments
from events.queries.transitions import transitions
from events.retention import USUAL, sweep_facts
from events.runs.asking import Show, run_of, runs
from events.runs.days import note_days
from events.runs.rows import RunStory
from events.tasks import note_days_of_runs
from recovery_ops.bench.questions import Place, questions
from recovery_ops.rules.facts import Escalated, RunStarted
from recovery_ops.rules.words import Category, State
from tests.support.stories import NOW, Story, ago, failed, moved

WEEKS_DAYS, FEW_DAYS, MANY_DAYS = 8, 40, 85
"""What a week touches; more than the 30 days that the longest question of facts looks back on; fewer than are kept."""
DAY_S = 86_400.0

on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)


def days_asked(ask: Callable[[], object]) -> int:
    """In how many partitions the statements of a question look, each added up."""
    with CaptureQueriesContext(connection) as asked:
        ask()
    found = 0
    with connection.cursor() as cursor:
        for one in asked.captured_queries:
            if one["sql"].startswith(("SELECT", "(SELECT", "WITH")):
                cursor.execute(f"EXPLAIN {one['sql'].replace('%', '%%')}", ())
                plan = "\n".join(line for (line,) in cursor.fetchall())
                found += len(set(re.findall(r" on (events_fact_(?:\d{8}|rest))\b", plan)))
    return found


@on_postgres
def test_a_question_asks_no_more_days_because_more_are_kept(engine: str) -> None:
    now = timezone.now().replace(minute=38)
    call_command("seed", facts=2000, agents=4, breakers=3, runs=9, days=2, environment="dev", until=now)
    note_days(timezone.now())
    place = Place("dev", now, "operation_001")
    week, few, many = (_asked_with(days, place) for days in (WEEKS_DAYS, FEW_DAYS, MANY_DAYS))
    assert {name: (few[name], count) for name, count in many.items() if count > few[name]} == {}
    assert max(many.values()) > 0
    further = {one.name for one in questions(place) if not one.is_within_a_week}
    assert further <= week.keys()
    assert {name for name, count in few.items() if count > week[name]} <= further


def _asked_with(behind: int, place: Place) -> dict[str, int]:
    partitions.make_ahead(timezone.now().date(), behind=behind)
    return {one.name: days_asked(one.ask) for one in questions(place)}


# -- runs that went on for days ---------------------------------------------------------------------------------------


@pytest.fixture(params=["not noted", "noted"])
def noted(request: pytest.FixtureRequest) -> Callable[[], object]:
    """Whether the days of runs are noted."""
    return note_days_of_runs if request.param == "noted" else lambda: None


def listed(**more: object) -> dict[str, RunStory]:
    given = {"start": NOW - timedelta(hours=1), "end": NOW} | more
    return {one.run: one for one in runs("dev", show=Show.TROUBLED, **given).rows}  # type: ignore[arg-type]


@pytest.mark.parametrize("is_start_known", [True, False])
def test_a_run_of_many_days_is_told_whole(engine: str, noted: Callable[[], object], is_start_known: bool) -> None:
    begun = RunStarted(name="thesis") if is_start_known else failed(Category.TIMEOUT, "read")
    story = Story().tell(begun, at=9 * DAY_S, run="long").tell(failed(Category.BUG, "write"), at=5 * DAY_S, run="long")
    story.tell(failed(Category.TIMEOUT), at=60, run="long").tell(failed(Category.TIMEOUT), at=50, run="short").store()
    noted()
    for found in (listed()["long"], run_of("dev", "long")):
        assert found is not None
        assert (found.started, len(found.steps)) == (ago(9 * DAY_S), 3)
    assert listed()["short"].started == ago(50)


def test_a_run_that_is_entered_again_after_days_is_told_from_its_first_entry(
    engine: str, noted: Callable[[], object]
) -> None:
    story = Story().tell(RunStarted(name="thesis"), failed(Category.BUG, "write"), at=9 * DAY_S, run="again").store()
    noted()
    story.tell(RunStarted(name="thesis"), failed(Category.TIMEOUT), at=60, run="again").store()
    for found in (listed()["again"], run_of("dev", "again")):
        assert found is not None
        assert found.failures == {Category.BUG: 1, Category.TIMEOUT: 1}


def test_what_came_late_of_a_run_is_told_when_it_is_noted(engine: str) -> None:
    story = Story().tell(failed(Category.TIMEOUT), at=60, run="late").store()
    note_days(timezone.now())
    story.tell(failed(Category.BUG, "write"), at=9 * DAY_S, received=30, run="late").store()
    note_days(timezone.now())
    assert listed()["late"].failures == {Category.BUG: 1, Category.TIMEOUT: 1}


@on_postgres
def test_of_a_run_that_lasted_days_only_these_days_are_asked(engine: str) -> None:
    now = timezone.now()
    days_ago = (now - NOW).days + 6
    Story().tell(failed(Category.BUG, "write"), at=6 * DAY_S, run="long").store()
    note_days(now)
    few, many = (_asked_of_run(now, behind) for behind in (FEW_DAYS, MANY_DAYS))
    assert few == many <= days_ago + partitions.AHEAD_DAYS + 3


def _asked_of_run(now: datetime, behind: int) -> int:
    partitions.make_ahead(now.date(), behind=behind)
    return days_asked(lambda: run_of("dev", "long"))


def test_a_run_whose_days_are_forgotten_is_still_found_by_what_is_kept_of_it(engine: str) -> None:
    asked = Escalated(queue="policy", reason="policy_denied", escalation_id="e-1", message="May it?")
    Story().tell(RunStarted(name="thesis"), asked, at=5, run="old").store()
    for later in (timedelta(), USUAL + timedelta(days=3)):
        note_days(timezone.now() + later)
        sweep_facts(timezone.now() + later)
    found = run_of("dev", "old")
    assert found is not None
    assert (found.questions, found.is_start_known) == (1, False)


def test_of_runs_whose_days_are_forgotten_a_list_asks_each_day(engine: str) -> None:
    asked = Escalated(queue="policy", reason="policy_denied", escalation_id="e-1", message="May it?")
    Story().tell(asked, at=130 * DAY_S, run="old").tell(asked, at=120 * DAY_S, run="old").store()
    note_days(timezone.now())
    sweep_facts(timezone.now())
    (one,) = runs("dev", show=Show.ASKED, start=ago(125 * DAY_S), end=ago(115 * DAY_S)).rows
    assert (one.questions, one.started) == (2, ago(130 * DAY_S))


# -- what stood before a window ---------------------------------------------------------------------------------------


def _moves_before() -> Iterator[tuple[float, State, State]]:
    yield 20 * DAY_S, State.CLOSED, State.OPEN
    yield 9 * DAY_S, State.OPEN, State.HALF_OPEN
    yield 60, State.HALF_OPEN, State.CLOSED


@pytest.mark.parametrize("start_s", [600.0, 3_600.0, 2 * DAY_S, 8 * DAY_S])
def test_what_stood_before_a_window_is_told_however_long_it_stood(engine: str, start_s: float) -> None:
    story = Story()
    for at, left, entered in _moves_before():
        story.tell(moved(entered, before=left), at=at).store()
    name = transitions("dev", start=ago(30 * DAY_S), end=NOW)[0].breaker
    given = {"start": ago(start_s), "end": NOW, "now": NOW}
    lane = segments("dev", breaker=name, **given)[name]["a-1"]  # type: ignore[arg-type]
    assert [one.state for one in lane[:2]] == [State.HALF_OPEN, State.CLOSED]  # and then it is silent
    assert lane[0].cause is not None
    assert lane[0].cause.at == ago(9 * DAY_S)
    # A window of the past, after which it moved: its state is not the one that stands.
    past = {"start": ago(12 * DAY_S), "end": ago(10 * DAY_S), "now": NOW}
    assert [one.state for one in segments("dev", breaker=name, **past)[name]["a-1"]] == [State.OPEN]  # type: ignore[arg-type]
    assert [one.state for one in fleet_lanes("dev", **past)[name]] == [State.OPEN]  # type: ignore[arg-type]


@on_postgres
def test_a_state_is_told_by_the_sums_where_the_fact_of_its_move_is_gone(engine: str) -> None:
    story = Story()
    for at, left, entered in _moves_before():
        story.tell(moved(entered, before=left), at=at).store()
    name = transitions("dev", start=ago(30 * DAY_S), end=NOW)[0].breaker
    Fact.objects.filter(at_us=to_us(ago(20 * DAY_S))).delete()
    past = {"start": ago(12 * DAY_S), "end": ago(10 * DAY_S), "now": NOW}
    (one,) = segments("dev", breaker=name, **past)[name]["a-1"]  # type: ignore[arg-type]
    assert (one.state, one.cause) == (State.OPEN, None)
    assert [one.state for one in fleet_lanes("dev", **past)[name]] == [State.OPEN]  # type: ignore[arg-type]


def test_a_move_of_long_ago_is_found_by_its_number(engine: str) -> None:
    Story().tell(moved(State.OPEN), at=80 * DAY_S).store()
    (one,) = transitions("dev", start=ago(90 * DAY_S), end=NOW)
    assert one.fact_id is not None
    found = evidence_of("dev", one.fact_id)
    assert found is not None
    assert found.move.at == ago(80 * DAY_S)
