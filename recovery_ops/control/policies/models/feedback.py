"""Feedback: what people say was handled badly, until a proposal answers it or it is laid aside."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.control.policies.models.policies import PolicyProposal


class Feedback(models.Model):
    """One entry: where, why it was bad, and what should have happened (`want`, a word of rules.feedback.Want)."""

    OPEN, PROPOSED, CLOSED = "open", "proposed", "closed"
    STATES = (OPEN, PROPOSED, CLOSED)

    environment = environment_field()
    number = models.IntegerField()
    operation = models.CharField(max_length=NAME_CHARS)
    service = name_field()
    run = name_field()
    fingerprint = name_field()
    want = models.CharField(max_length=32)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    state = models.CharField(max_length=16, default=OPEN, choices=[(state, state) for state in STATES])
    proposal = models.ForeignKey(PolicyProposal, null=True, on_delete=models.SET_NULL, related_name="feedback")
    ended_by = name_field()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="feedback_number_once")]
        indexes = [models.Index(fields=["environment", "state"], name="feedback_by_state")]

    def __str__(self) -> str:
        return f"feedback {self.number} of {self.environment}"

    @property
    def about(self) -> str:
        """What the audit log calls it."""
        return f"feedback {self.number}"
