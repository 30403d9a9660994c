"""The same small fleet by the real clock, for doors that ask it."""

from __future__ import annotations

from django.utils import timezone

from events.models import Agent
from tests.support.actions import small_fleet


def today_fleet(instances: int = 3) -> None:
    """Instances that were seen just now."""
    small_fleet(instances)
    seen_now()


def seen_now() -> None:
    """Everybody was seen just now."""
    now_us = int(timezone.now().timestamp() * 1e6)
    Agent.objects.update(last_seen_us=now_us, heartbeat_us=now_us)
