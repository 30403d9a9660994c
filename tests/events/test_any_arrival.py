"""One history, in whatever order, pieces and repetitions it arrives: every folded table ends the same.

Through the door that agents use, with all that is summed up later from what came in: states, degradations and sums, and
the capacity events and days of recoveries that are made of them. One clock is a day
behind; one that runs ahead is dated to its receipt, so its place depends on that (see `test_fold`).
"""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from events.capacity.detection import look_back
from events.capacity.models import CapacityEvent, CapacityLook
from events.capacity.reach import read_reach
from events.derived.traces import settle
from events.ingest.cardinality import known_names
from events.models import KnownName, Tally
from events.otlp import reading, receiver
from events.otlp.sent import Encoding, Signal
from events.projections import verification
from events.recoveries.models import RecoveryDay
from events.recoveries.summing import sum_days
from events.store.writes import store_facts
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Category, RunStatus, State, Trigger
from tests.support import folds as fold
from tests.support.otlp import Door, attributes, request

NOW, NOW_US, Told = fold.NOW, fold.NOW_US, fold.Told
DAY_S = 86_400.0
Record = tuple[str, dict[str, Any]]
"""Which instance says it, and the record as OTLP/JSON writes it."""


def history() -> list[Record]:
    """An outage that four runs on two instances meet; its breakers and stand-ins; a clock a day behind."""
    told = [Told("a-1"), Told("a-2")]
    for number in range(12):
        who, run = told[number % 2], f"run-{number % 4}"
        overloaded = fold.failure(Category.OVERLOADED, provider="acme", model="large", status_code=529)
        who.tell(overloaded, 600 - 3 * number, run=run)
    for number in range(4):
        status = RunStatus.SUCCEEDED if number else RunStatus.FAILED
        ended = facts.RunFinished(status=status, duration_s=20.0 + number, cost_usd=0.5)
        told[number % 2].tell(ended, 500 - number, run=f"run-{number}")
    told[0].tell(fold.move(State.OPEN), 590).tell(fold.move(State.HALF_OPEN, trigger=Trigger.WAIT_ELAPSED), 530)
    told[0].tell(fold.move(State.CLOSED, trigger=Trigger.PROBE_SUCCEEDED), 520)
    told[0].tell(fold.started(to_name="cache"), 588).tell(fold.ended(70.0, calls=3), 518)
    told[0].tell(fold.heartbeat(3), 30).tell(facts.DesiredStateApplied(revision=3, config_hash="x"), 40)
    counted = facts.CallsCounted(operation="search", interval_s=10, calls=9, attempts=12, successes=4)
    told[1].tell(counted, 550).tell(fold.failure(), DAY_S + 600, run="run-9")  # an outbox, or a clock, a day behind
    return [(instance, _written(sent)) for one in told for instance, sent in one.records]


def _written(sent: Any) -> dict[str, Any]:
    return {
        "timeUnixNano": str(sent.time_ns),
        "severityNumber": sent.severity,
        "eventName": sent.event_name,
        "attributes": attributes(sent.attributes),
    }


def requests_of(records: list[Record]) -> list[dict[str, Any]]:
    """One request for each instance."""
    found = []
    for instance in sorted({instance for instance, _ in records}):
        mine = [record for whose, record in records if whose == instance]
        found.append(request(*mine, resource={"service.name": "billing", "service.instance.id": instance}))
    return found


def clear() -> None:
    CapacityEvent.objects.update(merged_into=None, part_of=None)
    for model in (CapacityEvent, CapacityLook, RecoveryDay, Tally, KnownName):
        model.objects.all().delete()
    fold.clear()
    known_names.forget()


def sum_up() -> None:
    """What the worker does every few seconds."""
    look_back("dev", NOW)
    read_reach("dev", NOW + timedelta(hours=1))
    sum_days("dev", NOW, most=9)


def tables() -> dict[str, Any]:
    """Every table that is made of facts, without the numbers and moments of its own making."""
    events = CapacityEvent.objects.filter(merged_into=None)
    own = ("id", "merged_into", "part_of", "read_us")
    return {
        **verification.stored_tables(0),
        "capacity": sorted(map(str, events.values(*_columns(CapacityEvent, *own)))),
        "days": sorted(map(str, RecoveryDay.objects.values(*_columns(RecoveryDay, "id", "read_us")))),
        "tallies": sorted(Tally.objects.values_list("environment", "name", "count")),
        "names": sorted(KnownName.objects.values_list("environment", "kind", "name")),
    }


def _columns(model: Any, *but: str) -> list[str]:
    return [field.name for field in model._meta.fields if field.name not in but]


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[int]]:
    """Places in the history, shuffled, some of them again, in batches."""
    count = len(history())
    arriving = draw(st.permutations(range(count))) + draw(st.lists(st.integers(0, count - 1), max_size=8))
    cuts = sorted(draw(st.lists(st.integers(0, len(arriving)), max_size=4)))
    return [arriving[start:end] for start, end in pairwise([0, *cuts, len(arriving)])]


def check(expected: dict[str, Any]) -> None:
    found = tables()
    assert {name for name in expected if found[name] != expected[name]} == set()
    fold.check()


def test_the_history_is_one_outage_that_runs_recovered_from(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "time", SimpleNamespace(time_ns=lambda: NOW_US * 1000))
    for body in requests_of(history()):
        assert door.post(json=body).json() == {}
    sum_up()
    event = CapacityEvent.objects.get()
    assert (event.provider, event.failures, event.runs, event.instances) == ("acme", 12, 4, 2)
    day = RecoveryDay.objects.get(day=int(NOW.timestamp() // DAY_S))
    assert (day.runs, day.alone, day.lost) == (4, 3, 1)


@settings(
    max_examples=5, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=arrivals())
def test_any_arrival_through_the_door_ends_in_the_same_tables(
    door: Door, monkeypatch: pytest.MonkeyPatch, drawn: list[list[int]]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(receiver, "time", SimpleNamespace(time_ns=lambda: NOW_US * 1000))
        clear()
        for body in requests_of(history()):
            assert door.post(json=body).status_code == 200
        sum_up()
        expected = tables()
        clear()
        told = history()
        for batch in drawn:
            for body in requests_of([told[place] for place in batch]):
                assert door.post(json=body).status_code == 200
            sum_up()
    check(expected)


@settings(
    max_examples=5, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drawn=arrivals())
def test_any_arrival_ends_in_the_same_tables_on_each_engine(engine: str, drawn: list[list[int]]) -> None:
    clear()
    deliver(history())
    sum_up()
    expected = tables()
    clear()
    told = history()
    for batch in drawn:
        deliver([told[place] for place in batch])
        sum_up()
    expected["names"] = tables()["names"]  # the door's process admits names, not this one
    check(expected)


def deliver(records: list[Record]) -> None:
    """The same requests, without the door, whose thread knows one engine only."""
    for body in requests_of(records):
        written = json.dumps(body).encode()
        intake = reading.read_request(Signal.LOGS, Encoding.JSON, written, environment="dev", received_us=NOW_US)
        with transaction.atomic():
            store_facts(*settle([intake]))
