"""The overview's numbers, and its sentence in every kind of weather."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.capacity.detection import look
from events.capacity.reach import read_reach
from events.models import SpanSum
from events.moments import to_us
from events.overview_rows import Waiting
from events.queries import Ranges, last_trouble, overview_numbers, sentence
from events.scoped import Backend
from events.summing import SpanName, dimensions_digest
from recovery_ops.rules.facts import BreakerRejected, DegradationStarted, RetryScheduled
from recovery_ops.rules.words import Category, DelaySource, Family, State, Trigger
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

pytestmark = pytest.mark.django_db


def calm(story: Story | None = None) -> Story:
    """Two instances that live, with two breakers that let calls through."""
    story = story if story is not None else Story()
    for name in ("a-0", "a-1"):
        story.tell(heartbeat(runs_in_flight=2), counted(13), counted(13, operation="fetch_page"), at=5, instance=name)
    return story


def overloaded(story: Story) -> Story:
    """helios / large answers 529 now and then for ten minutes: too little for an outage."""
    for at in (611, 400, 201, 100, 40, 10):
        name = f"a-{at % 2}"
        failure = failed(operation="model:large", provider="helios", model="large", status_code=529)
        story.tell(failure, at=at, instance=name, run=f"r-{at}")
    return story


def outage(category: Category = Category.OVERLOADED, **backend: str) -> None:
    """One backend fails thick and fast for five minutes, in three runs on two instances; and it was looked for."""
    given = {"provider": "helios", "model": "large"} | backend
    story = calm()
    for number, at in enumerate(range(300, 0, -5)):
        failure = failed(category, operation="model:large", **given)
        story.tell(failure, at=at, instance=f"a-{number % 2}", run=f"r-{number % 3}")
    story.store()
    look("dev", NOW)
    read_reach("dev", NOW)


def test_all_is_well() -> None:
    calm().store()
    assert sentence("dev", NOW) == (
        "Nothing is wrong: 2 of 2 instances report, 2 breakers let calls through, 40 calls a minute."
    )


def test_a_breaker_of_which_nobody_tells_is_not_said_to_let_calls_through() -> None:
    calm().tell(moved(State.CLOSED, breaker="crm"), at=900, instance="a-gone").store()
    assert "2 of 3 breakers let calls through, of 1 it is not known" in sentence("dev", NOW)


def test_nothing_is_known_before_the_first_agent() -> None:
    assert sentence("dev", NOW) == "No agent has reported yet."


def test_a_fleet_that_is_silent_is_not_called_well() -> None:
    Story().tell(heartbeat(), at=400).tell(heartbeat(), at=500, instance="a-2").store()
    assert sentence("dev", NOW) == "All 2 agents have been silent since 14:19:38; what the breakers do is not known."


def test_a_fleet_that_left_long_ago_is_dated() -> None:
    Story().tell(heartbeat(), at=200_000).store()
    assert sentence("dev", NOW) == "No agent has reported since 19 Nov 06:52:58; what happens now is not known."


def test_a_shortage_says_who_answers_what_since_when_and_to_whom() -> None:
    overloaded(calm()).store()
    assert sentence("dev", NOW) == "helios / large has been answering 529 since 14:16, 1.5 a minute."


@pytest.mark.parametrize(
    ("category", "words"),
    [
        (Category.OVERLOADED, "has been overloaded since 14:21:18, 3 runs on 2 instances so far, nothing for us to do"),
        (
            Category.RATE_LIMITED,
            "has been refusing us for our rate since 14:21:18, 3 runs on 2 instances so far, our quota",
        ),
        (
            Category.NETWORK,
            "has been out of reach since 14:21:18, 3 runs on 2 instances so far, it or the way to it is down",
        ),
    ],
)
def test_an_outage_is_told_as_one_thing_with_whose_it_is(category: Category, words: str) -> None:
    outage(category)
    Story().tell(moved(State.HALF_OPEN, breaker="model:large"), at=4, instance="a-0").store()
    assert sentence("dev", NOW) == f"helios / large {words}; model:large is half_open on 1 of 2."


def test_another_outage_is_counted_and_not_told() -> None:
    outage()
    outage(Category.OVERLOADED, provider="selene", model="two")
    assert "nothing for us to do, 1 other too" in sentence("dev", NOW)


def test_what_another_server_took_back_is_no_shortage() -> None:
    """One of before keeps no category, so what either takes back of the other stands in another row."""
    calm().store()
    minute = to_us(ago(20)) // 60_000_000
    for width in (1, 5, 15):
        for category, count in (("", 1), ("rate_limited", -1), ("overloaded", 2)):
            name = SpanName(
                "dev", "backend", width, minute // width, provider="helios", model="large", category=category
            )
            counts = {"failures": count, "overloaded" if category == "overloaded" else "rate_limited": count}
            SpanSum.objects.create(dimensions=dimensions_digest(name[4:]), **counts, **name._asdict())
    [short] = overview_numbers("dev", now=NOW).capacity
    assert (short.rate_limited_per_min, short.overloaded_per_min > 0) == (0, True)
    SpanSum.objects.filter(view="backend", category="overloaded").delete()
    assert overview_numbers("dev", now=NOW).capacity == ()
    assert overview_numbers("dev", now=NOW, backend=Backend(provider="helios")).short.total == 0


def test_a_shortage_that_paused_is_a_new_one() -> None:
    story = calm()
    for at in (3000, 10):
        story.tell(failed(Category.RATE_LIMITED), at=at)
    story.store()
    assert sentence("dev", NOW).startswith("search_web has been answering 429 since 14:26, ")


def test_a_long_shortage_is_dated_to_its_beginning() -> None:
    story = calm()
    for at in range(3, 9000, 120):
        story.tell(failed(Category.RATE_LIMITED), at=at)
    story.store()
    assert sentence("dev", NOW).startswith("search_web has been answering 429 since 11:58, ")
    with CaptureQueriesContext(connection) as asked:
        overview_numbers("dev", now=NOW)
    assert len(asked) <= 7


def test_a_storm_says_what_is_open_what_carries_it_and_who_holds_what() -> None:
    story = overloaded(calm())
    story.tell(moved(State.OPEN, breaker="model:large"), at=100, instance="a-0")
    story.tell(moved(State.FORCED_OPEN, trigger=Trigger.OPERATOR_TRIP), at=14, instance="a-1")
    story.tell(
        DegradationStarted(operation="model:large", kind="model", reason="overloaded", to_name="model:small"),
        at=300,
        instance="a-0",
    ).store()
    assert sentence("dev", NOW) == (
        "helios / large has been answering 529 since 14:16, 1.5 a minute; "
        "model:large is open on 1 of 2; model:small stands in for model:large; "
        "a person holds search_web forced_open."
    )


def test_in_a_storm_one_of_each_kind_is_named_and_how_many_others_there_are() -> None:
    outage()
    story = Story()
    for name in ("model:large", "crm", "embed", "search_web"):
        story.tell(moved(State.OPEN, breaker=name), at=20, instance="a-0")
    for name in ("crm", "embed"):
        story.tell(DegradationStarted(operation=name, kind="withdrawn", reason="overloaded"), at=19, instance="a-0")
    reduced = DegradationStarted(operation="model:large", kind="model", reason="overloaded", to_name="model:small")
    story.tell(reduced, at=18, instance="a-0").store()
    said = sentence("dev", NOW)
    assert said.partition("nothing for us to do; ")[2] == (
        "crm is open on 1 of 1 and 3 others; model:small stands in for model:large and 2 others."
    )


def test_an_open_breaker_alone_says_since_when_and_why() -> None:
    calm().tell(moved(State.OPEN, last_category=Category.TIMEOUT), at=100, instance="a-0").store()
    assert sentence("dev", NOW) == "search_web is open on 1 of 2 since 14:24:38, last failure: timeout."


def test_failures_that_open_nothing_are_said_without_alarm() -> None:
    calm().tell(failed(Category.TIMEOUT), at=5).store()
    assert sentence("dev", NOW) == "0.8 attempts a minute fail, mostly transient, and no breaker is open."


def test_an_operation_that_is_withdrawn_and_an_agent_that_is_silent() -> None:
    story = calm().tell(DegradationStarted(operation="search_web", kind="withdrawn", reason="x"), at=9, instance="a-0")
    story.tell(heartbeat(), at=386, instance="support-agent-09").store()
    assert sentence("dev", NOW) == "search_web is withdrawn; support-agent-09 has been silent for 6m 26s."


def test_what_a_dead_instance_left_open_is_not_said_to_go_on() -> None:
    story = calm().tell(
        DegradationStarted(operation="search_web", kind="withdrawn", reason="x"), at=900, instance="dead"
    )
    story.store()
    assert overview_numbers("dev", now=NOW).degraded == ()


def test_the_numbers_of_the_tiles() -> None:
    story = overloaded(calm()).tell(moved(State.OPEN), at=100, instance="a-0")
    story.tell(moved(State.DISABLED, breaker="fetch_page", trigger=Trigger.OPERATOR_DISABLE), at=50, instance="a-1")
    refused = BreakerRejected(operation="search_web", breaker="search_web", state=State.OPEN, count=26)
    story.tell(refused, at=6).tell(heartbeat(), at=100, instance="quiet").store()
    numbers = overview_numbers("dev", now=NOW)
    assert numbers.breakers == 3
    assert [row.name for row in numbers.breakers_blocking] == ["search_web"]
    assert [row.name for row in numbers.breakers_held] == ["fetch_page"]
    assert (numbers.agents_reporting, numbers.agents, [one.instance for one in numbers.silent]) == (2, 3, ["quiet"])
    assert numbers.runs_in_flight == 4
    minutes = 1.3
    assert numbers.capacity_per_min == pytest.approx(2 / minutes)
    assert numbers.failures_by_family == {Family.TRANSIENT: pytest.approx(2 / minutes)}
    assert numbers.calls_per_min == pytest.approx(52 / minutes)
    assert numbers.capacity[0].since <= ago(611)


def test_what_went_on_is_compared_with_the_range_before() -> None:
    story = overloaded(calm().tell(heartbeat(), at=7200))
    for at, breaker in ((4000, "search_web"), (3990, "fetch_page"), (2000, "search_web"), (60, "search_web")):
        story.tell(moved(State.OPEN, breaker=breaker), at=at, instance="a-0")
        story.tell(moved(State.CLOSED, breaker=breaker), at=at - 5, instance="a-0")
    story.tell(failed(Category.RATE_LIMITED, status_code=429), at=4500, instance="a-1").store()
    hour = Ranges(NOW - timedelta(hours=1), NOW, ago(7200))
    numbers = overview_numbers("dev", now=NOW, ranges=hour)
    assert (numbers.short.total, numbers.short.before) == (6, 1)
    assert sum(one or 0 for one in numbers.short.bins) == 6
    assert (numbers.opened.total, numbers.opened.before) == (1, 2), "of a breaker it is told once that it opened"
    assert (numbers.reporting.total, numbers.reporting.before) == (2, 2)
    longer = overview_numbers("dev", now=NOW, ranges=Ranges(NOW - timedelta(hours=6), NOW, ago(7200)))
    assert longer.short.before is None, "nobody lived to tell: unknown, not zero"
    assert longer.short.bins[0] is None


def test_who_waits_for_capacity_and_for_how_long() -> None:
    story = calm()

    def waits(
        run: str, delay_s: float, at: int, category: Category = Category.OVERLOADED, instance: str = "a-0"
    ) -> None:
        told = RetryScheduled(
            operation="search_web", attempt=2, delay_s=delay_s, delay_source=DelaySource.BACKOFF, category=category
        )
        story.tell(told, at=at, run=run, instance=instance)

    waits("r-over", 5.0, 30)
    waits("r-long", 60.0, 40)
    waits("r-short", 20.0, 10)
    waits("r-other", 60.0, 10, Category.TIMEOUT)
    waits("r-silent", 600.0, 500, instance="dead")
    waits("r-again", 90.0, 80)
    waits("r-again", 1.0, 20)
    story.store()
    found = overview_numbers("dev", now=NOW).waiting
    assert (found.runs, found.longest, found.since) == (2, "r-long", ago(40))
    assert overview_numbers("other", now=NOW).waiting == Waiting()


def test_when_there_was_trouble_last() -> None:
    calm().store()
    assert last_trouble("dev", now=NOW) is None
    Story().tell(moved(State.OPEN), at=500, instance="a-0").tell(moved(State.CLOSED), at=400, instance="a-0").store()
    assert last_trouble("dev", now=NOW) == ago(500)


def test_few_queries_are_asked() -> None:
    overloaded(calm()).tell(moved(State.OPEN), at=100).store()
    with CaptureQueriesContext(connection) as asked:
        numbers = overview_numbers("dev", now=NOW)
    assert len(asked) <= 7
    with CaptureQueriesContext(connection) as asked:
        sentence("dev", NOW, numbers=numbers)
    assert len(asked) == 1
    with CaptureQueriesContext(connection) as asked:
        sentence("dev", NOW, numbers=numbers, outages=())
    assert len(asked) == 0
