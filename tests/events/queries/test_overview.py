"""The overview's numbers, and its sentence in every kind of weather."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.capacity.asking import events_going_on
from events.capacity.detection import look
from events.capacity.reach import read_reach
from events.capacity.rows import Owner
from events.models import SpanSum
from events.moments import to_us
from events.pages.scoped import Backend
from events.projections.summing import SpanName, dimensions_digest
from events.queries import Ranges, last_trouble, overview_numbers, sentence
from events.queries.overview_rows import Waiting
from events.queries.situation import Topic, clauses
from recovery_ops.rules.enums import Category, DelaySource, Family, State, Trigger
from recovery_ops.rules.events import BreakerRejected, DegradationStarted, RetryScheduled
from tests.support.sentences import left_out
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


def topics() -> list[Topic]:
    """What the overview's sentence is about."""
    return [one.topic for one in clauses("dev", NOW)]


def test_all_is_well() -> None:
    calm().store()
    [well] = clauses("dev", NOW)
    assert (well.topic, left_out(well.words, "2", "40")) == (Topic.WELL, [])
    assert sentence("dev", NOW) == f"{well.words}."


def test_a_breaker_of_which_nobody_tells_is_not_said_to_let_calls_through() -> None:
    calm().tell(moved(State.CLOSED, breaker="crm"), at=900, instance="a-gone").store()
    numbers = overview_numbers("dev", now=NOW)
    assert (numbers.breakers, numbers.breakers_dark) == (3, 1)
    [well] = clauses("dev", NOW, numbers=numbers)
    assert (well.topic, left_out(well.words, "1", "2", "3")) == (Topic.WELL, [])


def test_nothing_is_known_before_the_first_agent() -> None:
    assert topics() == [Topic.NEVER_REPORTED]


def test_a_fleet_that_is_silent_is_not_called_well() -> None:
    Story().tell(heartbeat(), at=400).tell(heartbeat(), at=500, instance="a-2").store()
    [silent] = clauses("dev", NOW)
    assert (silent.topic, left_out(silent.words, "2", "14:19:38")) == (Topic.ALL_SILENT, [])


def test_a_fleet_that_left_long_ago_is_dated() -> None:
    Story().tell(heartbeat(), at=200_000).store()
    [gone] = clauses("dev", NOW)
    assert (gone.topic, left_out(gone.words, "19 Nov 06:52:58")) == (Topic.ALL_GONE, [])


def test_a_shortage_says_who_answers_what_since_when_and_to_whom() -> None:
    overloaded(calm()).store()
    [short] = clauses("dev", NOW)
    assert (short.topic, left_out(short.words, "helios / large", "529", "14:16", "1.5")) == (Topic.SHORT, [])
    assert left_out(short.words, "429") == ["429"]


@pytest.mark.parametrize(
    ("category", "owner"),
    [
        (Category.OVERLOADED, Owner.PROVIDER),
        (Category.RATE_LIMITED, Owner.QUOTA),
        (Category.NETWORK, Owner.UNREACHABLE),
    ],
)
def test_an_outage_is_told_as_one_thing_with_whose_it_is(category: Category, owner: Owner) -> None:
    outage(category)
    Story().tell(moved(State.HALF_OPEN, breaker="model:large"), at=4, instance="a-0").store()
    [row] = events_going_on("dev", now=NOW)
    assert (row.owner, row.runs, row.instances) == (owner, 3, 2)
    told, standing = clauses("dev", NOW)
    assert (told.topic, left_out(told.words, "helios / large", "14:21:18", "3", "2")) == (Topic.OUTAGE, [])
    assert (standing.topic, left_out(standing.words, "model:large", "half-open", "1", "2")) == (Topic.BLOCKING, [])
    others = [clauses("dev", NOW, outages=[replace(row, owner=one)])[0].words for one in Owner]
    assert others.count(told.words) == 1, "whose it is, is said"


