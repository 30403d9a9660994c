"""What people say of capacity events."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, WrittenOnce, environment_field


class CapacityNote(WrittenOnce):
    """One line on an event's page. It stays with the number it was written about, whatever that is one with later."""

    environment = environment_field()
    event = models.BigIntegerField(help_text="The number of the capacity event.")
    at = models.DateTimeField()
    by = models.CharField(max_length=NAME_CHARS)
    text = models.CharField(max_length=REASON_CHARS)

    class Meta:
        indexes = [models.Index(fields=["environment", "event", "at"], name="capacity_note_by_event")]

    def __str__(self) -> str:
        return f"note {self.pk} on CE-{self.event}"
