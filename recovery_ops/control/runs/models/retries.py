"""Runs that people want begun again, as state that agents obey once."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from recovery_ops.control.breakers.models.overrides import new_id
from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.rules.desired_state import Retry


def new_retry_id() -> str:
    """As the id of an override, and told from one. Agents obey each once, so none is used again."""
    return new_id("ry-")


class RunRetry(models.Model):
    """Somebody wants one instance to begin a run again from its checkpoint, with `input` where that is not empty.

    It ends when the run was begun (`begun_at`, by the run's own word), or when somebody takes it back (`ended_by`).
    `revision` is that of the wish, `end_revision` that of its end.
    """

    id = models.CharField(max_length=16, primary_key=True, default=new_retry_id)
    environment = environment_field()
    run = models.CharField(max_length=NAME_CHARS)
    service = models.CharField(max_length=NAME_CHARS)
    instance = models.CharField(max_length=NAME_CHARS)
    reason = models.CharField(max_length=REASON_CHARS)
    input = models.TextField(default="", blank=True)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    revision = models.BigIntegerField()
    begun_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = name_field()
    end_revision = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "run"], condition=Q(ended_at__isnull=True), name="run_retried_once"
            )
        ]
        indexes = [
            models.Index(fields=["environment", "at"], condition=Q(ended_at__isnull=True), name="run_retry_held"),
            models.Index(fields=["environment", "run", "at"], name="run_retry_history"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.run}"

    def as_desired(self) -> Retry:
        """As agents are told."""
        return Retry(
            id=self.id,
            run=self.run,
            service=self.service,
            instance=self.instance,
            by=self.by,
            reason=self.reason,
            input=self.input,
            revision=self.revision,
        )
