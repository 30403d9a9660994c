"""Approval requests, and break-glass changes that were applied without one."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field

_FEW = 4


class ApprovalRequestQuerySet(models.QuerySet["ApprovalRequest"]):
    """Queries of approval requests."""

    def waiting(self, environment: str, now: datetime) -> Self:
        """Requests that can still be approved, the next to expire first."""
        found = self.filter(environment=environment, state=ApprovalRequest.WAITING, expires_at__gt=now)
        return found.order_by("expires_at", "number")

    def for_people(self, environment: str) -> list[ApprovalRequest]:
        """The first few that need a user: break-glass changes to review, then requests to approve."""
        found = self.filter(environment=environment, state__in=(ApprovalRequest.GLASS, ApprovalRequest.WAITING))
        return list(found.order_by("state", "number")[:_FEW])


class ApprovalRequest(models.Model):
    """A change that waits for a second approver. `act` and `arguments` are applied by the approval.

    `identity` identifies the requester (`Actor.identity`). A request expires at `expires_at`, before a task records
    it. `glass`: applied by break-glass, without a second approver; `reviewed` after another user's review.
    """

    WAITING, AGREED, REJECTED, WITHDRAWN, EXPIRED = "waiting", "agreed", "rejected", "withdrawn", "expired"
    GLASS, REVIEWED = "glass", "reviewed"
    STATES = (WAITING, AGREED, REJECTED, WITHDRAWN, EXPIRED, GLASS, REVIEWED)

    environment = environment_field()
    number = models.IntegerField()
    act = models.CharField(max_length=32)
    arguments = models.JSONField()
    about = models.CharField(max_length=4 * NAME_CHARS, help_text="What it is done to, in words.")
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    identity = models.CharField(max_length=2 * NAME_CHARS)
    key = models.CharField(max_length=64, default="", blank=True, help_text="The idempotency key of who asked.")
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=[(state, state) for state in STATES])
    decided_by = name_field()
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = models.CharField(max_length=REASON_CHARS, default="", blank=True)
    revision = models.BigIntegerField(null=True, blank=True, help_text="Under which it was done.")

    objects = ApprovalRequestQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="approval_request_number_once")]
        indexes = [models.Index(fields=["environment", "state", "expires_at"], name="approval_request_by_state")]

    def __str__(self) -> str:
        return f"request {self.number} of {self.environment}"

    @property
    def title(self) -> str:
        """What the audit log calls it."""
        return f"request {self.number}"

    def state_at(self, now: datetime) -> str:
        """Its state, also before the task has noted that its time is over."""
        return self.EXPIRED if self.state == self.WAITING and self.expires_at <= now else self.state
