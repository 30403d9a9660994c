"""What is done about facts in the background. A task that is lost or runs twice changes nothing."""

from __future__ import annotations

import logging
import threading
import time

from celery import shared_task
from django.utils import timezone

from events.capacity.detection import look, look_back
from events.capacity.following import follow_runs
from events.capacity.reach import read_reach
from events.ingest.cardinality import give_way
from events.models import Agent
from events.store.retention import sweep_facts

logger = logging.getLogger(__name__)

SWEEP_S = 60.0
"""A sweep ends after this long and leaves the rest to the next one."""
NOTES_S = 30.0
"""Likewise of noting the days of runs."""
PAUSE_S = 0.03
"""Between steps the lock is free for so long. SQLite's waiters do not queue: at first they nap for up to 25 ms before
they look again, later for longer, and in a shorter pause they would hardly ever get it."""


_sweeping = threading.Lock()


@shared_task(name="events.tasks.sweep")
def sweep() -> int:
    """Delete what is older than its time; return how many facts. Meant to run every hour.

    One at a time in a process: a clock that is set ahead makes the next one due at once, and two would keep both
    threads of the worker from everything else.
    """
    if not _sweeping.acquire(blocking=False):
        return 0
    try:
        return _sweep()
    finally:
        _sweeping.release()


def _sweep() -> int:
    end_at = time.monotonic() + SWEEP_S
    now = timezone.now()

    def may_go_on() -> bool:
        time.sleep(PAUSE_S)
        return time.monotonic() < end_at

    count = sweep_facts(now, may_go_on=may_go_on)
    give_way(int(now.timestamp() * 1_000_000), may_go_on=may_go_on)
    if count:
        logger.info("swept %d facts that were older than their time", count)
    return count


@shared_task(name="events.tasks.look_for_outages")
def look_for_outages() -> int:
    """Find capacity events in the last minutes; return how many began or grew. Meant to run every few seconds."""
    now = timezone.now()
    grown = 0
    for environment in _environments():
        grown += look(environment, now)
        read_reach(environment, now)
        follow_runs(environment, now)
    return grown


@shared_task(name="events.tasks.look_back_for_outages")
def look_back_for_outages() -> int:
    """Find capacity events in facts that came late; return how many began or grew. Meant to run every few minutes."""
    now = timezone.now()
    return sum(look_back(environment, now) for environment in _environments())


def _environments() -> list[str]:
    return list(Agent.objects.order_by("environment").values_list("environment", flat=True).distinct())