def test_another_outage_is_counted_and_not_told() -> None:
    outage()
    outage(Category.OVERLOADED, provider="selene", model="two")
    several = events_going_on("dev", now=NOW)
    [told] = clauses("dev", NOW, outages=several)
    assert (told.topic, len(several), left_out(told.words, "1")) == (Topic.OUTAGE, 2, [])
    assert len(left_out(told.words, "helios / large", "selene / two")) == 1


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
    [short] = clauses("dev", NOW)
    assert (short.topic, left_out(short.words, "search_web", "429", "14:26")) == (Topic.SHORT, [])


def test_a_long_shortage_is_dated_to_its_beginning() -> None:
    story = calm()
    for at in range(3, 9000, 120):
        story.tell(failed(Category.RATE_LIMITED), at=at)
    story.store()
    [short] = clauses("dev", NOW)
    assert (short.topic, left_out(short.words, "search_web", "429", "11:58")) == (Topic.SHORT, [])
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
    told = clauses("dev", NOW)
    values = {
        Topic.SHORT: ("helios / large", "529", "14:16", "1.5"),
        Topic.BLOCKING: ("model:large", "open", "1", "2"),
        Topic.CARRIED: ("model:small", "model:large"),
        Topic.HELD: ("search_web", "forced open"),
    }
    assert [one.topic for one in told] == list(values)
    assert [left_out(one.words, *values[one.topic]) for one in told] == [[]] * 4
    assert told[0].words in sentence("dev", NOW)


def test_in_a_storm_one_of_each_kind_is_named_and_how_many_others_there_are() -> None:
    outage()
    story = Story()
    for name in ("model:large", "crm", "embed", "search_web"):
        story.tell(moved(State.OPEN, breaker=name), at=20, instance="a-0")
    for name in ("crm", "embed"):
        story.tell(DegradationStarted(operation=name, kind="withdrawn", reason="overloaded"), at=19, instance="a-0")
    reduced = DegradationStarted(operation="model:large", kind="model", reason="overloaded", to_name="model:small")
    story.tell(reduced, at=18, instance="a-0").store()
    told = {one.topic: one.words for one in clauses("dev", NOW)}
    assert list(told) == [Topic.OUTAGE, Topic.BLOCKING, Topic.CARRIED]
    assert left_out(told[Topic.BLOCKING], "crm", "open", "1", "3") == []
    assert left_out(told[Topic.BLOCKING], "embed", "search_web") == ["embed", "search_web"]
    assert left_out(told[Topic.CARRIED], "model:small", "model:large", "2") == []
    assert left_out(told[Topic.CARRIED], "crm", "embed") == ["crm", "embed"]


def test_an_open_breaker_alone_says_since_when_and_why() -> None:
    calm().tell(moved(State.OPEN, last_category=Category.TIMEOUT), at=100, instance="a-0").store()
    [blocking] = clauses("dev", NOW)
    assert blocking.topic is Topic.BLOCKING
    assert left_out(blocking.words, "search_web", "open", "1", "2", "14:24:38", "timeout") == []


def test_failures_that_open_nothing_are_said_without_alarm() -> None:
    calm().tell(failed(Category.TIMEOUT), at=5).store()
    [failing] = clauses("dev", NOW)
    assert (failing.topic, left_out(failing.words, "0.8", "transient")) == (Topic.FAILING, [])


def test_an_operation_that_is_withdrawn_and_an_agent_that_is_silent() -> None:
    story = calm().tell(DegradationStarted(operation="search_web", kind="withdrawn", reason="x"), at=9, instance="a-0")
    story.tell(heartbeat(), at=386, instance="support-agent-09").store()
    withdrawn, silent = clauses("dev", NOW)
    assert (withdrawn.topic, left_out(withdrawn.words, "search_web")) == (Topic.CARRIED, [])
    assert (silent.topic, left_out(silent.words, "support-agent-09", "6m 26s")) == (Topic.SILENT, [])


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
