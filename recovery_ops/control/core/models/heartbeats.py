"""Signs of life of what runs in the background, so that its silence can be seen."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS


class Beat(models.Model):
    """When a task last ran, or the scheduler last asked for one (`SCHEDULER`). Exact to some seconds."""

    SCHEDULER = "scheduler"

    name = models.CharField(max_length=NAME_CHARS, primary_key=True)
    at = models.DateTimeField()
    took_s = models.FloatField(null=True)
    place = models.CharField(max_length=NAME_CHARS, default="", help_text="The process that did it.")
    failed_at = models.DateTimeField(null=True)
    failure = models.CharField(max_length=300, default="")

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%H:%M:%S}"
