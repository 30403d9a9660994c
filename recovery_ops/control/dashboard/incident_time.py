"""How long at least one incident was ongoing: incidents that overlap count once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from events.capacity.rows import CapacityEventRow


def incident_time(incidents: Iterable[CapacityEventRow], now: datetime) -> timedelta:
    """Time with at least one ongoing incident, up to `now`."""
    return covered((one.started, one.started + one.lasted(now)) for one in incidents)


def covered(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    """The length of the union of spans of start and end."""
    total, until = timedelta(), datetime.min.replace(tzinfo=UTC)
    for start, end in sorted(spans):
        total += max(timedelta(), end - max(start, until))
        until = max(until, end)
    return total
