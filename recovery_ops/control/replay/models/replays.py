"""Replays: a window of what was recorded, decided again under another policy, in a process of its own."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import name_field
from recovery_ops.control.core.models.jobs import Job
from recovery_ops.control.policies.models.policies import PolicyProposal


class Replay(Job):
    """One replay: what was to be decided again, under which documents, and what came of it."""

    proposal = models.ForeignKey(PolicyProposal, null=True, on_delete=models.CASCADE, related_name="replays")
    edition = models.IntegerField(default=0, help_text="Of the proposal, when it was asked for.")
    old_version = models.CharField(max_length=32)
    old_document = models.JSONField()
    new_document = models.JSONField()
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    service = name_field()
    operation = name_field()
    read_facts = models.BigIntegerField(default=0, help_text="An instance is decided as a whole, when all is read.")
    done_facts = models.BigIntegerField(default=0)
    total_facts = models.BigIntegerField(default=0)
    result = models.JSONField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="replay_number_once")]
        indexes = [models.Index(fields=["asked_at"], condition=models.Q(state="waiting"), name="replay_waiting")]

    def __str__(self) -> str:
        return f"replay {self.number} of {self.environment}"

    @property
    def about(self) -> str:
        """What the audit log calls it."""
        return f"replay {self.number}"
