"""What a channel is told once a day or a week, whatever its rules tell it."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, environment_field
from recovery_ops.control.notifications.models.notifications import Channel


class Digest(models.Model):
    """The digest of one channel. `since`: moments before are not told; it moves on when it is set to another hour."""

    EVERY = [("daily", "daily"), ("weekly", "weekly")]

    environment = environment_field()
    channel = models.OneToOneField(Channel, on_delete=models.PROTECT, related_name="digest")
    is_on = models.BooleanField(default=True)
    every = models.CharField(max_length=8, choices=EVERY, default="daily")
    weekday = models.SmallIntegerField(default=0, help_text="Of a weekly one, from Monday, 0.")
    at = models.TimeField()
    zone = models.CharField(max_length=64, default="UTC")
    tells_calm = models.BooleanField(default=False, help_text="Whether it says so in one line when nothing is down.")
    since = models.DateTimeField()
    version = models.IntegerField(default=1)
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=NAME_CHARS)

    def __str__(self) -> str:
        return f"{self.every} at {self.at:%H:%M} {self.zone}"

    @property
    def origin(self) -> str:
        """What its notifications say they come from."""
        return f"digest:{self.channel_id}"
