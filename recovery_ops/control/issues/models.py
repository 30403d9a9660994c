"""What people say of failures: whose a cause is, whether it is done with, and which failures are one cause."""

from __future__ import annotations

from django.db import models

from events.models import FINGERPRINT_CHARS
from recovery_ops.control.core.models.bases import (
    NAME_CHARS,
    REASON_CHARS,
    WrittenOnce,
    environment_field,
    name_field,
    person_field,
)


class FailureCase(models.Model):
    """One cause that somebody has decided something about; a cause without a row is open and nobody's.

    `version` counts the decisions: who acts on an older one is told what happened meanwhile.
    """

    OPEN, ARCHIVED, RESOLVED, REGRESSED, PENDING = "open", "archived", "resolved", "regressed", "pending"
    STATES = (OPEN, ARCHIVED, RESOLVED, REGRESSED, PENDING)

    environment = environment_field()
    fingerprint = models.CharField(max_length=FINGERPRINT_CHARS)
    version = models.IntegerField(default=0)
    state = models.CharField(max_length=16, default=OPEN, choices=[(state, state) for state in STATES])
    assignee = person_field()
    assigned_to = name_field()
    decided_at = models.DateTimeField()
    decided_by = name_field()
    reason = models.CharField(max_length=REASON_CHARS, default="", blank=True)

    archived_until = models.DateTimeField(null=True)
    archived_more = models.IntegerField(null=True, help_text="It comes back when it has failed so often again.")
    archived_usual = models.IntegerField(
        null=True,
        help_text="It comes back when it escalates: so many failures its busiest hour of the day before had.",
    )
    hour_began = models.DateTimeField(null=True, help_text="Since when failures are counted for that.")
    hour_seen = models.IntegerField(default=0, help_text="Failures that came in since then.")
    versions = models.JSONField(
        null=True, help_text="It is resolved in the next version: service → the versions known when that was said."
    )
    clean_needed = models.IntegerField(
        null=True, help_text="Pending: it is resolved after so many clean runs, one after the other."
    )
    clean_seen = models.IntegerField(
        default=0, db_default=0, help_text="Clean runs since it was decided, or since it failed last."
    )
    clean_operations = models.JSONField(null=True, help_text="The operations that it failed in.")
    clean_agents = models.JSONField(null=True, help_text="Instances (agents' numbers) that called one since then.")
    seen_more = models.IntegerField(default=0, help_text="Failures that came in since it was decided.")
    counted_to = models.BigIntegerField(default=0, help_text="The number of the last fact counted for that.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "fingerprint"], name="failure_case_once")]
        indexes = [models.Index(fields=["environment", "state"], name="failure_case_by_state")]

    def __str__(self) -> str:
        return f"failure {self.fingerprint}"


class FailureGrouping(models.Model):
    """A rule: failures of this cause belong to another (merge), or some of them are a cause of their own (split).

    It ends (`ended_at`), and never goes: the next failure of years to come is put where people said.
    """

    MERGE, SPLIT = "merge", "split"

    environment = environment_field()
    kind = models.CharField(max_length=8, choices=[(MERGE, MERGE), (SPLIT, SPLIT)])
    fingerprint = models.CharField(max_length=FINGERPRINT_CHARS)
    into = models.CharField(max_length=FINGERPRINT_CHARS, help_text="The cause they belong to from then on.")
    field = models.CharField(max_length=16, default="", blank=True, help_text="Of a split: what tells them apart.")
    value = models.CharField(max_length=FINGERPRINT_CHARS, default="", blank=True)
    made_at = models.DateTimeField()
    made_by = name_field()
    reason = models.CharField(max_length=REASON_CHARS)
    ended_at = models.DateTimeField(null=True)
    ended_by = name_field()

    class Meta:
        indexes = [models.Index(fields=["environment", "ended_at"], name="failure_grouping_in_force")]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk} of {self.environment}"


class FailureNote(WrittenOnce):
    """One line about a cause. It stays with the name it was written about, whatever that is merged into later."""

    environment = environment_field()
    fingerprint = models.CharField(max_length=FINGERPRINT_CHARS)
    at = models.DateTimeField()
    by = models.CharField(max_length=NAME_CHARS)
    text = models.CharField(max_length=REASON_CHARS)

    class Meta:
        indexes = [models.Index(fields=["environment", "fingerprint", "at"], name="failure_note_by_cause")]

    def __str__(self) -> str:
        return f"note {self.pk} on failure {self.fingerprint}"
