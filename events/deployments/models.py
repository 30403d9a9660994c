"""The table of versions, folded from facts in the transaction that stores them."""

from __future__ import annotations

from django.db import models

from events.models import ENVIRONMENT_CHARS, NAME_CHARS


class ServiceVersion(models.Model):
    """One version that instances of one service told. Folded.

    `last_us` and `beat_us` are exact to the minute, so that most facts do not touch the row.
    """

    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    service = models.CharField(max_length=NAME_CHARS)
    version = models.CharField(max_length=NAME_CHARS)
    first_us = models.BigIntegerField(help_text="When the earliest fact happened that told it.")
    last_us = models.BigIntegerField(help_text="The minute of the newest fact that told it.")
    beat_us = models.BigIntegerField(default=0, help_text="The minute of the newest heartbeat that told it; 0: none.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "service", "version"], name="service_version_once"),
        ]
        indexes = [
            models.Index(fields=["environment", "first_us"], name="service_version_by_first"),
            models.Index(fields=["environment", "beat_us"], name="service_version_by_beat"),
            models.Index(fields=["environment", "service", "first_us"], name="service_version_in_order"),
        ]

    def __str__(self) -> str:
        return f"{self.service} {self.version}"
