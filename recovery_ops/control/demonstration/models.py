"""The demonstration of an environment: which hour of it was generated, and whether it was removed."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import ENVIRONMENT_CHARS


class Demonstration(models.Model):
    """One for each environment with a demonstration. The row outlives the data, so that no start brings it back."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, unique=True)
    history_start = models.DateTimeField()
    history_end = models.DateTimeField(help_text="What happened before was generated.")
    removed_at = models.DateTimeField(null=True, help_text="When a user had it removed.")
    emptied_at = models.DateTimeField(null=True, help_text="When the last of its data was deleted.")

    def __str__(self) -> str:
        return f"demonstration in {self.environment}"

    @property
    def is_removed(self) -> bool:
        """Whether a user had it removed."""
        return self.removed_at is not None
