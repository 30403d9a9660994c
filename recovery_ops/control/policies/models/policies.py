"""The policy and its life: releases, which are written once, and the proposals that become releases."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models

from recovery_ops.control.core.models.bases import (
    NAME_CHARS,
    REASON_CHARS,
    WrittenOnce,
    environment_field,
    name_field,
    person_field,
)

TITLE_CHARS = 120


class PolicyRelease(WrittenOnce):
    """One version of an environment's policy document. The newest is live: going back is a release of its own."""

    environment = environment_field()
    version = models.IntegerField()
    document = models.JSONField()
    summary = models.CharField(max_length=REASON_CHARS)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    created_at = models.DateTimeField()
    revision = models.BigIntegerField(help_text="With which it went live.")
    proposal = models.ForeignKey("PolicyProposal", null=True, on_delete=models.PROTECT, related_name="releases")
    returns_to = models.IntegerField(null=True, help_text="The version whose document it repeats: a rollback.")
    is_break_glass = models.BooleanField(default=False, help_text="Nobody had approved it, where somebody should have.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "version"], name="policy_version_once")]

    def __str__(self) -> str:
        return f"policy {self.version} of {self.environment}"


class ProposalQuerySet(models.QuerySet["PolicyProposal"]):
    """Questions about proposals."""

    def open(self, environment: str) -> Self:
        """Those of which something may still come, the newest first."""
        return self.filter(environment=environment, state__in=PolicyProposal.OPEN).order_by("-number")

    def due(self, now: datetime) -> Self:
        """Those whose hour has come."""
        return self.filter(state=PolicyProposal.SCHEDULED, go_live_at__lte=now).order_by("go_live_at")


class PolicyProposal(models.Model):
    """A policy that somebody would like to see live, and how far it has come.

    `edition` rises with each edit of the document, `step` with everything that happens to it: who acts on a step that
    is over is told. `authors` are the identities of all who had a hand in the document: none of them may approve it.
    """

    DRAFT, IN_REVIEW, APPROVED, SCHEDULED, ROLLING_OUT = "draft", "in_review", "approved", "scheduled", "rolling_out"
    LIVE, SUPERSEDED, ROLLED_BACK, REJECTED = "live", "superseded", "rolled_back", "rejected"
    OPEN = (DRAFT, IN_REVIEW, APPROVED, SCHEDULED, ROLLING_OUT)
    STATES = (*OPEN, LIVE, SUPERSEDED, ROLLED_BACK, REJECTED)

    environment = environment_field()
    number = models.IntegerField()
    title = models.CharField(max_length=TITLE_CHARS)
    document = models.JSONField()
    base_version = models.CharField(max_length=32, help_text="The live version that the document was made from.")
    state = models.CharField(max_length=16, default=DRAFT, choices=[(state, state) for state in STATES])
    edition = models.IntegerField(default=1)
    step = models.IntegerField(default=1)
    authors = models.JSONField(default=list)
    by_user = person_field()
    by = name_field()
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    approved_by = name_field()
    approved_at = models.DateTimeField(null=True, blank=True)
    go_live_at = models.DateTimeField(null=True, blank=True)
    cohort = models.JSONField(
        null=True, blank=True, help_text="To whom it goes first when its hour has come; null: to all."
    )
    golden_accepted = models.JSONField(default=list, help_text="Golden runs that this edition changes, as is meant.")

    objects = ProposalQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="proposal_number_once")]
        indexes = [
            models.Index(fields=["go_live_at"], condition=models.Q(state="scheduled"), name="proposal_due"),
            models.Index(fields=["environment", "state"], name="proposal_by_state"),
        ]

    def __str__(self) -> str:
        return f"proposal {self.number} of {self.environment}"

    @property
    def is_open(self) -> bool:
        """Whether something may still come of it."""
        return self.state in self.OPEN

    @property
    def about(self) -> str:
        """What the audit log calls it."""
        return f"proposal {self.number}"


class ProposalNote(WrittenOnce):
    """One thing that was done to a proposal or said about it, in the order of its steps."""

    proposal = models.ForeignKey(PolicyProposal, on_delete=models.CASCADE, related_name="notes")
    step = models.IntegerField()
    edition = models.IntegerField()
    verb = models.CharField(max_length=16)
    state = models.CharField(max_length=16, help_text="The state that it led to.")
    by = name_field()
    at = models.DateTimeField()
    text = models.CharField(max_length=REASON_CHARS)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["proposal", "step"], name="proposal_step_once")]

    def __str__(self) -> str:
        return f"{self.verb} by {self.by}"


class BreakGlassReview(WrittenOnce):
    """Somebody else has looked at a release that nobody had approved."""

    release = models.OneToOneField(PolicyRelease, on_delete=models.PROTECT, related_name="review")
    by_user = person_field()
    by = name_field()
    at = models.DateTimeField()
    reason = models.CharField(max_length=REASON_CHARS)

    def __str__(self) -> str:
        return f"{self.release} reviewed by {self.by}"
