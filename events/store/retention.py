"""How long what is kept: a table by kind of fact, and the sweep that obeys it in small steps."""

# ruff: noqa: S608  (tables are named by us; no value ever becomes part of a statement)

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from events.deployments.models import ServiceVersion
from events.derived import open_parents
from events.derived.open_parents import OpenParent
from events.ingest.records import LOG
from events.issues.kinds import delete_unused_kinds
from events.issues.models import FAILURE_MINUTES, FailureKind, FailureSum, InstanceFailureSum
from events.models import (
    LANE_MINUTES,
    Agent,
    BreakerState,
    Degradation,
    InstanceMoves,
    MinuteSum,
    Quarantine,
    SettingsInForce,
    SpanMark,
    SpanSum,
)
from events.projections import recounting
from events.projections.sum_views import VIEWS
from events.runs.models import Run, RunFailure
from events.store import partitions
from recovery_ops.wire import names

USUAL = timedelta(days=90)
KEEP: dict[str, timedelta] = {
    # Superseded within seconds by the next of their kind, and already in the sums.
    "instance_heartbeat": timedelta(days=7),
    recounting.COUNTED: recounting.KEEP_COUNTED,
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
"""How much later than its child a span may come and not be taken for a failure of its own; or for none of its own."""
SHORTEST = min(*KEEP.values(), USUAL)
STEP_ROWS = 2000
"""The most rows deleted in one transaction …"""
LEAST_ROWS = 100
"""… and how many the first one of a table takes, so that a slow disk is known before much is asked of it."""
LOOKS_MOST = 50
"""Steps in a row that delete nothing, after which is asked whether there is time for more."""
STEP_S = 0.05
"""A transaction that took longer is followed by one of half as many rows: facts coming in wait for one at most."""
_MINUTE_US = 60_000_000


class _Pace:
    """How many rows the next step of a table takes: as many as are deleted in time, by the steps before it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.rows = min(LEAST_ROWS, STEP_ROWS)

    @contextmanager
    def step(self) -> Iterator[int]:
        """One transaction of so many rows."""
        rows, began_s = self.rows, self._clock()
        yield rows
        took_s = self._clock() - began_s
        if took_s > STEP_S:
            self.rows = max(1, rows // 2)
        elif took_s < STEP_S / 2:
            self.rows = min(STEP_ROWS, rows * 2)


@dataclass(slots=True)
class _Sweep:
    """One sweep: `ask` says whether it may go on, and lets others have the lock meanwhile. `clock` is in seconds.

    Most tables hold nothing that is old, and looking keeps nobody out: a pause after each look would keep a thread of
    the worker busy for as long as there are kinds of failures.
    """

    ask: Callable[[], bool]
    clock: Callable[[], float]
    _looks: int = 0
    _has_deleted: bool = False
    _is_over: bool = False

    def may_go_on(self) -> bool:
        """Whether another step may be made: asked after each that deleted something, and after so many that did not."""
        if self._has_deleted or self._looks == LOOKS_MOST:
            self._is_over = self._is_over or not self.ask()
            self._looks, self._has_deleted = 0, False
        self._looks += 1
        return not self._is_over

    def note(self, deleted: int) -> None:
        """Note how many rows a step has deleted."""
        self._has_deleted |= deleted > 0


def micros(moment: datetime) -> int:
    """Whole microseconds since the epoch."""
    return int(moment.timestamp() * 1_000_000)


def sweep_facts(
    now: datetime, *, may_go_on: Callable[[], bool] = lambda: True, clock: Callable[[], float] = time.monotonic
) -> int:
    """Delete facts, sums, quarantine and agents that are older than their time; return how many facts.

    A fact that came late is kept for its whole time after its receipt. Asks `may_go_on` after each step that deleted
    something, and now and then; what is left is for the next sweep. Whole days of PostgreSQL are dropped, not counted.
    """
    sweep = _Sweep(may_go_on, clock)
    partitions.make_ahead(now.date())
    _drop_days(now, may_go_on)
    swept = 0
    environments = list(Agent.objects.values_list("environment", flat=True).distinct().order_by())
    for environment in environments:
        for event in (*(one.name for one in names.EVENTS.values()), LOG):
            before_us = micros(now - KEEP.get(event, USUAL))
            for table in partitions.tables_before(before_us):
                swept += _delete_facts(table, (environment, event, before_us, before_us), sweep)
    for forget in (partitions.forget_ids, recounting.forget):
        forget(micros(now - USUAL), STEP_ROWS, may_go_on)
    for environment in environments:
        _delete(Run.objects.filter(environment=environment, last_us__lt=micros(now - USUAL)), sweep)
    for kind in FailureKind.objects.values_list("digest", flat=True):
        _delete(RunFailure.objects.filter(kind=kind, last_us__lt=micros(now - USUAL)), sweep)
    for old in _old_sums(environments, micros(now - KEEP_SUMS) // _MINUTE_US):
        _delete(old, sweep)
    before_minute = micros(now - USUAL) // _MINUTE_US
    for old in _old_failure_sums(environments, before_minute):
        _delete(old, sweep)
    for environment in environments:
        _delete_kinds(environment, before_minute, sweep)
    _delete(Quarantine.objects.filter(received_us__lt=micros(now - KEEP_QUARANTINE)), sweep)
    before_us = micros(now - KEEP_MARKS)
    _forget_spans(SpanMark, before_us, sweep)
    _forget_spans(OpenParent, max(before_us, open_parents.since_us()), sweep)
    _forget_agents(now, sweep)
    return swept


def _drop_days(now: datetime, may_go_on: Callable[[], bool]) -> None:
    """Let go of whole days, but for what is kept for longer."""
    if not partitions.is_partitioned():
        return
    longer = [event for event, length in KEEP.items() if length > USUAL]
    before_us = micros(now - USUAL)
    for day in (*partitions.detached(), *(day for day in partitions.days() if day.end_us <= before_us)):
        if may_go_on():
            partitions.drop(day, longer, before_us)


def _delete_facts(table: str, values: tuple[Any, ...], sweep: _Sweep) -> int:
    """Delete in steps; `values`: environment, event, and before when it has to have happened and been received."""
    if not partitions.is_partitioned():
        return _delete_looked_up(values, sweep)
    old = f"SELECT ctid FROM {table} WHERE environment = %s AND event = %s AND at_us < %s AND received_us < %s LIMIT %s"
    swept, pace = 0, _Pace(sweep.clock)
    count = wanted = 0
    while count == wanted and sweep.may_go_on():
        with pace.step() as wanted, connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE ctid = ANY(ARRAY({old}))", [*values, wanted])
            count = cursor.rowcount
        sweep.note(count)
        swept += count
    return swept


def _delete_looked_up(values: tuple[Any, ...], sweep: _Sweep) -> int:
    """The same for SQLite, where nothing comes in while rows are deleted: they are looked up before, not meanwhile.

    What came late is passed by once, instead of at every step: a backfill may be millions of rows that stay.
    """
    listed = (
        "SELECT at_us, id, received_us FROM events_fact WHERE environment = %s AND event = %s AND at_us < %s"
        " AND (at_us, id) > (%s, %s) ORDER BY at_us, id LIMIT %s"
    )
    *whose, before_us, received_before_us = values
    swept, last, pace = 0, (-1, -1), _Pace(sweep.clock)
    count = wanted = 0
    while count == wanted and sweep.may_go_on():
        with connection.cursor() as cursor:
            cursor.execute(listed, [*whose, before_us, *last, wanted := pace.rows])
            rows = cursor.fetchall()
            old = [pk for _, pk, received_us in rows if received_us < received_before_us]
            if old:
                with pace.step(), transaction.atomic():
                    if whose[1] == recounting.COUNTED:
                        recounting.note(cursor, old)
                    cursor.execute(f"DELETE FROM events_fact WHERE id IN ({', '.join(['%s'] * len(old))})", old)
        sweep.note(len(old))
        count, swept = len(rows), swept + len(old)
        last = rows[-1][:2] if rows else last
    return swept


def _old_sums(environments: list[str], before_minute: int) -> list[QuerySet[Any]]:
    """The sums of before this minute, in questions that their indexes answer."""
    found: list[QuerySet[Any]] = []
    for environment in environments:
        found.append(MinuteSum.objects.filter(environment=environment, minute__lt=before_minute))
        for view, widths in VIEWS.items():
            for width in widths:
                spans = SpanSum.objects.filter(environment=environment, view=view, minutes=width)
                found.append(spans.filter(span__lt=before_minute // width))
    lanes = InstanceMoves.objects.all()
    return [*found, *(lanes.filter(minutes=width, span__lt=before_minute // width) for width in LANE_MINUTES)]


def _old_failure_sums(environments: list[str], before_minute: int) -> list[QuerySet[Any]]:
    """The sums of failures that are gone."""
    return [
        table.objects.filter(environment=environment, minutes=width, span__lt=before_minute // width)
        for environment in environments
        for table in (FailureSum, InstanceFailureSum)
        for width in FAILURE_MINUTES
    ]


def _delete(old: QuerySet[Any], sweep: _Sweep) -> None:
    """Delete in steps, without the questions that Django would ask about every row's relations."""
    table, pace = old.model._meta.db_table, _Pace(sweep.clock)
    count = wanted = 0
    while count == wanted and sweep.may_go_on():
        ids = list(old.values_list("pk", flat=True)[: (wanted := pace.rows)])
        count = len(ids)
        if ids:
            with pace.step(), connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM {table} WHERE id IN ({', '.join(['%s'] * count)})", ids)
        sweep.note(count)


def _delete_kinds(environment: str, before_minute: int, sweep: _Sweep) -> None:
    """Delete kinds of failures that nothing counts any more."""
    deleting = delete_unused_kinds(environment, before_minute, LEAST_ROWS)
    while sweep.may_go_on() and (deleted := next(deleting, None)) is not None:
        sweep.note(deleted)


def _forget_spans(what: type[SpanMark | OpenParent], before_us: int, sweep: _Sweep) -> None:
    """Forget what was not told of since then.

    Requests tell of these again at any moment: a row that one of them has just written is passed over, and none is
    deleted that was told of after it was found to be old.
    """
    table, key = what._meta.db_table, what._meta.pk.column
    passing = " FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else ""
    old = f"SELECT {key} FROM {table} WHERE seen_us < %s LIMIT %s{passing}"
    pace, count, wanted = _Pace(sweep.clock), 0, 0
    while count == wanted and sweep.may_go_on():
        with pace.step() as wanted, connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE {key} IN ({old})", [before_us, wanted])
            count = cursor.rowcount
        sweep.note(count)


def _forget_agents(now: datetime, sweep: _Sweep) -> None:
    """Forget who has been gone for long, and what was folded of them."""
    _delete(BreakerState.objects.filter(agent__last_seen_us__lt=micros(now - KEEP_BREAKERS)), sweep)
    _delete(SettingsInForce.objects.filter(agent__last_seen_us__lt=micros(now - KEEP_BREAKERS)), sweep)
    _delete(Degradation.objects.filter(agent__last_seen_us__lt=micros(now - KEEP_AGENTS)), sweep)
    _delete(ServiceVersion.objects.filter(last_us__lt=micros(now - KEEP_AGENTS)), sweep)
    _delete(Agent.objects.filter(last_seen_us__lt=micros(now - KEEP_AGENTS)), sweep)
