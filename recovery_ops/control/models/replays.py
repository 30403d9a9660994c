"""Replays: a window of what was recorded, decided again under another policy, in a process of its own."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.models.bases import NAME_CHARS, environment_field, name_field, person_field
from recovery_ops.control.models.policies import PolicyProposal


class Replay(models.Model):
    """One job. The row drives it: whoever finds it `waiting` starts it, `beat_at` says that its process lives."""

    WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"
    STATES = (WAITING, RUNNING, DONE, FAILED, CANCELLED)
    UNFINISHED = (WAITING, RUNNING)

    environment = environment_field()
    number = models.IntegerField()
    proposal = models.ForeignKey(PolicyProposal, null=True, on_delete=models.CASCADE, related_name="replays")
    edition = models.IntegerField(default=0, help_text="Of the proposal, when it was asked for.")
    old_version = models.CharField(max_length=32)
    old_document = models.JSONField()
    new_document = models.JSONField()
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    service = name_field()
    operation = name_field()
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    asked_at = models.DateTimeField()
    state = models.CharField(max_length=16, default=WAITING, choices=[(state, state) for state in STATES])
    started_at = models.DateTimeField(null=True, blank=True)
    beat_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    is_cancel_asked = models.BooleanField(default=False)
    read_facts = models.BigIntegerField(default=0, help_text="An instance is decided as a whole, when all is read.")
    done_facts = models.BigIntegerField(default=0)
    total_facts = models.BigIntegerField(default=0)
    problem = models.CharField(max_length=1000, default="", blank=True)
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

    @property
    def is_unfinished(self) -> bool:
        """Whether something is still to come of it."""
        return self.state in self.UNFINISHED
