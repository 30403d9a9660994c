"""The lock of a look: of two workers that look at one environment, one does, and the other looks after it."""

from __future__ import annotations

from datetime import datetime

from django.db.models import F

from recovery_ops.control.notifications.models.notifications import NotifyLook


def look_lock(environment: str, now: datetime) -> None:
    """Hold the environment's look until the transaction ends."""
    looks = NotifyLook.objects.filter(environment=environment)
    if not looks.update(at=now):
        NotifyLook.objects.bulk_create([NotifyLook(environment=environment, at=now)], ignore_conflicts=True)
        looks.update(at=F("at"))
