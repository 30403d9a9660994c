"""What is kept how long, and that a sweep leaves the rest and the proof of it alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from events import retention, verification
from events.models import (
    LANE_MINUTES,
    Agent,
    BreakerState,
    Degradation,
    Fact,
    InstanceMoves,
    MinuteSum,
    Quarantine,
    SpanSum,
)
from events.records import read_records
from events.retention import KEEP, micros, sweep_facts
from events.sent import Batch, Sent
from events.store import store_facts
from events.sum_views import VIEWS
from events.summing import LaneMoves
from events.tasks import sweep
from recovery_ops.rules.facts import CallsCounted, Record
from recovery_ops.wire import encode, names

NOW = datetime(2026, 11, 21, tzinfo=UTC)
EVENTS = ["instance_heartbeat", "failure_classified", "breaker_state_changed", "log"]

pytestmark = pytest.mark.django_db


def keep(event: str, days_ago: float, *, received_days_ago: float | None = None, count: int = 1) -> None:
    """Facts of so many days ago."""
    agent, _ = Agent.objects.get_or_create(
        environment="dev", service="s", instance="i", defaults={"first_seen_us": 1, "last_seen_us": 1}
    )
    at_us = micros(NOW - timedelta(days=days_ago))
    received_us = micros(NOW - timedelta(days=days_ago if received_days_ago is None else received_days_ago))
    start = Fact.objects.count()
    Fact.objects.bulk_create(
        Fact(
            environment="dev",
            uid=number.to_bytes(16, "big"),
            agent=agent,
            event=event,
            at_us=at_us,
            received_us=received_us,
        )
        for number in range(start, start + count)
    )


def left() -> list[str]:
    return sorted(Fact.objects.values_list("event", flat=True))


@pytest.mark.parametrize(("days", "expected"), [(6, EVENTS), (8, EVENTS[1:]), (91, EVENTS[2:3]), (401, [])])
def test_each_kind_is_kept_for_its_time(days: float, expected: list[str]) -> None:
    for event in EVENTS:
        keep(event, days)
    assert sweep_facts(NOW) == len(EVENTS) - len(expected)
    assert left() == sorted(expected)


def test_a_fact_that_came_late_is_kept_for_its_time_after_its_receipt() -> None:
    keep("instance_heartbeat", 20, received_days_ago=1)
    assert sweep_facts(NOW) == 0


def test_nothing_is_looked_for_while_facts_have_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP_ROWS", 10)
    keep("instance_heartbeat", 20, received_days_ago=1, count=50)  # a backfill, which stays
    keep("instance_heartbeat", 19, count=25)
    with CaptureQueriesContext(connection) as asked:
        assert sweep_facts(NOW) == 25
    assert left() == ["instance_heartbeat"] * 50
    ours = [one["sql"] for one in asked if "events_fact" in one["sql"] and "instance_heartbeat" in one["sql"]]
    if connection.vendor == "sqlite":  # the only one on which deleting keeps others out
        assert not [sql for sql in ours if sql.startswith("DELETE")]
        assert len(ours) == 8  # 75 rows by tens, each looked at once


def test_a_sweep_goes_in_steps_and_ends_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP_ROWS", 10)
    keep("instance_heartbeat", 8, count=35)
    assert sweep_facts(NOW, may_go_on=lambda: Fact.objects.count() > 15) == 20
    assert sweep_facts(NOW) == 15


def test_sums_and_quarantine_go_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "STEP_ROWS", 1)
    keep("log", 0)
    for days in (399, 401, 402):
        MinuteSum.objects.create(
            environment="dev", minute=micros(NOW - timedelta(days=days)) // 60_000_000, dimensions=bytes([days % 256])
        )
        for view, widths in VIEWS.items():
            for minutes in widths:
                span = micros(NOW - timedelta(days=days)) // 60_000_000 // minutes
                SpanSum.objects.create(environment="dev", view=view, minutes=minutes, span=span, dimensions=b"")
        for minutes in LANE_MINUTES:
            InstanceMoves.objects.create(
                environment="dev",
                breaker="search",
                agent_id=1,
                minutes=minutes,
                span=micros(NOW - timedelta(days=days)) // 60_000_000 // minutes,
                **LaneMoves(1, 1, 1, 1)._asdict(),
            )
    for days in (29, 31):
        Quarantine.objects.create(
            environment="dev", received_us=micros(NOW - timedelta(days=days)), reason="", size_bytes=0, content=""
        )
    sweep_facts(NOW)
    assert (MinuteSum.objects.count(), Quarantine.objects.count()) == (1, 1)
    assert SpanSum.objects.count() == sum(map(len, VIEWS.values()))
    assert InstanceMoves.objects.count() == len(LANE_MINUTES)


@pytest.mark.parametrize(("days", "agents", "states", "intervals"), [(99, 2, 1, 1), (101, 2, 0, 1), (402, 1, 0, 0)])
def test_who_is_gone_for_long_is_forgotten(days: float, agents: int, states: int, intervals: int) -> None:
    keep("log", 0)
    seen_us = micros(NOW - timedelta(days=days))
    gone = Agent.objects.create(
        environment="dev", service="s", instance="gone", first_seen_us=seen_us, last_seen_us=seen_us
    )
    Agent.objects.filter(instance="i").update(last_seen_us=micros(NOW))
    BreakerState.objects.create(environment="dev", agent=gone, breaker="b", seen_us=seen_us)
    Degradation.objects.create(environment="dev", agent=gone, started_us=seen_us, last_position=b"")
    sweep_facts(NOW)
    found = (Agent.objects.count(), BreakerState.objects.count(), Degradation.objects.count())
    assert found == (agents, states, intervals)


def test_what_was_swept_is_no_difference() -> None:
    keep("instance_heartbeat", 8)
    sweep_facts(NOW)
    folded, count = verification.refold()
    assert (count, list(verification.differences(folded, NOW))) == (0, [])


def tell_counted(number: int, calls: int, *, days_later: float) -> None:
    """An instance that counted calls at `NOW` says so, for the first time or again."""
    fact = CallsCounted(operation="pay", interval_s=10.0, calls=calls, attempts=calls, successes=calls)
    uid = str(UUID(int=1 << 100 | number))
    event = encode(Record(fact=fact, uid=uid, sequence_number=number, at_ns=micros(NOW) * 1000))
    sent = Sent(event.event_name, event.at_ns, 0, event.severity, event.body, event.attributes, "", "")
    batch = Batch({names.SERVICE_NAME: "s", names.SERVICE_INSTANCE_ID: "i"}, "tests", [sent])
    with transaction.atomic():
        store_facts(read_records([batch], "dev", micros(NOW + timedelta(days=days_later))).rows)


def counted() -> int:
    return int(MinuteSum.objects.aggregate(Sum("calls", default=0))["calls__sum"])


def test_counted_calls_that_are_sent_again_after_they_were_swept_are_not_counted_again(engine: str) -> None:
    """By an agent that was off for a fortnight, and never heard that its last batch had been stored."""
    tell_counted(1, 40, days_later=0)
    assert sweep_facts(NOW + timedelta(days=8)) == 1
    assert (counted(), Fact.objects.count()) == (40, 0)
    for days in (9, 80):
        tell_counted(1, 40, days_later=days)
        assert (counted(), Fact.objects.count()) == (40, 0)
    tell_counted(2, 2, days_later=9)
    assert counted() == 42, "what was not heard of before is counted, however late it comes"
    sweep_facts(NOW + timedelta(days=91))
    tell_counted(1, 40, days_later=92)
    assert counted() == 82, "ids are forgotten after their time, too"


def test_the_task_may_run_twice() -> None:
    keep("instance_heartbeat", 1000)
    assert (sweep(), sweep()) == (1, 0)


def test_only_known_kinds_have_a_time_of_their_own() -> None:
    assert set(KEEP) <= {event.name for event in names.EVENTS.values()}
