"""What is done about facts in the background. A task that is lost or runs twice changes nothing."""

from __future__ import annotations

import logging
import time

from celery import shared_task
from django.utils import timezone

from events.retention import sweep_facts

logger = logging.getLogger(__name__)

SWEEP_S = 60.0
"""A sweep ends after this long and leaves the rest to the next one."""


@shared_task(name="events.tasks.sweep")
def sweep() -> int:
    """Delete what is older than its time; return how many facts. Meant to run every hour."""
    end_at = time.monotonic() + SWEEP_S
    count = sweep_facts(timezone.now(), may_go_on=lambda: time.monotonic() < end_at)
    if count:
        logger.info("swept %d facts that were older than their time", count)
    return count
