"""New work that people have paused in instances or services, as state that agents obey."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from recovery_ops.control.breakers.models.overrides import new_id
from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.rules.desired_state import PAUSE, STOP, Pause


def new_pause_id() -> str:
    """As the id of an override, and told from one."""
    return new_id("pz-")


class WorkPauseQuerySet(models.QuerySet["WorkPause"]):
    """Questions about paused work."""

    def live(self, environment: str) -> Self:
        """Those that nobody and nothing has ended."""
        return self.filter(environment=environment, ended_at=None).order_by("revision", "service", "instance", "pk")

    def in_force(self, environment: str, now: datetime) -> Self:
        """Those that agents obey at this moment, whether or not the end of one was noted yet."""
        return self.live(environment).filter(Q(expires_at=None) | Q(expires_at__gt=now))


class WorkPause(models.Model):
    """An instance of a service is to begin no new runs, or all of them where `instance` is empty.

    Of `kind` `stop` it is stopped: its runs in flight are aborted, too.

    What was asked for at once has one `revision`, `end_revision` is that of the end. `expires_at` is None: until
    somebody takes it back.
    """

    id = models.CharField(max_length=16, primary_key=True, default=new_pause_id)
    environment = environment_field()
    service = models.CharField(max_length=NAME_CHARS)
    instance = name_field()
    kind = models.CharField(max_length=8, default=PAUSE)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revision = models.BigIntegerField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = name_field()
    end_reason = models.CharField(max_length=REASON_CHARS, default="", blank=True)
    end_revision = models.BigIntegerField(null=True, blank=True)

    objects = WorkPauseQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "service", "instance"],
                condition=Q(ended_at__isnull=True),
                name="work_paused_once",
            )
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(ended_at__isnull=True), name="work_pause_due"),
            models.Index(fields=["environment", "ended_at"], name="work_pause_ended"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.name}"

    @property
    def name(self) -> str:
        """`research/r-1`, or `research` for all of it."""
        return f"{self.service}/{self.instance}" if self.instance else self.service

    @property
    def is_stop(self) -> bool:
        """Whether it stops the agent."""
        return self.kind == STOP

    def is_for(self, service: str, instance: str) -> bool:
        """Whether it is for this instance."""
        return self.service == service and self.instance in ("", instance)

    def as_desired(self) -> Pause:
        """As agents are told; moments as seconds since the epoch."""
        return Pause(
            id=self.id,
            service=self.service,
            instance=self.instance,
            by=self.by,
            reason=self.reason,
            expires_at=None if self.expires_at is None else self.expires_at.timestamp(),
            revision=self.revision,
            kind=self.kind,
        )
