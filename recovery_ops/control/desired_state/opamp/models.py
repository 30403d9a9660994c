"""What is known of a standard OpAMP client between two of its messages."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import environment_field, name_field


class OpampAgent(models.Model):
    """One connection of an OpAMP client: who it said it is, and what it last reported.

    In the database, so that any web process may answer its next message. `fact_number` counts the facts that were made
    of what it said. `failed_hashes`: hashes of documents that it could not apply, the last first.
    """

    environment = environment_field()
    uid = models.CharField(max_length=32)
    service = name_field()
    instance = name_field()
    group = name_field()
    version = name_field()
    sequence_number = models.DecimalField(max_digits=20, decimal_places=0)
    first_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    beat_at = models.DateTimeField(null=True, blank=True)
    reported_hash = models.CharField(max_length=256, default="", blank=True)
    reported_status = models.IntegerField(default=0)
    reported_text = models.TextField(default="", blank=True)
    failed_hashes = models.JSONField(default=list, blank=True)
    applied_revision = models.BigIntegerField(default=0)
    applied_hash = models.CharField(max_length=64, default="", blank=True)
    effective_digest = models.CharField(max_length=64, default="", blank=True)
    fact_number = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "uid"], name="opamp_agent_once")]
        indexes = [models.Index(fields=["environment", "seen_at"], name="opamp_agent_seen")]

    def __str__(self) -> str:
        return f"{self.service}/{self.instance}"
