"""The tasks of the schedule, and whether each runs in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from recovery_ops.control.core.models.heartbeats import Beat

LATE_FACTOR = 3
"""A task that was not heard of for this many of its intervals is late."""
LEAST_LATE_S = 60.0
OK, LATE, FAILED, UNKNOWN = "ok", "late", "failed", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """One task of the schedule."""

    name: str
    every_s: float
    standing: str
    beat: Beat | None


def beats_by_name() -> dict[str, Beat]:
    """Every sign of life that was written down. One query."""
    return {beat.name: beat for beat in Beat.objects.all()}


def duties_of(beats: Mapping[str, Beat], now: datetime) -> list[Duty]:
    """Every task of the schedule, by what is known of it."""
    return [_duty(name, one, beats, now) for name, one in settings.CELERY_BEAT_SCHEDULE.items()]


def _duty(name: str, scheduled: Mapping[str, object], beats: Mapping[str, Beat], now: datetime) -> Duty:
    every = scheduled["schedule"]
    every_s = every.total_seconds() if isinstance(every, timedelta) else float(str(every))
    beat = beats.get(str(scheduled["task"]))
    if beat is None:
        standing = UNKNOWN
    elif beat.failed_at is not None and beat.failed_at >= beat.at:
        standing = FAILED
    else:
        is_late = (now - beat.at).total_seconds() > max(LEAST_LATE_S, LATE_FACTOR * every_s)
        standing = LATE if is_late else OK
    return Duty(name=name, every_s=every_s, standing=standing, beat=beat)
