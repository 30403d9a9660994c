"""What is kept how long, and that a sweep leaves the rest and the proof of it alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from events import tasks
from events.deployments.models import ServiceVersion
from events.derived.open_parents import OpenParent
from events.ingest.records import read_records
from events.issues.models import FAILURE_MINUTES, FailureKind, FailureSum, InstanceFailureSum
from events.models import (
    LANE_MINUTES,
    Agent,
    BreakerState,
    Degradation,
    Fact,
    InstanceMoves,
    MinuteSum,
    Quarantine,
    SettingsInForce,
    SpanMark,
    SpanSum,
)
from events.otlp.sent import Batch, Sent
from events.projections import verification
from events.projections.sum_views import VIEWS
from events.runs.models import Run, RunFailure
from events.store import retention
from events.store.retention import KEEP, micros, sweep_facts
from events.store.writes import store_facts
from events.tasks import sweep
from recovery_ops.rules.events import CallsCounted, Record
from recovery_ops.wire import encode, names
from tests.support.isolated import rolled_back
from tests.support.rows import row

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


def test_sweep_pauses_after_deletions_not_looks() -> None:
    FailureKind.objects.bulk_create(
        FailureKind(digest=number.to_bytes(8, "big"), environment="dev") for number in range(300)
    )
    asked: list[int] = []

    def may_go_on() -> bool:
        asked.append(Fact.objects.count())
        return True

    sweep_facts(NOW, may_go_on=may_go_on)
    assert 300 // retention.LOOKS_MOST <= len(asked) < 30


def test_sweep_without_time_looks_no_further() -> None:
    keep("instance_heartbeat", 8)
    Quarantine.objects.create(environment="dev", received_us=1, size_bytes=1)
    assert sweep_facts(NOW, may_go_on=lambda: False) == 1
    assert Quarantine.objects.exists()


def test_sweep_beside_a_sweep_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[int] = []

    def swept(now: datetime, **_: Any) -> int:
        beside.append(sweep())
        return 7

    monkeypatch.setattr(tasks, "sweep_facts", swept)
    assert (sweep(), sweep(), beside) == (7, 7, [0, 0])


MINUTE_US = 60_000_000
DAY_MINUTES = 1440
Columns = Callable[[int], dict[str, Any]]
"""The columns of a row that was last heard of at a moment, in microseconds since the epoch."""


def in_span(minutes: int, **said: Any) -> Columns:
    return lambda last_us: {"minutes": minutes, "span": last_us // MINUTE_US // minutes, **said}


def failed_in_span(minutes: int, **said: Any) -> Columns:
    """Several may be of one day, so each is of a kind of its own; a day goes with its last minute."""
    failed = {"variant": 0, "failures": 1, "first_us": 1}

    def columns(last_us: int) -> dict[str, Any]:
        span = last_us // MINUTE_US // minutes
        if minutes == DAY_MINUTES and last_us < micros(NOW) - 90 * DAY_MINUTES * MINUTE_US:
            span -= 1
        return {"minutes": minutes, "span": span, "kind": f"{last_us}".encode(), "last_us": last_us, **failed, **said}

    return columns


def of_agent(**said: Any) -> Columns:
    return lambda last_us: {"agent": row(Agent, instance=f"of {last_us}", last_seen_us=last_us, first_seen_us=1)} | said


AGES: tuple[tuple[type[models.Model], int, Columns], ...] = (
    (Run, 90, lambda last_us: {"agent_id": 1, "holder_id": 1, "run": f"{last_us}", "first_us": 1, "last_us": last_us}),
    (RunFailure, 90, lambda last_us: {"kind": b"k", "run": f"{last_us}", "first_us": 1, "last_us": last_us}),
    (Quarantine, 30, lambda last_us: {"received_us": last_us}),
    (SpanMark, 1, lambda last_us: {"seen_us": last_us, "span_id": f"{last_us}"[-16:], "ended_ns": 1}),
    (OpenParent, 1, lambda last_us: {"seen_us": last_us, "key": last_us, "whole_ns": 1}),
    (BreakerState, 100, of_agent(seen_us=1)),
    (SettingsInForce, 100, of_agent(at_us=1)),
    (Degradation, 401, of_agent(started_us=1, last_position=b"")),
    (ServiceVersion, 401, lambda last_us: {"version": f"{last_us}", "first_us": 1, "last_us": last_us}),
    (Agent, 401, lambda last_us: {"instance": f"{last_us}", "first_seen_us": 1, "last_seen_us": last_us}),
    (MinuteSum, 400, lambda last_us: {"dimensions": b"", "minute": last_us // MINUTE_US}),
    *(
        (SpanSum, 400, in_span(minutes, view=view, dimensions=b""))
        for view, widths in VIEWS.items()
        for minutes in widths
    ),
    *((InstanceMoves, 400, in_span(minutes, agent_id=1)) for minutes in LANE_MINUTES),
    *((FailureSum, 90, failed_in_span(minutes)) for minutes in FAILURE_MINUTES),
    *((InstanceFailureSum, 90, failed_in_span(minutes, agent_id=1)) for minutes in FAILURE_MINUTES),
)
"""For how many days a row of each table stays after it was last heard of."""
ELSEWHERE = {
    *("AgentKey", "CapacityArrangement", "CapacityEvent", "CapacityLook", "Fact", "FailureKind", "HiddenTexts"),
    *("KnownName", "NamedFailures", "RecoveryDay", "SchemaStamp", "Tally"),
}
"""Tables of which the sweep forgets nothing, and those with a test of their own."""


def test_row_stays_by_its_last_moment(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    monkeypatch.setattr(retention, "STEP_ROWS", 1)
    swept = {model.__name__ for model, *_ in AGES}
    assert swept | ELSEWHERE == {model.__name__ for model in apps.get_app_config("events").get_models()}
    row(FailureKind, digest=b"k", fingerprint="x")
    for environment in ("dev", "test"):
        row(Agent, environment=environment, last_seen_us=micros(NOW))
    for model, days, columns in AGES:
        margin = timedelta(hours=3)  # a sum goes with the last minute of its span
        moments = [NOW - timedelta(days=days) + number * margin for number in (1, -1, -2)]
        with subtests.test(table=model.__name__), rolled_back():
            before = model._default_manager.count()
            for environment, shift_us in (("dev", 0), ("test", 1)):
                for moment in moments:
                    said = columns(micros(moment) + shift_us)
                    has_one = any(field.name == "environment" for field in model._meta.fields)
                    row(model, **said, **({"environment": environment} if has_one else {}))
            sweep_facts(NOW)
            assert model._default_manager.count() == before + 2


def test_what_was_swept_is_no_difference() -> None:
    keep("instance_heartbeat", 8)
    sweep_facts(NOW)
    folded, count = verification.refold()
    assert (count, list(verification.differences(folded, NOW))) == (0, [])


def tell_counted(number: int, calls: int, *, days_later: float) -> None:
    """An instance that counted calls at `NOW` says so, for the first time or again."""
    fact = CallsCounted(operation="pay", interval_s=10.0, calls=calls, attempts=calls, successes=calls)
    uid = str(UUID(int=1 << 100 | number))
    event = encode(Record(event=fact, uid=uid, sequence_number=number, at_ns=micros(NOW) * 1000))
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
