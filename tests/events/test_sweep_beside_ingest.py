"""A sweep keeps nobody out: between any two of its steps facts are stored, and no step is a large one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from events import cardinality, retention
from events.cardinality import give_way
from events.models import Agent, Fact, KnownName, MinuteSum, Quarantine, SpanMark
from events.retention import micros, sweep_facts
from tests.events.posting import Door, record, request

STEP = 10
OLD = 35
"""Rows of each table that have to go: three whole steps and a part."""


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Small steps; and of each statement that deletes, the table and how many rows it took."""
    monkeypatch.setattr(retention, "STEP_ROWS", STEP)
    monkeypatch.setattr(cardinality, "STEP_NAMES", STEP)
    return []


def noting(deleted: list[tuple[str, int]]) -> Callable[..., Any]:
    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("DELETE"):
            deleted.append((sql.split()[2].strip('"'), context["cursor"].rowcount))
        return result

    return note


def make_old() -> None:
    """A month and more of everything that the sweep takes."""
    long_ago = timezone.now() - timedelta(days=500)
    at_us = micros(long_ago)
    agent = Agent.objects.create(environment="dev", service="s", instance="i", first_seen_us=1, last_seen_us=at_us)
    old = range(OLD)
    Fact.objects.bulk_create(
        Fact(
            environment="dev",
            uid=number.to_bytes(16, "big"),
            agent=agent,
            event="instance_heartbeat",
            at_us=at_us,
            received_us=at_us,
        )
        for number in old
    )
    MinuteSum.objects.bulk_create(MinuteSum(environment="dev", minute=number) for number in old)
    Quarantine.objects.bulk_create(Quarantine(environment="dev", received_us=at_us, size_bytes=1) for _ in old)
    SpanMark.objects.bulk_create(
        SpanMark(environment="dev", seen_us=at_us, trace_id=f"{number:032x}") for number in old
    )
    day = at_us // 86_400_000_000
    KnownName.objects.bulk_create(
        KnownName(environment="dev", kind="operation", name=f"old-{number}", seen_day=day) for number in old
    )


def test_facts_are_stored_between_any_two_steps_and_every_step_is_bounded(
    door: Door, deleted: list[tuple[str, int]]
) -> None:
    make_old()
    answers = []

    def may_go_on() -> bool:
        assert not connection.in_atomic_block
        answers.append(door.post(json=request(record())).status_code)
        return True

    now = timezone.now()
    with connection.execute_wrapper(noting(deleted)):
        assert sweep_facts(now, may_go_on=may_go_on) == OLD
        assert give_way(micros(now), may_go_on=may_go_on) == OLD
    for table in ("events_fact", "events_minutesum", "events_quarantine", "events_spanmark", "events_knownname"):
        assert [count for name, count in deleted if name == table] == [STEP, STEP, STEP, OLD % STEP], table
    assert max(count for _, count in deleted) == STEP
    assert set(answers) == {200}
    assert len(answers) >= 5 * 3
    assert Fact.objects.filter(event="failure_classified").count() == len(answers)


def test_names_give_way_no_further_than_there_is_time(store: None, deleted: list[tuple[str, int]]) -> None:
    make_old()
    now_us = micros(timezone.now())
    assert give_way(now_us, may_go_on=lambda: False) == STEP
    assert give_way(now_us) == OLD - STEP
    assert not KnownName.objects.exists()
