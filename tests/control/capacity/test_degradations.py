"""Degradations: intervals of all instances as one, who got the weaker answer, and the notice that it is over."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import settings

from events.degradations.asking import degradations_in
from events.degradations.rows import Degradations, Standing
from events.pages.empties import Why
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import (
    AttemptSucceeded,
    DegradationEnded,
    DegradationStarted,
    FallbackActivated,
    ModelFallback,
    RunFinished,
)
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def began(operation: str = "search_web", to: str = "search_cache", kind: str = "fallback") -> DegradationStarted:
    return DegradationStarted(
        operation=operation,
        kind=kind,
        reason="breaker_open",
        from_name=operation,
        to_name=to,
        category=Category.OVERLOADED,
    )


def over(seconds: float, calls: int = 0, operation: str = "search_web", to: str = "search_cache") -> DegradationEnded:
    return DegradationEnded(
        operation=operation, kind="fallback", duration_s=seconds, from_name=operation, to_name=to, calls=calls
    )


def answered(operation: str = "search_web", to: str = "search_cache", **more: Any) -> FallbackActivated:
    return FallbackActivated(operation=operation, fallback=to, level=1, **more)


def found() -> Degradations:
    return degradations_in("dev", start=ago(3600), end=NOW, now=NOW)


def test_two_instances_that_are_reduced_at_once_are_one_row_until_both_are_whole() -> None:
    story = Story().tell(heartbeat(), at=5).tell(heartbeat(), at=5, instance="a-2")
    story.tell(began(), at=600).tell(began(), at=500, instance="a-2")
    story.tell(answered(warning="up to 1 h old", data_age_s=3600.0), at=590, run="run-1")
    story.tell(answered(), at=580, run="run-1").tell(answered(), at=490, run="run-2", instance="a-2")
    story.tell(over(200, calls=2), at=400).store()
    [row] = found().rows
    assert (row.standing, row.started, row.ended) == (Standing.REDUCED, ago(600), None)
    assert (row.instances, row.answers, row.runs) == (("research/a-1", "research/a-2"), 3, ("run-1", "run-2"))
    assert (row.from_name, row.to_name, row.warning, row.data_age_s) == (
        "search_web",
        "search_cache",
        "up to 1 h old",
        3600.0,
    )
    Story().tell(over(300, calls=1), at=200, instance="a-2").store()
    [row] = found().rows
    assert (row.standing, row.ended, row.answers) == (Standing.WHOLE, ago(200), 3)
    assert found().unaccounted == ()


def test_a_second_outage_later_is_a_second_row_and_a_weaker_model_is_one_too() -> None:
    story = Story().tell(heartbeat(), at=5)
    story.tell(began(), at=3000).tell(over(100), at=2900).tell(began(), at=600).tell(over(100), at=500)
    story.tell(began("model:large", "small", "model"), at=300)
    switch = ModelFallback(
        operation="model:large", from_model="large", to_model="small", category=Category.OVERLOADED, consecutive=3
    )
    story.tell(switch, at=300, run="run-9").store()
    assert [(row.operation, row.kind, row.to_name, row.standing, row.runs) for row in found().rows] == [
        ("model:large", "model", "small", Standing.REDUCED, ("run-9",)),
        ("search_web", "fallback", "search_cache", Standing.WHOLE, ()),
        ("search_web", "fallback", "search_cache", Standing.WHOLE, ()),
    ]


@pytest.mark.parametrize("ends", [(100, 400, 300), (400, 100, 300), (300, 400, 100)])
def test_intervals_within_a_longer_one_are_one(ends: tuple[int, int, int]) -> None:
    """Three instances begin at 600, 500 and 350 s ago; the intervals of all overlap, whichever ends last."""
    story = Story()
    for number, (begins, end) in enumerate(zip((600, 500, 350), ends, strict=True)):
        instance = f"a-{number}"
        story.tell(heartbeat(), at=5, instance=instance).tell(began(), at=begins, instance=instance)
        story.tell(over(begins - end), at=end, instance=instance)
    story.store()
    [row] = found().rows
    assert (row.started, row.ended, len(row.instances)) == (ago(600), ago(min(ends)), 3)


def test_of_an_instance_that_died_in_the_middle_nobody_knows() -> None:
    Story().tell(heartbeat(), at=1800).tell(began(), at=1700).store()
    [row] = found().rows
    assert row.standing is Standing.NOT_KNOWN
    page = signed_in(Role.VIEWER).get("/degradations")
    assert [one.standing for one, _ in page.context["capabilities"]] == [Standing.NOT_KNOWN]
    assert "search_web" in page.context["sentence"]


def test_an_outage_after_an_instance_died_is_a_row_of_its_own_and_is_over_when_it_is() -> None:
    story = Story().tell(heartbeat(), at=1700).tell(began(), at=1700).tell(answered(), at=1690, run="run-1")
    story.tell(heartbeat(), began(), at=600, instance="a-2").tell(answered(), at=590, run="run-2", instance="a-2")
    story.tell(over(100), at=500, instance="a-2").tell(heartbeat(), at=5, instance="a-2").store()
    lost, whole = found().rows
    assert (lost.standing, lost.instances, lost.runs) == (Standing.NOT_KNOWN, ("research/a-1",), ("run-1",))
    assert (whole.standing, whole.instances, whole.runs) == (Standing.WHOLE, ("research/a-2",), ("run-2",))
    assert (whole.started, whole.ended) == (ago(600), ago(500))
    assert lost.lasted(NOW) == timedelta(seconds=10), "as far as it was heard of"
    [capability] = found().capabilities(NOW)
    assert (capability.times, capability.reduced_for) == (2, timedelta(seconds=110))
    said = text_of(signed_in(Role.VIEWER).get("/degradations"))
    assert "≥ 10 s" in said


def test_an_answer_by_a_fallback_outside_of_any_interval_is_a_finding() -> None:
    story = Story().tell(heartbeat(), at=5).tell(began(), at=600).tell(over(60), at=540)
    story.tell(answered(), at=570).tell(answered(), at=100, instance="foreign").store()
    [one] = found().unaccounted
    assert (one.operation, one.to_name, one.answers, one.instances) == (
        "search_web",
        "search_cache",
        1,
        ("research/foreign",),
    )
    page = Shown(signed_in(Role.VIEWER).get("/degradations"))
    assert "unaccounted-title" in page.ids


def test_of_a_withdrawn_capability_the_runs_that_went_without_are_counted() -> None:
    """The first says so itself, later ones only fail; who was saved by a retry, or failed elsewhere, did not."""
    story = Story().tell(heartbeat(), at=5)
    story.tell(failed(operation="fetch_prices"), began("fetch_prices", to="", kind="withdrawn"), at=600, run="run-1")
    story.tell(failed(operation="fetch_prices"), at=500, run="run-2")
    story.tell(failed(operation="fetch_prices"), at=499, run="run-2")
    story.tell(
        failed(operation="fetch_prices"), AttemptSucceeded(operation="fetch_prices", attempt=2), at=400, run="run-3"
    )
    story.tell(failed(operation="search_web"), at=400, run="run-4")
    story.tell(failed(operation="fetch_prices"), at=900, run="run-5")
    story.tell(failed(operation="fetch_prices"), at=400, run="run-6", instance="another").store()
    [row] = found().rows
    assert (row.runs, row.answers, row.is_partial) == (("run-1", "run-2"), 2, True)
    said = signed_in(Role.VIEWER).get("/degradations?range=1h").context["sentence"]
    assert ("fetch_prices" in said, "≥ 2" in said) == (True, True)
    ended = DegradationEnded(operation="fetch_prices", kind="withdrawn", duration_s=500, calls=2)
    Story().tell(ended, at=100).store()
    [row] = found().rows
    assert (row.runs, row.answers, row.is_partial) == (("run-1", "run-2"), 2, False)
    [capability] = found().capabilities(NOW)
    assert (capability.runs, capability.is_partial) == (2, False)


def test_more_failures_than_are_read_leave_the_weaker_answers_of_others_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.degradations.asking.READ_MOST", 4)
    story = Story().tell(heartbeat(), at=5).tell(began(), at=600).tell(answered(), at=590, run="run-1")
    story.tell(began("fetch_prices", to="", kind="withdrawn"), at=600, run="run-1")
    for number in range(5):
        story.tell(failed(operation="fetch_prices"), at=500 - number, run=f"run-{number}")
    story.store()
    assert {row.operation: row.is_partial for row in found().rows} == {"search_web": False, "fetch_prices": True}


def test_what_it_costs_is_told_where_runs_say_it() -> None:
    story = Story().tell(heartbeat(), at=5).tell(began(), at=600).tell(answered(), at=590, run="run-1")
    costs = [("run-1", 0.02), ("run-2", 0.05), ("run-3", 0.07), ("run-4", 1e308), ("run-5", 1e308)]
    for run, cost in costs:  # those that are no costs are left out
        story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=1.0, cost_usd=cost), at=50, run=run)
    story.store()
    weaker, others = found().with_weaker, found().without_weaker
    assert (weaker.mean_usd, others.mean_usd) == pytest.approx((0.02, 0.06))
    assert (weaker.runs, others.runs) == (1, 2)
    page = signed_in(Role.VIEWER).get("/degradations?range=1h")
    assert re.findall(r"\$[\d.]*\d", page.context["costs"]) == ["$0.0200", "$0.0600"]
    assert page.context["costs"] in text_of(page)


def test_the_page_the_export_and_the_overview_say_when_it_is_whole_again() -> None:
    story = Story().tell(heartbeat(), at=5)
    story.tell(began(to=HOSTILE), at=900).tell(over(300, calls=4, to=HOSTILE), at=600).store()
    client = signed_in(Role.VIEWER)
    page = client.get("/degradations")
    assert [(one.standing, one.last) for one, _ in page.context["capabilities"]] == [(Standing.WHOLE, ago(600))]
    assert "14:16:18 UTC" in page.context["sentence"]
    [item] = client.get("/").context["items"].shown
    assert (item.key, item.state) == ("restored-search_web", "closed")
    assert ("14:16:18" in item.detail, "5m 00s" in item.detail) == (True, True)
    client.cookies[f"{settings.COOKIE_PREFIX}zone"] = "Asia/Tokyo"
    [item] = client.get("/").context["items"].shown
    assert "23:16:18" in item.detail
    del client.cookies[f"{settings.COOKIE_PREFIX}zone"]
    [row] = csv.DictReader(StringIO(client.get("/degradations.csv").content.decode()))
    assert (row["operation"], row["standing"], row["duration_s"], row["weaker_answers"]) == (
        "search_web",
        "recovered",
        "300.000",
        "4",
    )
    assert "<script" not in client.get("/degradations").content.decode().partition("<main")[2].partition("</main")[0]


def test_when_nothing_is_reduced_it_says_so() -> None:
    page = signed_in(Role.VIEWER).get("/degradations")
    assert (page.context["rows"], Shown(page).values("why")) == ([], [Why.NEVER])
    Story().tell(heartbeat(), counted(40), at=3000).tell(heartbeat(), counted(40), at=1).store()
    assert Shown(signed_in(Role.VIEWER).get("/degradations?range=15m")).values("why") == [Why.GOOD]
