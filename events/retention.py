"""How long what is kept: a table by kind of fact, and the sweep that obeys it in small steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import connection

from events.models import Agent, MinuteSum, Quarantine
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
KEEP_QUARANTINE = timedelta(days=30)
SHORTEST = min(*KEEP.values(), USUAL)
STEP_ROWS = 5000
"""Rows deleted in one transaction: a few milliseconds, so that the facts coming in never wait long."""

_DELETE = """
    DELETE FROM events_fact WHERE id IN (
        SELECT id FROM events_fact
        WHERE environment = %s AND event = %s AND at_us < %s AND received_us < %s LIMIT %s
    )
"""


def micros(moment: datetime) -> int:
    """Whole microseconds since the epoch."""
    return int(moment.timestamp() * 1_000_000)


def sweep_facts(now: datetime, *, may_go_on: Callable[[], bool] = lambda: True) -> int:
    """Delete facts, sums and quarantine that are older than their time; return how many facts.

    A fact that came late is kept for its whole time after its receipt. Asks `may_go_on` between steps; what is left is
    for the next sweep.
    """
    swept = 0
    for environment in Agent.objects.values_list("environment", flat=True).distinct().order_by():
        for event in (*(one.name for one in names.EVENTS.values()), LOG):
            before_us = micros(now - KEEP.get(event, USUAL))
            while may_go_on():
                with connection.cursor() as cursor:
                    cursor.execute(_DELETE, [environment, event, before_us, before_us, STEP_ROWS])
                    count = cursor.rowcount
                swept += count
                if count < STEP_ROWS:
                    break
    MinuteSum.objects.filter(minute__lt=micros(now - KEEP_SUMS) // 60_000_000).delete()
    Quarantine.objects.filter(received_us__lt=micros(now - KEEP_QUARANTINE)).delete()
    return swept
