"""Counts per bin: how wide bins are, what falls into which, and which bins nobody can speak of."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from events.models import Agent, Degradation, Fact, SpanSum
from events.moments import Grid, bin_width_s, from_us, to_us, united
from events.projections.fold import Folded
from events.projections.summing import COUNTERS, SpanName, dimensions_digest
from events.projections.verification import differences, refold
from events.queries import (
    capacity_per_bin,
    degradations,
    fallbacks_per_bin,
    operations,
    recent_failures,
    rejections_per_bin,
    sums_per_bin,
    trouble,
)
from events.queries.sums import sums_earlier
from recovery_ops.rules.enums import Category, DelaySource, Family, State
from recovery_ops.rules.events import (
    BreakerRejected,
    DegradationEnded,
    DegradationStarted,
    FallbackActivated,
    RetryScheduled,
)
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

HOUR: dict[str, Any] = {"start": ago(3600), "end": NOW}
WHOLE_TABLE = re.compile(r"Seq Scan on events_degradation|SCAN events_degradation")
"""In a plan of PostgreSQL or SQLite: all rows are read."""


@pytest.mark.parametrize(
    ("minutes", "bin_s"), [(15, 60), (60, 60), (120, 60), (360, 300), (1440, 900), (10_080, 7200), (1_000_000, 518_400)]
)
def test_bins_are_as_wide_as_the_window_asks_for(minutes: int, bin_s: int) -> None:
    assert bin_width_s(timedelta(minutes=minutes)) == bin_s


def test_a_grid_covers_its_window_in_whole_bins() -> None:
    grid = Grid.over(ago(3600), NOW, 300)
    assert grid.start <= ago(3600) < grid.start + timedelta(seconds=300)
    assert from_us(grid.end_s * 1_000_000) - timedelta(seconds=300) < NOW <= from_us(grid.end_s * 1_000_000)
    assert grid.outside([(to_us(ago(3600)), to_us(NOW))]) == [False] * grid.length
    assert grid.outside([(to_us(ago(60)), to_us(NOW))])[:-1] == [True] * (grid.length - 1)


def test_spans_are_united() -> None:
    assert united([(5, 7), (1, 3), (3, 4), (6, 9), (10, 10)]) == [(1, 4), (5, 9)]


@pytest.fixture
def storm(db: None) -> Story:
    story = Story().tell(heartbeat(), at=7200).tell(heartbeat(), at=0)
    for at in (601, 602, 1500):
        story.tell(failed(Category.OVERLOADED, provider="helios", model="large", status_code=529), at=at)
    story.tell(failed(Category.RATE_LIMITED, provider="helios", model="large", status_code=429), at=603)
    story.tell(failed(Category.TIMEOUT, operation="fetch_page"), at=604)
    story.tell(counted(50, operation="embed", provider="helios", model="embed"), at=605)
    return story.store()


def test_failures_fall_into_minutes_by_category_and_by_family(storm: Story) -> None:
    bins = sums_per_bin("dev", **HOUR).failures()
    assert (bins.bin_s, bins.length) == (60, 61)
    assert {name: sum(values) for name, values in bins.series.items()} == {
        "overloaded": 3,
        "rate_limited": 1,
        "timeout": 1,
    }
    at = next(index for index, value in enumerate(bins.total()) if value == 4)
    assert bins.starts()[at] <= ago(604) < ago(601) < bins.starts()[at + 1]
    assert sums_per_bin("dev", **HOUR).failures("family").series.keys() == {Family.TRANSIENT.value}


def test_failures_of_one_operation_or_breaker(storm: Story) -> None:
    assert sums_per_bin("dev", operation="fetch_page", **HOUR).failures().total() == [
        int(value > 0) for value in sums_per_bin("dev", breaker="fetch_page", **HOUR).failures().total()
    ]
    assert sum(sums_per_bin("dev", breaker="search_web", **HOUR).failures().total()) == 4


SHORT = [(900, 10), (600, 5), (240, 2), (120, 1)]


@pytest.mark.parametrize(("length_s", "bin_s"), SHORT)
def test_short_range_has_bins_below_minute(storm: Story, length_s: int, bin_s: int) -> None:
    short: dict[str, Any] = {"start": ago(550 + length_s), "end": ago(550)}
    sums = sums_per_bin("dev", **short)
    failures, capacity = sums.failures(), sums.capacity()
    assert (failures.bin_s, capacity.bin_s) == (bin_s, bin_s)
    assert {name: sum(values) for name, values in failures.series.items()} == {
        "overloaded": 2,
        "rate_limited": 1,
        "timeout": 1,
    }
    assert sum(capacity.rate_limited["helios / large"]) == 1
    assert sum(capacity.overloaded["helios / large"]) == 2
    assert capacity.series["helios / embed"] == [0] * capacity.length
    assert sums.in_minutes().failures().bin_s == sums.rejections().bin_s == 60


def test_short_range_counts_some_calls_alone(storm: Story) -> None:
    short: dict[str, Any] = {"start": ago(900), "end": NOW}
    assert sum(sums_per_bin("dev", operation="fetch_page", breaker="fetch_page", **short).failures().total()) == 1
    assert sum(sums_per_bin("dev", of_calls={"provider": "helios"}, **short).failures().total()) == 3
    assert sums_per_bin("dev", of_calls={"service": "nobody"}, **short).failures().series == {}


@pytest.mark.parametrize("is_flood", [True, False])
def test_flood_or_expired_events_keep_bins_of_minute(
    storm: Story, monkeypatch: pytest.MonkeyPatch, *, is_flood: bool
) -> None:
    if is_flood:
        monkeypatch.setattr("events.queries.sums.FACTS_READ", 3)
    else:
        Fact.objects.all().delete()
    coarse = sums_per_bin("dev", start=ago(900), end=NOW).failures()
    assert (coarse.bin_s, sum(coarse.total())) == (60, 4)


def test_capacity_tells_429_from_529_and_shows_who_answered_well(storm: Story) -> None:
    bins = capacity_per_bin("dev", **HOUR)
    assert list(bins.series) == ["helios / large", "helios / embed"]
    assert sum(bins.series["helios / embed"]) == 0
    assert sum(bins.rate_limited["helios / large"]) == 1
    assert sum(bins.overloaded["helios / large"]) == 3
    assert sum(bins.series["helios / large"]) == 4


@pytest.mark.django_db
def test_who_never_says_a_provider_is_known_by_the_operation() -> None:
    Story().tell(failed(Category.RATE_LIMITED), at=30).store()
    assert list(capacity_per_bin("dev", **HOUR).series) == ["search_web"]


@pytest.mark.django_db
def test_fallbacks_and_rejections_are_counted() -> None:
    story = Story().tell(FallbackActivated(operation="search_web", fallback="search_cache", level=1), at=60)
    refused = BreakerRejected(operation="search_web", breaker="search_web", state=State.OPEN, count=26)
    passed = BreakerRejected(
        operation="search_web", breaker="search_web", state=State.METRICS_ONLY, count=9, reason="not_enforced"
    )
    story.tell(refused, passed, at=60).store()
    assert sum(fallbacks_per_bin("dev", **HOUR).series["search_web"]) == 1
    assert sum(rejections_per_bin("dev", breaker="search_web", **HOUR).series["search_web"]) == 26


@pytest.mark.django_db
def test_bins_in_which_nobody_lived_are_unknown_and_not_zero() -> None:
    Story().tell(heartbeat(), at=2000).tell(heartbeat(), at=1000).store()
    bins = sums_per_bin("dev", **HOUR).failures()
    known = [begin for begin, is_unknown in zip(bins.starts(), bins.unknown, strict=True) if not is_unknown]
    assert ago(2060) < known[0] <= ago(2000)
    assert ago(1060) < known[-1] <= ago(955)
    assert all(sums_per_bin("prod", **HOUR).failures().unknown)


@pytest.mark.django_db
def test_a_bin_with_late_facts_is_known() -> None:
    Story().tell(failed(), at=3000, received=10).store()
    bins = sums_per_bin("dev", **HOUR).failures()
    assert [bins.unknown[index] for index, count in enumerate(bins.total()) if count] == [False]


KEPT_TO: list[tuple[dict[str, str], str | None, tuple[int, ...]]] = [
    ({"provider": "helios"}, None, (5, 2, 3, 2, 10)),
    ({"model": "large"}, None, (3, 0, 3, 1, 7)),
    (
        {"model": "small", "service": "billing"},
        None,
        (2, 2, 0, 1, 3),
    ),
    (
        {"provider": "helios", "service": "research"},
        None,
        (3, 0, 3, 1, 7),
    ),
    (
        {"provider": "helios", "model": "small"},
        None,
        (2, 2, 0, 1, 3),
    ),
    ({"provider": "helios"}, "write", (2, 2, 0, 1, 3)),
    ({"provider": "selene"}, None, (1, 0, 1, 1, 0)),
    ({"model": "alone"}, None, (1, 0, 1, 1, 0)),
    ({"provider": "nobody"}, None, (0, 0, 0, 0, 0)),
    ({"service": "billing"}, None, (2, 2, 0, 1, 3)),
]
"""Calls, the breaker that is looked at, and failures, 429, 529, fallbacks and rejections."""


def as_a_server_of_before_counted(*, since_s: float) -> None:
    """Take the categories out of the sums of backends, as they were counted before these were kept."""
    first = to_us(ago(since_s)) // 60_000_000
    for one in SpanSum.objects.filter(view="backend", category__gt="", provider__gt="") | SpanSum.objects.filter(
        view="backend", category__gt="", model__gt=""
    ):
        if one.span * one.minutes < first - first % one.minutes:
            continue
        digest = dimensions_digest(SpanName("", "", 0, 0, provider=one.provider, model=one.model)[4:])
        key = {name: getattr(one, name) for name in ("environment", "view", "minutes", "span", "provider", "model")}
        bare, _ = SpanSum.objects.get_or_create(**key, dimensions=digest)
        SpanSum.objects.filter(pk=bare.pk).update(**{name: F(name) + getattr(one, name) for name in COUNTERS})
        one.delete()


@pytest.mark.parametrize("before_s", [None, 100_000, 605], ids=["counted by us", "counted before", "by both"])
@pytest.mark.parametrize("length", [timedelta(hours=1), timedelta(hours=24), timedelta(days=7)])
@pytest.mark.parametrize(("of_calls", "breaker", "expected"), KEPT_TO)
@pytest.mark.django_db
def test_what_is_kept_to_some_calls_is_told_alike_over_any_span(
    length: timedelta,
    of_calls: dict[str, str],
    breaker: str | None,
    expected: tuple[int, ...],
    before_s: float | None,
) -> None:
    """What was refused or answered otherwise names no provider: it is of those who called it."""

    def refused(operation: str, calls: int) -> BreakerRejected:
        return BreakerRejected(operation=operation, breaker=operation, state=State.OPEN, count=calls)

    story = Story()
    for at in (601, 602, 1500):
        story.tell(failed(operation="read", provider="helios", model="large", status_code=529), at=at)
    for at in (603, 1501):
        small = failed(Category.RATE_LIMITED, "write", provider="helios", model="small", status_code=429)
        story.tell(small, at=at, service="billing")
    story.tell(failed(operation="ask", provider="selene", model="one", status_code=529), at=700)
    story.tell(failed(operation="guess", model="alone", status_code=529), at=700)
    story.tell(FallbackActivated(operation="guess", fallback="cache", level=1), at=710)
    story.tell(counted(50, operation="read", provider="helios", model="large"), at=605)
    story.tell(refused("read", 7), FallbackActivated(operation="read", fallback="cache", level=1), at=620)
    story.tell(
        refused("write", 3), FallbackActivated(operation="write", fallback="cache", level=1), at=1510, service="billing"
    )
    story.tell(FallbackActivated(operation="ask", fallback="cache", level=1), at=710)
    story.tell(refused("other", 100), FallbackActivated(operation="other", fallback="cache", level=1), at=630)
    story.store()
    if before_s is not None:
        as_a_server_of_before_counted(since_s=before_s)
        assert not list(differences(refold()[0], None))
    with CaptureQueriesContext(connection) as asked:
        sums = sums_per_bin("dev", start=NOW - length, end=NOW, of_calls=of_calls, breaker=breaker)
    bare = SpanSum.objects.filter(view="backend", category="", failures__gt=0, minutes=sums.grid.bin_s // 60)
    is_asked_again = "service" not in of_calls and breaker is None and bare.filter(**of_calls).exists()
    assert len(asked) == (2 if "provider" in of_calls or "model" not in of_calls else 3) + is_asked_again
    if of_calls == {"provider": "helios"} and breaker is None:
        assert {name: sum(counts) for name, counts in sums.failures().series.items()} == {
            Category.OVERLOADED: 3,
            Category.RATE_LIMITED: 2,
        }
    capacity = sums.capacity()
    told = [sums.failures().series, capacity.rate_limited, capacity.overloaded]
    told += [sums.fallbacks().series, sums.rejections().series]
    assert tuple(sum(chain.from_iterable(one.values())) for one in told) == expected
    before = sums_earlier("dev", sums, length, breaker=breaker, reporting=(), of_calls=of_calls)
    assert sum(before.failures().total()) == 0


@pytest.mark.django_db
def test_what_a_server_of_before_counted_and_we_corrected_is_no_difference() -> None:
    """A failure that was told, and then told by the span around it: taken back with its category, counted without."""
    minute = to_us(ago(600)) // 60_000_000
    for category, failures in (("", 2), ("timeout", -2)):
        name = SpanName("dev", "backend", 1, minute, provider="helios", model="large", category=category)
        SpanSum.objects.create(dimensions=dimensions_digest(name[4:]), failures=failures, **name._asdict())
    assert list(differences(Folded(), None)) == []
    SpanSum.objects.filter(category="timeout").update(failures=-1)
    assert len(list(differences(Folded(), None))) == 1


@pytest.mark.django_db
def test_a_failure_without_a_category_is_unknown_and_asked_for_once() -> None:
    """It must not look as if a server of before had counted it: that would hide differences of all others, for ever."""
    story = Story().tell(failed(Category.TIMEOUT, "read", provider="helios", model="large"), at=600)
    story.tell(counted(5, operation="read", provider="helios", model="large"), at=600).without("category").store()
    Story().tell(failed(Category.NETWORK, "read", provider="helios", model="large"), at=600).store()
    assert list(differences(refold()[0], None)) == []
    with CaptureQueriesContext(connection) as asked:
        sums = sums_per_bin("dev", **HOUR, of_calls={"provider": "helios"})
    assert len(asked) == 2
    assert {name: sum(counts) for name, counts in sums.failures().series.items()} == {"unknown": 1, "network": 1}
    SpanSum.objects.filter(view="backend", category="network").update(category="bug")
    assert list(differences(refold()[0], None)) != []


@pytest.mark.parametrize("length", [timedelta(hours=1), timedelta(hours=24), timedelta(days=7)])
@pytest.mark.django_db
def test_all_calls_of_the_only_service_are_all_calls(length: timedelta) -> None:
    """Where nobody says whose a capacity error is, it is told by its operation, here as there."""
    story = Story()
    for at in (601, 602, 1500):
        story.tell(failed(operation="read", provider="helios", model="large", status_code=529), at=at)
        story.tell(failed(Category.RATE_LIMITED, "write", status_code=429), failed(Category.TIMEOUT, "ask"), at=at + 1)
    story.tell(FallbackActivated(operation="ask", fallback="cache", level=1), at=710)
    story.tell(BreakerRejected(operation="ask", breaker="asking", state=State.OPEN, count=7), at=711)
    story.tell(counted(50, operation="read", provider="selene", model="one"), counted(20, operation="ask"), at=605)
    story.store()
    window: dict[str, Any] = {"start": NOW - length, "end": NOW}
    own, every = sums_per_bin("dev", **window, of_calls={"service": "research"}), sums_per_bin("dev", **window)
    assert (own.failures(), own.capacity()) == (every.failures(), every.capacity())
    assert (own.fallbacks(), own.rejections()) == (every.fallbacks(), every.rejections())
    assert set(own.capacity().series) == {"helios / large", "selene / one", "write"}
    assert own.backends("model") == every.backends("model") == {"large", "one"}
    assert sums_per_bin("dev", **window, of_calls={"service": "nobody"}).failures().series == {}


def test_one_read_answers_for_everything(storm: Story) -> None:
    with CaptureQueriesContext(connection) as asked:
        sums = sums_per_bin("dev", **HOUR)
        answers = sums.failures(), sums.capacity(), sums.fallbacks(), sums.rejections()
    assert len(asked) == 2
    assert answers[1] == capacity_per_bin("dev", **HOUR)


@pytest.mark.django_db
def test_degradations_touch_the_window() -> None:
    def started(operation: str) -> DegradationStarted:
        return DegradationStarted(operation=operation, kind="fallback", reason="open", to_name="search_cache")

    def ended(operation: str, duration_s: float) -> DegradationEnded:
        return DegradationEnded(operation=operation, kind="fallback", duration_s=duration_s, calls=7)

    story = Story().tell(started("over"), at=9000).tell(ended("over", 1000), at=8000)
    story.tell(started("reaches in"), at=5000).tell(ended("reaches in", 2000), at=3000).tell(started("goes on"), at=60)
    story.store()
    rows = degradations("dev", **HOUR)
    assert [(row.operation, row.started, row.ended, row.calls) for row in rows] == [
        ("reaches in", ago(5000), ago(3000), 7),
        ("goes on", ago(60), None, 0),
    ]
    assert (rows[1].kind, rows[1].to_name, rows[1].instance) == ("fallback", "search_cache", "a-1")


def test_of_too_many_degradations_those_that_ended_last_are_told(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trouble, "DEGRADATIONS_MOST", 2)
    story = Story()
    for number in range(4):
        name = f"operation_{number}"
        story.tell(DegradationStarted(operation=name, kind="fallback", reason="open"), at=3000 - number)
        if number < 3:
            story.tell(DegradationEnded(operation=name, kind="fallback", duration_s=9, calls=1), at=900 + 100 * number)
    story.store()
    assert {row.operation for row in degradations("dev", **HOUR)} == {"operation_0", "operation_1", "operation_3"}


def test_degradations_of_an_hour_are_found_without_reading_all(engine: str) -> None:
    Story().tell(heartbeat(), at=1000).store()
    agent, start_us = Agent.objects.get(), to_us(HOUR["start"])
    Degradation.objects.bulk_create(
        Degradation(
            environment="dev",
            agent=agent,
            operation=f"operation_{number}",
            kind="fallback",
            started_us=start_us - 5_000_000 - number,
            ended_us=start_us + 5_000_000 - number * 10_000,
            last_position=bytes(16),
        )
        for number in range(20_000)
    )
    with CaptureQueriesContext(connection) as asked:
        assert len(degradations("dev", **HOUR)) == 500
    with connection.cursor() as cursor:
        if engine == "postgres":
            cursor.execute("ANALYZE events_degradation")
        cursor.execute(f"EXPLAIN {'' if engine == 'postgres' else 'QUERY PLAN '}{asked[0]['sql']}")
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
    assert not WHOLE_TABLE.search(plan), plan


def test_failures_come_newest_first(storm: Story) -> None:
    story = Story().tell(
        failed(Category.TIMEOUT, message="slow", retry_after_s=2.5), at=5, run="r-1", source="main_agent"
    )
    story.store()
    rows = recent_failures("dev", limit=3, **HOUR)
    assert [row.at for row in rows] == [ago(5), ago(601), ago(602)]
    assert (rows[0].category, rows[0].family, rows[0].message) == (Category.TIMEOUT, Family.TRANSIENT, "slow")
    assert (rows[0].run, rows[0].source, rows[0].retry_after_s, rows[0].attempt) == ("r-1", "main_agent", 2.5, 1)
    assert rows[1].status_code == 529
    assert {row.operation for row in recent_failures("dev", breaker="fetch_page", **HOUR)} == {"fetch_page"}
    assert {row.operation for row in recent_failures("dev", operation="fetch_page", **HOUR)} == {"fetch_page"}


@pytest.mark.django_db
def test_operations_say_how_they_are_called() -> None:
    story = Story().tell(heartbeat(), at=5)
    story.tell(counted(100, attempts=130), at=30, source="main_agent", is_foreground=True)
    story.tell(counted(100, attempts=100), at=1800, source="titles")
    # Calls that a breaker refused made no attempt, and are none of those that take more than one.
    story.tell(counted(60, operation="refused", attempts=50, successes=50), at=30)
    again = RetryScheduled(
        operation="refused", attempt=2, delay_s=1.0, delay_source=DelaySource.BACKOFF, category=Category.TIMEOUT
    )
    story.tell(*[again] * 10, at=30)
    story.tell(failed(), at=30, source="main_agent", is_foreground=True)
    story.tell(moved(State.OPEN, breaker="quiet"), at=90_000).store()
    quiet, refused, busy = operations("dev", now=NOW)
    assert refused.attempts_per_call == pytest.approx(1.25)
    assert (quiet.operation, quiet.breaker, quiet.attempts_per_call, quiet.failure_rate) == (
        "quiet",
        "quiet",
        None,
        None,
    )
    assert (busy.operation, busy.sources, busy.foreground_sources) == (
        "search_web",
        ("main_agent", "titles"),
        ("main_agent",),
    )
    assert busy.attempts_per_call == pytest.approx(1.15)
    assert busy.failure_rate == pytest.approx(1 / 230)
    assert busy.calls_per_min == pytest.approx(100 / 4.3)
