"""The tables of failures by kind, folded from events in the transaction that stores them."""

from __future__ import annotations

from django.db import models

from events.models import ENVIRONMENT_CHARS, NAME_CHARS, Agent

FAILURE_MINUTES = (1, 15, 120, 1440)
"""The spans over which failures are summed up."""


def _name() -> models.CharField[str, str]:
    return models.CharField(max_length=NAME_CHARS, default="")


class FailureKind(models.Model):
    """What many failures have in common. Counts name it by its digest."""

    digest = models.BinaryField(max_length=16, unique=True, help_text="Of all other columns.")
    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    fingerprint = models.CharField(max_length=2 * NAME_CHARS + 40)
    category = models.CharField(max_length=32, default="")
    operation = _name()
    breaker = _name()
    provider = _name()
    model = _name()
    region = _name()
    service = _name()

    class Meta:
        indexes = [models.Index(fields=["environment", "fingerprint"], name="failure_kind_by_issue")]

    def __str__(self) -> str:
        return self.fingerprint


class _FailureSum(models.Model):
    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    minutes = models.SmallIntegerField(help_text="How long the span is: one of `FAILURE_MINUTES`.")
    span = models.IntegerField(help_text="Which one it is: minutes since the epoch ÷ `minutes`.")
    kind = models.BinaryField(max_length=16, help_text="`FailureKind.digest`.")
    variant = models.SmallIntegerField(help_text="`events.issues.fold.Variant.number`.")
    failures = models.BigIntegerField()
    first_us = models.BigIntegerField()
    last_us = models.BigIntegerField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.failures} failures over {self.minutes} minutes"


class FailureSum(_FailureSum):
    """Failures of one kind and variant in a span of time. Folded."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "minutes", "span", "kind", "variant"], name="failure_sum_once"
            )
        ]
        indexes = [models.Index(fields=["kind", "span"], name="failure_sum_by_kind", condition=models.Q(minutes=1))]


class InstanceFailureSum(_FailureSum):
    """The same of one instance. Folded."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, db_index=False, db_constraint=False, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "minutes", "span", "kind", "variant", "agent"], name="instance_failure_sum_once"
            )
        ]
