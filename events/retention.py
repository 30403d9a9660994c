"""How long what is kept: a table by kind of fact, and the sweep that obeys it in small steps."""

# ruff: noqa: S608  (tables are named by us; no value ever becomes part of a statement)

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from events import partitions
from events.models import (
    VIEWS,
    Agent,
    BreakerState,
    Degradation,
    MinuteSum,
    Quarantine,
    SettingsInForce,
    SpanMark,
    SpanSum,
)
from events.records import LOG
from recovery_ops.wire import names

USUAL = timedelta(days=90)
KEEP: dict[str, timedelta] = {
    # Superseded within seconds by the next of their kind, and already in the sums.
    "instance_heartbeat": timedelta(days=7),
    "calls_counted": timedelta(days=7),
    "wait_heartbeat": timedelta(days=7),
    # Few, and what a year is looked back on for.
    "breaker_state_changed": timedelta(days=400),
    "degradation_started": timedelta(days=400),
    "degradation_ended": timedelta(days=400),
    "escalated": timedelta(days=400),
    "desired_state_applied": timedelta(days=400),
    "desired_state_rejected": timedelta(days=400),
}
"""Kinds of facts that are not kept for the usual time."""
KEEP_SUMS = timedelta(days=400)
KEEP_BREAKERS = timedelta(days=100)
"""Breakers of instances that have been gone for so long are no longer drawn, not even into the past."""
KEEP_AGENTS = timedelta(days=401)
"""Longer than any fact of theirs."""
KEEP_QUARANTINE = timedelta(days=30)
KEEP_MARKS = timedelta(days=1)
"""How much later than its child a span may come and not be taken for a failure of its own."""
SHORTEST = min(*KEEP.values(), USUAL)
STEP_ROWS = 2000
"""Rows deleted in one transaction: some milliseconds, so that the facts coming in never wait long."""
_MINUTE_US = 60_000_000


def micros(moment: datetime) -> int:
    """Whole microseconds since the epoch."""
    return int(moment.timestamp() * 1_000_000)


def sweep_facts(now: datetime, *, may_go_on: Callable[[], bool] = lambda: True) -> int:
    """Delete facts, sums, quarantine and agents that are older than their time; return how many facts.

    A fact that came late is kept for its whole time after its receipt. Asks `may_go_on` between steps; what is left is
    for the next sweep. Whole days of PostgreSQL are dropped and not counted.
    """
    partitions.make_ahead(now.date())
    _drop_days(now, may_go_on)
    swept = 0
    environments = list(Agent.objects.values_list("environment", flat=True).distinct().order_by())
    for environment in environments:
        for event in (*(one.name for one in names.EVENTS.values()), LOG):
            before_us = micros(now - KEEP.get(event, USUAL))
            for table in partitions.tables_before(before_us):
                swept += _delete_facts(table, (environment, event, before_us, before_us), may_go_on)
    partitions.forget_ids(micros(now - USUAL), STEP_ROWS, may_go_on)
    for old in _old_sums(environments, micros(now - KEEP_SUMS) // _MINUTE_US):
        _delete(old, may_go_on)
    _delete(Quarantine.objects.filter(received_us__lt=micros(now - KEEP_QUARANTINE)), may_go_on)
    _delete(SpanMark.objects.filter(seen_us__lt=micros(now - KEEP_MARKS)), may_go_on)
    _forget_agents(now, may_go_on)
    return swept


def _drop_days(now: datetime, may_go_on: Callable[[], bool]) -> None:
    """Let go of whole days, but for what is kept for longer."""
    if not partitions.is_partitioned():
        return
    longer = [event for event, length in KEEP.items() if length > USUAL]
    before_us = micros(now - USUAL)
    for day in partitions.days():
        if day.end_us <= before_us and may_go_on():
            partitions.drop(day, longer, before_us)


def _delete_facts(table: str, values: tuple[Any, ...], may_go_on: Callable[[], bool]) -> int:
    """Delete in steps; `values`: environment, event, and before when it has to have happened and been received."""
    if not partitions.is_partitioned():
        return _delete_looked_up(values, may_go_on)
    old = f"SELECT ctid FROM {table} WHERE environment = %s AND event = %s AND at_us < %s AND received_us < %s LIMIT %s"
    swept, count = 0, STEP_ROWS
    while count == STEP_ROWS and may_go_on():
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE ctid = ANY(ARRAY({old}))", [*values, STEP_ROWS])
            count = cursor.rowcount
        swept += count
    return swept


def _delete_looked_up(values: tuple[Any, ...], may_go_on: Callable[[], bool]) -> int:
    """The same for SQLite, where nothing comes in while rows are deleted: they are looked up before, not meanwhile.

    What came late is passed by once, instead of at every step: a backfill may be millions of rows that stay.
    """
    listed = (
        "SELECT at_us, id, received_us FROM events_fact WHERE environment = %s AND event = %s AND at_us < %s"
        " AND (at_us, id) > (%s, %s) ORDER BY at_us, id LIMIT %s"
    )
    *whose, before_us, received_before_us = values
    swept, count, last = 0, STEP_ROWS, (-1, -1)
    while count == STEP_ROWS and may_go_on():
        with connection.cursor() as cursor:
            cursor.execute(listed, [*whose, before_us, *last, STEP_ROWS])
            rows = cursor.fetchall()
            old = [pk for _, pk, received_us in rows if received_us < received_before_us]
            if old:
                cursor.execute(f"DELETE FROM events_fact WHERE id IN ({', '.join(['%s'] * len(old))})", old)
        count, swept = len(rows), swept + len(old)
        last = rows[-1][:2] if rows else last
    return swept


def _old_sums(environments: list[str], before_minute: int) -> list[QuerySet[Any]]:
    """The sums of before this minute, in questions that their unique indexes answer."""
    found: list[QuerySet[Any]] = []
    for environment in environments:
        found.append(MinuteSum.objects.filter(environment=environment, minute__lt=before_minute))
        for view, widths in VIEWS.items():
            for width in widths:
                spans = SpanSum.objects.filter(environment=environment, view=view, minutes=width)
                found.append(spans.filter(span__lt=before_minute // width))
    return found


def _delete(old: QuerySet[Any], may_go_on: Callable[[], bool]) -> None:
    """Delete in steps, without the questions that Django would ask about every row's relations."""
    table = old.model._meta.db_table
    count = STEP_ROWS
    while count == STEP_ROWS and may_go_on():
        ids = list(old.values_list("pk", flat=True)[:STEP_ROWS])
        count = len(ids)
        if ids:
            with connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM {table} WHERE id IN ({', '.join(['%s'] * count)})", ids)


def _forget_agents(now: datetime, may_go_on: Callable[[], bool]) -> None:
    """Forget who has been gone for long, and what was folded of them."""
    _delete(BreakerState.objects.filter(agent__last_seen_us__lt=micros(now - KEEP_BREAKERS)), may_go_on)
    _delete(SettingsInForce.objects.filter(agent__last_seen_us__lt=micros(now - KEEP_BREAKERS)), may_go_on)
    _delete(Degradation.objects.filter(agent__last_seen_us__lt=micros(now - KEEP_AGENTS)), may_go_on)
    _delete(Agent.objects.filter(last_seen_us__lt=micros(now - KEEP_AGENTS)), may_go_on)
