"""What an environment asks of those who change it."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import (
    ENVIRONMENT_CHARS,
)


class EnvironmentRules(models.Model):
    """What an environment asks of those who change it. Without a row its name decides; see `core.production`."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, primary_key=True)
    is_production = models.BooleanField(null=True)
    """None: nobody said, and its name decides."""
    is_review_needed = models.BooleanField(null=True)
    is_second_needed = models.BooleanField(
        default=False, db_default=False, help_text="What reaches everybody takes two persons."
    )

    def __str__(self) -> str:
        return self.environment
