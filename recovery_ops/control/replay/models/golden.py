"""Golden runs: runs whose handling must stay as it is, with all that deciding them again needs."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.control.policies.models.policies import PolicyProposal


class GoldenCase(models.Model):
    """One run. `facts` is a copy, so that it outlives what is kept of facts; no text that people wrote is in it.

    `expected` is what the rules made of it under the policy that it ran under, call by call.
    """

    environment = environment_field()
    number = models.IntegerField()
    name = models.CharField(max_length=NAME_CHARS)
    must = models.CharField(max_length=REASON_CHARS, help_text="What must stay true, in words.")
    run = models.CharField(max_length=NAME_CHARS)
    service = name_field()
    instance = name_field()
    group = name_field()
    start_us = models.BigIntegerField()
    facts = models.JSONField()
    base_version = models.CharField(max_length=32)
    base_document = models.JSONField()
    expected = models.JSONField()
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)
    retired_by = name_field()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "number"], name="golden_number_once"),
            models.UniqueConstraint(
                fields=["environment", "run"], condition=Q(retired_at__isnull=True), name="golden_run_once"
            ),
        ]

    def __str__(self) -> str:
        return f"golden run {self.number} of {self.environment}"

    @property
    def about(self) -> str:
        """What the audit log calls it."""
        return f"golden run {self.number}"


class GoldenResult(models.Model):
    """What one edition of a proposal does to a golden run. Made again whenever it is missing."""

    case = models.ForeignKey(GoldenCase, on_delete=models.CASCADE, related_name="results")
    proposal = models.ForeignKey(PolicyProposal, on_delete=models.CASCADE, related_name="golden_results")
    edition = models.IntegerField()
    difference = models.CharField(
        max_length=REASON_CHARS, default="", blank=True, help_text="Empty: it stays as it is."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["case", "proposal", "edition"], name="golden_result_once")]

    def __str__(self) -> str:
        return self.difference or "as it was"

    @property
    def is_same(self) -> bool:
        """Whether the run is handled as it was."""
        return not self.difference
