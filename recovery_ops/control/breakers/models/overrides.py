"""What agents have to obey: the revision to reach, overrides and resets."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from recovery_ops.control.core.models.bases import (
    NAME_CHARS,
    REASON_CHARS,
    Scoped,
    WrittenOnce,
    environment_field,
    name_field,
    person_field,
)
from recovery_ops.rules.desired_state import Override as DesiredOverride
from recovery_ops.rules.desired_state import Probe as DesiredProbe
from recovery_ops.rules.desired_state import Reset as DesiredReset
from recovery_ops.rules.enums import State
from recovery_ops.rules.fleet.canary_cohort import WHOLE, Cohort, Spared
from recovery_ops.rules.policy.scope import Scope

_LETTERS = "23456789abcdefghjkmnpqrstvwxyz"
"""No letter or digit that is mistaken for another when it is read aloud."""


def new_id(kind: str) -> str:
    """Short enough to read aloud, and not used before: one in 30^8."""
    return kind + "".join(secrets.choice(_LETTERS) for _ in range(8))


def new_override_id() -> str:
    """The id of an override."""
    return new_id("ov-")


class OverrideQuerySet(models.QuerySet["Override"]):
    """Questions about overrides."""

    def live(self, environment: str) -> Self:
        """Those that nobody and nothing has ended, the most specific name first."""
        return self.filter(environment=environment, ended_at=None).order_by("operation", "revision")

    def in_force(self, environment: str, now: datetime) -> Self:
        """Those that agents obey at this moment, whether or not the end of others was noted yet."""
        return self.live(environment).filter(starts_at__lte=now, expires_at__gt=now)

    def in_scope(self, scope: Scope) -> Self:
        """Those of exactly this scope."""
        return self.filter(service=scope.service, operation=scope.operation, instance=scope.instance, group=scope.group)


class Override(Scoped):
    """What a person, or a rule of the policy, imposed on the breakers in a scope, from when until when, and why.

    At most one holds in exactly one scope at a moment; others may be to begin. `revision` is that of its last change,
    `end_revision` that of its end.
    `rule` is `quorum` where the console did it by that section of the policy, empty for a person or a key.
    """

    MODES = [(mode.value, mode.value) for mode in (State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY)]

    id = models.CharField(max_length=16, primary_key=True, default=new_override_id)
    environment = environment_field()
    mode = models.CharField(max_length=16, choices=MODES)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    starts_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revision = models.BigIntegerField()
    ramp_s = models.FloatField(default=0.0)
    rule = name_field()
    spares = models.JSONField(default=dict, blank=True, help_text="Whom it lets out: as rules.cohorts.Spared.")
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = name_field()
    end_reason = models.CharField(max_length=REASON_CHARS, default="", blank=True)
    end_revision = models.BigIntegerField(null=True, blank=True)
    is_ended_by_person = models.BooleanField(default=False)

    objects = OverrideQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "operation", "service", "instance", "group", "starts_at"],
                condition=Q(ended_at__isnull=True),
                name="override_once_begun",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(ended_at__isnull=True), name="override_due"),
            models.Index(fields=["environment", "operation", "starts_at"], name="override_history"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.mode} {self.operation}"

    @property
    def spared(self) -> Spared:
        """The instances of its scope that it does not hold."""
        return Spared.of(self.spares)

    def as_desired(self) -> DesiredOverride:
        """As agents are told; moments as seconds since the epoch."""
        return DesiredOverride(
            id=self.id,
            mode=State(self.mode),
            scope=self.scope,
            reason=self.reason,
            by=self.by,
            starts_at=self.starts_at.timestamp(),
            expires_at=self.expires_at.timestamp(),
            revision=self.revision,
            ramp_s=self.ramp_s,
        )


class Reset(Scoped, WrittenOnce):
    """A command that became state: each agent in the scope resets once when it first sees this revision.

    A step of a ramp is for the instances alone whose places, by its salt, lie from `floor` on and below `limit`.
    """

    environment = environment_field()
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    revision = models.BigIntegerField()
    ramp_s = models.FloatField(default=0.0)
    salt = name_field()
    floor = models.BigIntegerField(default=0)
    limit = models.BigIntegerField(default=WHOLE)

    class Meta:
        indexes = [models.Index(fields=["environment", "revision"], name="reset_by_revision")]

    def __str__(self) -> str:
        return f"reset {self.operation} {self.revision}"

    @property
    def cohort(self) -> Cohort | None:
        """The instances of its scope that it is for; None: all of them."""
        return Cohort(salt=self.salt, floor=self.floor, limit=self.limit) if self.salt else None

    def as_desired(self) -> DesiredReset:
        """As agents are told."""
        return DesiredReset(scope=self.scope, revision=self.revision, ramp_s=self.ramp_s)


class BreakerProbe(Scoped, WrittenOnce):
    """A command that became state: open breakers in the scope let one call through when they first see it."""

    environment = environment_field()
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    revision = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["environment", "revision"], name="probe_by_revision")]

    def __str__(self) -> str:
        return f"probe {self.operation} {self.revision}"

    def as_desired(self) -> DesiredProbe:
        """As agents are told."""
        return DesiredProbe(scope=self.scope, revision=self.revision)
