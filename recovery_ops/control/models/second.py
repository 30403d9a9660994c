"""Acts that wait for a second person, and those that went without one."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models

from recovery_ops.control.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field

_FEW = 4


class HeldActQuerySet(models.QuerySet["HeldAct"]):
    """Questions about held acts."""

    def waiting(self, environment: str, now: datetime) -> Self:
        """Those that somebody may still agree to, the one that ends first before the others."""
        found = self.filter(environment=environment, state=HeldAct.WAITING, expires_at__gt=now)
        return found.order_by("expires_at", "number")

    def for_people(self, environment: str) -> list[HeldAct]:
        """A few that wait for somebody: to look at what went without a second person, and then to agree."""
        found = self.filter(environment=environment, state__in=(HeldAct.GLASS, HeldAct.WAITING))
        return list(found.order_by("state", "number")[:_FEW])


class HeldAct(models.Model):
    """Something that one person asked for where two have to. `act` and `arguments` are what is done when one agrees.

    `identity` tells who asked from everybody else (`Actor.identity`). `expires_at` ends it by itself; the task only
    writes that down. `glass`: it was done without a second person, who looks at it afterwards (`reviewed`).
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

    objects = HeldActQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="held_act_number_once")]
        indexes = [models.Index(fields=["environment", "state", "expires_at"], name="held_act_by_state")]

    def __str__(self) -> str:
        return f"request {self.number} of {self.environment}"

    @property
    def title(self) -> str:
        """What the audit log calls it."""
        return f"request {self.number}"

    def state_at(self, now: datetime) -> str:
        """Its state, also before the task has noted that its time is over."""
        return self.EXPIRED if self.state == self.WAITING and self.expires_at <= now else self.state
