"""The number of each environment's desired state."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import ENVIRONMENT_CHARS


class Revision(models.Model):
    """The newest revision of one environment's desired state; no row means 0."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, primary_key=True)
    number = models.BigIntegerField(default=0)
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.environment} {self.number}"
