"""Notices of one provider's trouble that are held back for a time, by whom, until when, and why."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field


class NoticeSnoozeQuerySet(models.QuerySet["NoticeSnooze"]):
    """Questions about notices that are held back."""

    def in_force(self, environment: str, now: datetime) -> Self:
        """Those that hold at this moment, the one that ends first in front."""
        return self.holding(now).filter(environment=environment).order_by("expires_at", "pk")

    def holding(self, now: datetime) -> Self:
        """The same, wherever they are."""
        return self.filter(ended_at=None, started_at__lte=now, expires_at__gt=now)


class NoticeSnooze(models.Model):
    """Rules tell nothing of a provider until `expires_at`, but the end of what they told; then what was held back.

    One that has ended by its time has no `ended_at`: that is when somebody lifted it, or another took its place.
    """

    environment = environment_field()
    provider = name_field()
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    started_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = name_field()

    objects = NoticeSnoozeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "provider"], condition=Q(ended_at=None), name="notice_snooze_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider} until {self.expires_at:%Y-%m-%d %H:%M}"

    def holds_at(self, now: datetime) -> bool:
        """Whether it is in force at this moment."""
        return self.ended_at is None and self.started_at <= now < self.expires_at
