"""Load that is shed: whose work fails fast in a whole environment, from when until when, by whom, and why."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from recovery_ops.control.breakers.models.overrides import new_id
from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.rules.desired_state import Shed
from recovery_ops.rules.enums import Importance


def new_shed_id() -> str:
    """As the id of an override, and told from one."""
    return new_id("sh-")


class LoadShedQuerySet(models.QuerySet["LoadShed"]):
    """Questions about load that is shed."""

    def live(self, environment: str) -> Self:
        """Those that nobody and nothing has ended, the earliest first."""
        return self.filter(environment=environment, ended_at=None).order_by("starts_at", "pk")

    def in_force(self, environment: str, now: datetime) -> Self:
        """The one that agents obey at this moment, whether or not the end of another was noted yet."""
        return self.live(environment).filter(starts_at__lte=now, expires_at__gt=now)


class LoadShed(models.Model):
    """Work that is less important than `least` fails fast. At most one holds at a moment; others may be to begin.

    `revision` is that of its last change, `end_revision` that of its end.
    """

    LEASTS = [(one.value, one.value) for one in Importance if one is not Importance.SHEDDABLE]

    id = models.CharField(max_length=16, primary_key=True, default=new_shed_id)
    environment = environment_field()
    least = models.CharField(max_length=16, choices=LEASTS)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    starts_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revision = models.BigIntegerField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = name_field()
    end_reason = models.CharField(max_length=REASON_CHARS, default="", blank=True)
    end_revision = models.BigIntegerField(null=True, blank=True)

    objects = LoadShedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "starts_at"],
                condition=Q(ended_at__isnull=True),
                name="load_shed_once_live",
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], condition=Q(ended_at__isnull=True), name="load_shed_due")]

    def __str__(self) -> str:
        return f"{self.id} {self.least}"

    def as_desired(self) -> Shed:
        """As agents are told; moments as seconds since the epoch."""
        return Shed(
            id=self.id,
            least=Importance(self.least),
            reason=self.reason,
            by=self.by,
            starts_at=self.starts_at.timestamp(),
            expires_at=self.expires_at.timestamp(),
            revision=self.revision,
        )
