"""Amplification: attempts for each call by operation and source, findings, and background shed from the page."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.queries.amplification import amplification
from recovery_ops.rules.enums import Category, DelaySource, Evidence
from recovery_ops.rules.events import FailureClassified, RetryScheduled
from recovery_ops.rules.roles import Role
from tests.support.examples import examples
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, ago, counted, failed
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def calls(story: Story, calls: int, attempts: int, *, source: str, at: float = 300, operation: str = "ask") -> Story:
    """Counted calls; whoever is `main_agent` waits."""
    fact = counted(calls, operation=operation, attempts=attempts)
    return story.tell(fact, at=at, source=source, is_foreground=source == "main_agent")


def retried(category: Category) -> RetryScheduled:
    return RetryScheduled(
        operation="ask", attempt=1, max_retries=3, delay_s=0.5, delay_source=DelaySource.BACKOFF, category=category
    )


def test_who_spends_how_much_and_what_is_a_finding() -> None:
    story = calls(Story(), 100, 110, source="main_agent")
    calls(story, 40, 100, source="nightly")
    calls(story, 10, 90, source="tiny")
    calls(story, 50, 50, source="main_agent", operation="look").store()
    found = amplification("dev", start=ago(900), end=NOW)
    assert [(row.source, row.operation, row.extra, row.is_finding) for row in found.rows] == [
        ("tiny", "ask", 80, False),
        ("nightly", "ask", 60, True),
        ("main_agent", "ask", 10, False),
        ("main_agent", "look", 0, False),
    ]
    assert (found.calls, found.attempts) == (200, 350)
    assert found.background_share == pytest.approx(140 / 150)
    assert [row.factor for row in found.findings] == [2.5]
    assert sum(row.spent_share for row in found.rows) == pytest.approx(1)


def test_calls_that_were_refused_were_never_attempted() -> None:
    """60 calls went through, 20 of them twice; 40 met an open breaker: that is 80 ÷ 60, not 80 ÷ 100."""
    story = calls(Story(), 100, 80, source="main_agent")
    for _ in range(20):
        story.tell(retried(Category.TIMEOUT), at=300, source="main_agent", is_foreground=True)
    calls(story, 30, 0, source="nightly")
    story.store()
    found = amplification("dev", start=ago(900), end=NOW)
    main, nightly = found.rows
    assert (main.calls, main.attempted, main.extra) == (100, 60, 20)
    assert main.factor == pytest.approx(80 / 60)
    assert (nightly.attempted, nightly.factor) == (0, None)
    assert (found.calls, found.attempted) == (130, 60)
    assert found.retry_share == pytest.approx(20 / 60)
    page = signed_in(Role.VIEWER).get("/amplification")
    numbers = "100 60 80 1.33 0 20 20 100 %"
    assert untold(text_of(page), numbers) == [], "calls, attempted, attempts, for each, …"
    assert untold(page.context["sentence"], 80, 60, 70, "1.33") == [], "attempts, calls, refused before any, for each"
    assert untold(Shown(page).one("finding", "budget").text, "33 %", "10 %") == []


@pytest.mark.parametrize(("retries", "told"), [(100, None), (101, "10.1 %")])
def test_exactly_the_budget_is_no_finding_and_a_little_more_reads_as_more(retries: int, told: str | None) -> None:
    story = calls(Story(), 1000, 1000 + retries, source="main_agent")
    story.tell(*[retried(Category.TIMEOUT)] * retries, at=300, source="main_agent", is_foreground=True).store()
    found = Shown(signed_in(Role.VIEWER).get("/amplification")).having("finding", "budget")
    assert [untold(one.text, told, "10 %") for one in found] == ([] if told is None else [[]])


def test_background_that_retries_capacity_failures_breaks_the_rules() -> None:
    story = calls(Story(), 100, 130, source="nightly")
    story.tell(retried(Category.OVERLOADED), at=300, source="nightly")
    story.tell(retried(Category.TIMEOUT), at=300, source="nightly")
    story.tell(retried(Category.RATE_LIMITED), at=300, source="main_agent", is_foreground=True).store()
    assert amplification("dev", start=ago(900), end=NOW).background_capacity_retries == 1
    told = Shown(signed_in(Role.VIEWER).get("/amplification")).one("finding", "background")
    assert untold(told.text, 1) == []


@settings(max_examples=examples(5, 20), deadline=None)
@given(st.lists(st.integers(0, 9 * 3600), min_size=1, max_size=8), st.integers(1, 9 * 60), st.integers(0, 240))
def test_the_widest_sums_say_what_the_minutes_say(moments: list[int], length_min: int, ago_min: int) -> None:
    environment = f"wide-{abs(hash((tuple(moments), length_min, ago_min)))}"
    story = Story(environment)
    for at in moments:
        story.tell(counted(1, operation="ask"), at=at, source="s")
    story.store()
    end = NOW - timedelta(minutes=ago_min)
    start = end - timedelta(minutes=length_min)
    first, last = int(start.timestamp()) // 60, int(end.timestamp()) // 60
    expected = sum(first <= int(NOW.timestamp() - at) // 60 <= last for at in moments)
    assert amplification(environment, start=start, end=end).calls == expected


def test_the_page_leads_to_where_background_is_shed() -> None:
    calls(Story(), 100, 200, source="nightly").store()
    page = signed_in(Role.OPERATOR).get("/amplification")
    place = Shown(page).one("finding", "place")
    assert untold(place.text, "ask", "nightly", "background", "2.00") == []
    assert "/shed" in Shown(page).links
    assert 'href="/shed"' not in signed_in(Role.VIEWER).get("/amplification").content.decode()


def test_page_names_whole_minutes_that_count() -> None:
    calls(Story(), 30, 30, source="main_agent", at=895).store()  # in the minute in which the range starts, before it
    start, end = ago(880), NOW - timedelta(seconds=1)
    found = amplification("dev", start=start, end=end)
    page = Shown(signed_in(Role.VIEWER).get("/amplification", {"from": start.isoformat(), "to": end.isoformat()}))
    named = [datetime.fromisoformat(page.values(f"counted-{edge}")[0]) for edge in ("from", "until")]
    assert found.calls == 30
    assert named == [found.start, found.end]
    assert found.start <= ago(895) < start
    assert [edge.second for edge in named] == [0, 0]


def test_the_export_has_every_row() -> None:
    calls(Story(), 40, 100, source="=nightly").store()
    [row] = csv.DictReader(StringIO(signed_in(Role.VIEWER).get("/amplification.csv").content.decode()))
    assert (row["source"], row["partition"], row["attempts_per_call"], row["spent_attempts"]) == (
        "'=nightly",
        "background",
        "2.500",
        "60",
    )


def test_retries_of_clients_are_a_finding() -> None:
    """Three hours ago are sums of two hours, now are minutes: both count, and neither changes the attempts."""
    story = calls(Story(), 20, 24, source="main_agent")
    for at, count in ((300, 2), (300, None), (3 * 3600 + 60, 5), (60, 1)):
        failed = FailureClassified(
            operation="ask",
            category=Category.OVERLOADED,
            evidence=Evidence.HTTP_STATUS,
            retryable=True,
            attempt=1,
            inner_retries=count,
        )
        story.tell(failed, at=at, source="main_agent", is_foreground=True)
    calls(story, 50, 50, source="nightly", operation="look").store()
    found = amplification("dev", start=ago(4 * 3600), end=NOW)
    assert [(row.operation, row.inner_retries, row.attempts) for row in found.retried_below] == [("ask", 8, 24)]
    client = signed_in(Role.VIEWER)
    told = Shown(client.get("/amplification?range=24h")).one("finding", "inner_retries").text
    assert untold(told, "ask", 8) == []
    rows = csv.DictReader(StringIO(client.get("/amplification.csv?range=24h").content.decode()))
    assert {row["operation"]: row["inner_retries"] for row in rows} == {"ask": "8", "look": "0"}


def test_retries_ahead_of_counts_hide_no_attempted_call() -> None:
    """Failures and retries are told at once, counts ten seconds later."""
    story = Story()
    for at in (9, 6, 3):
        story.tell(failed(Category.TIMEOUT, "ask"), retried(Category.TIMEOUT), at=at, source="main_agent")
    story.store()
    [row] = amplification("dev", start=ago(900), end=NOW).rows
    assert (row.attempts, row.attempted, row.retries) == (3, 1, 3)
    assert row.factor == 3
    [told] = signed_in(Role.VIEWER).get("/api/v1/amplification?range=15m").json()["rows"]
    assert told["attempted_calls"] == 1
