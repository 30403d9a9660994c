"""What people do about a class of failures: steps that somebody wrote, and which of them were done for a question."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, environment_field, name_field
from recovery_ops.control.escalations.models import Escalation

TEXT_CHARS = 8_000
STEP_CHARS = 400
KEY_CHARS = 16


class Runbook(models.Model):
    """The steps for one category of failures, as Markdown; `version` counts how often they were written.

    An empty text: they were taken away.
    """

    environment = environment_field()
    category = models.CharField(max_length=32)
    text = models.CharField(max_length=TEXT_CHARS, default="", blank=True)
    owner = name_field()
    review_on = models.DateField(null=True, help_text="By when somebody looks whether they still hold.")
    version = models.IntegerField(default=1)
    changed_by = models.CharField(max_length=NAME_CHARS)
    changed_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, help_text="When a step was ticked last.")
    used_by = name_field()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "category"], name="runbook_once")]

    def __str__(self) -> str:
        return f"the steps for {self.category}"


class RunbookTick(models.Model):
    """A step that somebody did for one question; taken back, it is gone, and the audit log has both."""

    escalation = models.ForeignKey(Escalation, on_delete=models.CASCADE, related_name="ticks")
    key = models.CharField(max_length=KEY_CHARS, help_text="A digest of the step's words: other words, another step.")
    step = models.CharField(max_length=STEP_CHARS)
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["escalation", "key"], name="runbook_tick_once")]

    def __str__(self) -> str:
        return f"{self.step} by {self.by}"
