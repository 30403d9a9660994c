"""What became of the runs of a day: told from facts, the same however often it is read, and kept beyond them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.models import Fact
from events.moments import to_us
from events.recoveries.asking import Recoveries, recoveries, today_of, two_spans
from events.recoveries.models import RecoveryDay
from events.recoveries.summing import sum_days
from recovery_ops.control.tasks import sum_recoveries
from recovery_ops.rules.enums import Category, DelaySource, RunStatus, StopReason
from recovery_ops.rules.events import Exhausted, RetryScheduled
from tests.support.recovered_weeks import DAY_S, ended, lived, week
from tests.support.stories import NOW, Story, failed, heartbeat

pytestmark = pytest.mark.django_db

TODAY = today_of(NOW)


def today() -> Recoveries:
    return recoveries("dev", first=TODAY, last=TODAY)


def test_each_run_counts_for_what_became_of_it() -> None:
    week().store()
    assert sum_days("dev", NOW) == 1
    found = today()
    assert (found.runs, found.troubled) == (7, 5)
    assert (found.alone.runs, found.alone.took_s, found.alone.cost_usd) == (2, 150.0, 0.25)
    assert (found.helped.runs, found.helped.took_s, found.helped.cost_usd) == (1, 300.0, 1.0)
    assert (found.lost.runs, found.lost.took_s, found.lost.cost_usd) == (2, 100.0, 0.5)
    assert found.costed == 3
    assert found.share_alone == pytest.approx(0.4)
    assert found.days == [(TODAY, 2, 1, 2)]


def test_causes_say_how_many_runs_met_them_and_lost() -> None:
    week().store()
    sum_days("dev", NOW)
    causes = {(one.operation, one.category): (one.failures, one.runs, one.lost) for one in today().causes}
    assert causes == {
        ("search_web", "overloaded"): (5, 4, 1),
        ("search_web", "timeout"): (1, 1, 1),
        ("crm.update", "timeout"): (1, 1, 0),
    }
    assert today().causes[0].operation == "search_web"


def test_attempts_come_from_the_sums() -> None:
    story = Story().tell(failed(), at=60)
    story.tell(
        RetryScheduled(
            operation="search_web", attempt=2, delay_s=1.0, delay_source=DelaySource.BACKOFF, category=Category.TIMEOUT
        ),
        Exhausted(operation="search_web", reason=StopReason.BREAKER_OPEN, attempts=3),
        at=50,
    ).store()
    sum_days("dev", NOW)
    found = today()
    assert (found.failures, found.retries, found.exhausted, found.fallbacks) == (1, 1, 1, 0)


def test_nothing_is_read_again_that_is_as_it_was() -> None:
    week().store()
    assert (sum_days("dev", NOW), sum_days("dev", NOW)) == (1, 0)
    week(Story(), at=30).store()
    assert sum_days("dev", NOW) == 1
    assert today().runs == 7  # the same runs, each by its last word


def test_a_fact_that_comes_late_is_counted_and_what_is_settled_stays() -> None:
    Story().tell(heartbeat(), at=9 * DAY_S).store()
    week(at=2 * DAY_S).store()
    week(Story(), at=8 * DAY_S).store()
    assert sum_days("dev", NOW, most=20) == 10
    lived(Story(), "late", failed(), ended(RunStatus.FAILED), at=2 * DAY_S).store()
    lived(Story(), "too late", failed(), ended(RunStatus.FAILED), at=8 * DAY_S).store()
    assert sum_days("dev", NOW, most=20) == 1
    lost = {day: lost for day, _, _, lost in recoveries("dev", first=TODAY - timedelta(days=9), last=TODAY).days}
    assert (lost[TODAY - timedelta(days=2)], lost[TODAY - timedelta(days=8)]) == (3, 2)


def test_a_few_days_at_a_time_are_read_the_newest_first() -> None:
    Story().tell(heartbeat(), at=30 * DAY_S).store()
    assert sum_days("dev", NOW, most=3) == 3
    days = RecoveryDay.objects.order_by("-day").values_list("day", flat=True)
    assert days[0] == to_us(NOW) // 86_400_000_000
    assert sum_days("dev", NOW, most=50) == 28


def test_the_report_outlasts_the_facts() -> None:
    week(at=5 * DAY_S).store()
    sum_days("dev", NOW, most=20)
    Fact.objects.all().delete()
    sum_days("dev", NOW, most=20)
    assert recoveries("dev", first=TODAY - timedelta(days=5), last=TODAY).lost.runs == 2


def test_two_spans_are_one_question() -> None:
    week().store()
    week(Story(), at=8 * DAY_S).store()
    sum_days("dev", NOW, most=20)
    with CaptureQueriesContext(connection) as asked:
        this, before = two_spans("dev", first=TODAY - timedelta(days=6), last=TODAY)
    assert len(asked) == 1
    assert (this.alone.runs, before.alone.runs) == (2, 2)
    assert (before.last, len(this.days)) == (this.first - timedelta(days=1), 7)


def test_environments_are_apart_and_nothing_read_is_not_nothing_happened() -> None:
    week(Story("prod")).store()
    sum_days("prod", NOW)
    found = today()
    assert (found.read_at, found.share_alone) == (None, None)
    assert sum_days("dev", NOW) == 0


@pytest.mark.parametrize("said", [{"recovery.run.duration_s": "long"}, {"recovery.run.cost_usd": True}, {}])
def test_numbers_that_are_none_are_not_added_up(said: dict[str, Any]) -> None:
    lived(Story(), "odd", failed(), ended(RunStatus.FAILED, 5.0, 1.0)).store()
    for fact in Fact.objects.filter(event="run_finished"):
        Fact.objects.filter(pk=fact.pk).update(
            attributes={name: value for name, value in fact.attributes.items() if "status" in name} | said
        )
    sum_days("dev", NOW)
    found = today()
    assert (found.lost.runs, found.lost.took_s, found.costed) == (1, 0.0, 0)


def test_the_task_reads_every_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)
    week().store()
    week(Story("prod")).store()
    assert sum_recoveries() == 2


def test_what_runs_cost_is_told_by_the_operation_that_failed_in_them() -> None:
    week().store()
    sum_days("dev", NOW)
    costs = today().costs
    assert {name: (one.runs, one.usd) for name, one in costs.items()} == {"search_web": (3, 1.75)}
    assert costs["search_web"].each_usd == pytest.approx(1.75 / 3)


def test_a_day_that_was_read_without_costs_is_read_again_while_it_is_young() -> None:
    week().store()
    sum_days("dev", NOW)
    RecoveryDay.objects.update(costs=None)
    assert not today().costs
    assert sum_days("dev", NOW) == 1
    assert today().costs
    assert sum_days("dev", NOW) == 0


@pytest.mark.parametrize(
    ("first", "last"), [(RunStatus.FAILED, RunStatus.SUCCEEDED), (RunStatus.SUCCEEDED, RunStatus.FAILED)]
)
def test_run_that_ended_twice_counts_last_end(first: RunStatus, last: RunStatus) -> None:
    story = lived(Story(), "again", failed(), ended(first, 30.0), at=600)
    lived(story, "again", ended(last, 70.0), at=300).store()
    sum_days("dev", NOW)
    found = today()
    of_last = found.alone if last is RunStatus.SUCCEEDED else found.lost
    assert (found.runs, found.troubled) == (1, 1)
    assert (of_last.runs, of_last.took_s) == (1, 70.0)
