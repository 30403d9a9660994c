"""What the worker does for intent: it only looks. What is due stands in tables: a lost or doubled task is harmless."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from recovery_ops.control.actions import end_expired
from recovery_ops.control.models import Override


@shared_task
def end_expired_overrides() -> int:
    """Note which overrides have ended by their time; return how many."""
    now = timezone.now()
    due = Override.objects.filter(ended_at=None, expires_at__lte=now).values_list("environment", flat=True)
    return sum(len(end_expired(environment, now=now)) for environment in sorted(set(due)))
