"""What people said of causes that nobody could name: known and left so, or a proposal of a rule."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, person_field
from recovery_ops.control.policies.models.policies import PolicyProposal


class UnknownCause(models.Model):
    """One cause, by its fingerprint. It has a row from the first thing that somebody did about it."""

    OPEN, DISMISSED, PROPOSED = "open", "dismissed", "proposed"
    STATES = (OPEN, DISMISSED, PROPOSED)

    environment = environment_field()
    fingerprint = models.CharField(max_length=NAME_CHARS)
    state = models.CharField(max_length=16, default=OPEN, choices=[(state, state) for state in STATES])
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    proposal = models.ForeignKey(PolicyProposal, null=True, on_delete=models.SET_NULL, related_name="unknown_causes")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "fingerprint"], name="unknown_cause_once")]

    def __str__(self) -> str:
        return f"unknown cause {self.fingerprint} of {self.environment}"

    @property
    def about(self) -> str:
        """What the audit log calls it."""
        return f"unknown cause {self.fingerprint}"
