"""Degradations: intervals of all instances as one, who got the weaker answer, and the notice that it is over."""

from __future__ import annotations

import csv
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import settings

from events.degradations.asking import degradations_in
from events.degradations.rows import Degradations, Standing
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import (
    AttemptSucceeded,
    DegradationEnded,
    DegradationStarted,
    FallbackActivated,
    ModelFallback,
    RunFinished,
)
from recovery_ops.rules.words import Category, RunStatus
from tests.support.pages import HOSTILE, signed_in, text_of
from tests.support.stories import NOW, Story, ago, failed, heartbeat

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
    assert [(row.operation, row.words, row.standing.value, row.runs) for row in found().rows] == [
        ("model:large", "answered by the model small", "reduced", ("run-9",)),
        ("search_web", "answered by search_cache", "whole again", ()),
        ("search_web", "answered by search_cache", "whole again", ()),
    ]


def test_of_an_instance_that_died_in_the_middle_nobody_knows() -> None:
    Story().tell(heartbeat(), at=1800).tell(began(), at=1700).store()
    [row] = found().rows
    assert row.standing is Standing.NOT_KNOWN
    said = text_of(signed_in(Role.VIEWER).get("/degradations"))
    assert "Whether search_web came back is not known: its instance stopped reporting." in said


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
    assert "at least 10 s" in said


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
    assert "Weaker answers outside of any interval" in text_of(signed_in(Role.VIEWER).get("/degradations"))


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
    said = text_of(signed_in(Role.VIEWER).get("/degradations?range=1h"))
    assert "at least 2 runs got none so far" in said
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
    for run, cost in (("run-1", 0.02), ("run-2", 0.05), ("run-3", 0.07)):
        story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=1.0, cost_usd=cost), at=50, run=run)
    story.store()
    assert found().with_weaker.mean_usd == pytest.approx(0.02)
    assert found().without_weaker.mean_usd == pytest.approx(0.06)
    said = text_of(signed_in(Role.VIEWER).get("/degradations?range=1h"))
    assert "Runs that got a weaker answer cost $0.0200 on average (1 run), the others $0.0600 (2 runs)." in said


def test_the_page_the_export_and_the_overview_say_when_it_is_whole_again() -> None:
    story = Story().tell(heartbeat(), at=5)
    story.tell(began(to=HOSTILE), at=900).tell(over(300, calls=4, to=HOSTILE), at=600).store()
    client = signed_in(Role.VIEWER)
    said = text_of(client.get("/degradations"))
    assert "Nothing is reduced. The last came back at 14:16:18 UTC." in said
    assert "search_web is whole again" in text_of(client.get("/"))
    assert "Since 14:16:18, after 5m 00s on 1 instance" in text_of(client.get("/"))
    client.cookies[f"{settings.COOKIE_PREFIX}zone"] = "Asia/Tokyo"
    assert "Since 23:16:18, after 5m 00s on 1 instance" in text_of(client.get("/"))
    del client.cookies[f"{settings.COOKIE_PREFIX}zone"]
    [row] = csv.DictReader(StringIO(client.get("/degradations.csv").content.decode()))
    assert (row["operation"], row["standing"], row["duration_s"], row["weaker_answers"]) == (
        "search_web",
        "whole again",
        "300.000",
        "4",
    )
    assert "<script" not in client.get("/degradations").content.decode().partition("<main")[2].partition("</main")[0]


def test_when_nothing_is_reduced_it_says_so() -> None:
    assert "Every operation gave the real thing" in text_of(signed_in(Role.VIEWER).get("/degradations"))
