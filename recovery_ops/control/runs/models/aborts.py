"""Runs that people want to end, as state that agents obey."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.rules.desired_state import Abort
from recovery_ops.rules.policy.scope import ANY


class RunAbort(models.Model):
    """Somebody wants a run to end. Until that is taken back, its agent calls the run off, also one that begins again.

    `revision` is that of the wish, `withdrawn_revision` that of its end.
    """

    environment = environment_field()
    run = models.CharField(max_length=NAME_CHARS)
    service = name_field()
    instance = name_field()
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    revision = models.BigIntegerField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    withdrawn_by = name_field()
    withdrawn_revision = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "run"], condition=Q(withdrawn_at__isnull=True), name="run_aborted_once"
            )
        ]
        indexes = [
            models.Index(fields=["environment", "at"], condition=Q(withdrawn_at__isnull=True), name="run_abort_held"),
            models.Index(fields=["environment", "run", "at"], name="run_abort_history"),
        ]

    def __str__(self) -> str:
        return f"abort {self.run}"

    def as_desired(self) -> Abort:
        """As agents are told."""
        return Abort(run=self.run, by=self.by, reason=self.reason, service=self.service or ANY, revision=self.revision)
