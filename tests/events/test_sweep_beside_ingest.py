"""A sweep keeps nobody out: between any two of its steps facts are stored, and no step is a large one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from events.derived.open_parents import OpenParent
from events.ingest import cardinality
from events.ingest.cardinality import give_way
from events.models import Agent, Fact, KnownName, MinuteSum, Quarantine, SpanMark
from events.store import retention
from events.store.retention import micros, sweep_facts
from tests.support.otlp import Door, record, request

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


def make_old(rows: int = OLD) -> None:
    """A month and more of everything that the sweep takes."""
    long_ago = timezone.now() - timedelta(days=500)
    at_us = micros(long_ago)
    agent = Agent.objects.create(environment="dev", service="s", instance="i", first_seen_us=1, last_seen_us=at_us)
    old = range(rows)
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
    OpenParent.objects.bulk_create(OpenParent(key=number, whole_ns=1, seen_us=at_us) for number in old)
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
    swept = ("fact", "minutesum", "quarantine", "spanmark", "openparent", "knownname")
    for table in (f"events_{name}" for name in swept):
        assert [count for name, count in deleted if name == table] == [STEP, STEP, STEP, OLD % STEP], table
    assert max(count for _, count in deleted) == STEP
    assert set(answers) == {200}
    assert len(answers) >= 5 * 3
    assert Fact.objects.filter(event="failure_classified").count() == len(answers)


def test_a_step_is_as_large_as_is_deleted_in_time(store: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two rows are deleted in a millisecond, no step takes longer than it may."""
    monkeypatch.setattr(retention, "LEAST_ROWS", 10)
    make_old(400)
    steps: list[tuple[str, int]] = []
    now_s = 0.0

    def slow(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        nonlocal now_s
        result = execute(sql, params, many, context)
        if sql.startswith("DELETE"):
            rows = context["cursor"].rowcount
            steps.append((sql.split()[2].strip('"'), rows))
            now_s += rows / 2000
        return result

    with connection.execute_wrapper(slow):
        sweep_facts(timezone.now(), clock=lambda: now_s)
    for table in ("events_fact", "events_minutesum", "events_quarantine"):
        assert [rows for name, rows in steps if name == table] == [10, 20, 40, 80, 80, 80, 80, 10], table
    assert max(rows for _, rows in steps) / 2000 < retention.STEP_S


def test_a_step_that_took_too_long_is_halved(store: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LEAST_ROWS", 64)
    make_old(127)
    steps: list[int] = []
    ticks = itertools.count()

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("DELETE FROM events_fact"):
            steps.append(context["cursor"].rowcount)
        return result

    with connection.execute_wrapper(note):
        sweep_facts(timezone.now(), clock=lambda: float(next(ticks)))
    assert steps == [64, 32, 16, 8, 4, 2, 1]


def test_names_give_way_no_further_than_there_is_time(store: None, deleted: list[tuple[str, int]]) -> None:
    make_old()
    now_us = micros(timezone.now())
    assert give_way(now_us, may_go_on=lambda: False) == STEP
    assert give_way(now_us) == OLD - STEP
    assert not KnownName.objects.exists()
