"""The tables of runs, folded from events in the transaction that stores them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from events.models import ENVIRONMENT_CHARS, NAME_CHARS, Agent


def _name() -> models.CharField[str, str]:
    return models.CharField(max_length=NAME_CHARS, default="")


class Run(models.Model):
    """One run of an agent. Folded.

    `fold` is what the other columns are computed from; they are there for filters, order and display.
    """

    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    run = models.CharField(max_length=NAME_CHARS)
    agent = models.ForeignKey(
        Agent,
        on_delete=models.PROTECT,
        db_index=False,
        db_constraint=False,
        related_name="+",
        help_text="The instance of its first event.",
    )
    holder = models.ForeignKey(
        Agent,
        on_delete=models.PROTECT,
        db_index=False,
        db_constraint=False,
        related_name="+",
        help_text="The instance that began it last.",
    )
    first_us = models.BigIntegerField(help_text="Its first event.")
    last_us = models.BigIntegerField(help_text="Its last event.")
    started_us = models.BigIntegerField(help_text="Its first run_started; its first event where there is none.")
    ended_us = models.BigIntegerField(null=True, help_text="Its run_finished; null: not ended.")
    status = models.CharField(max_length=32, default="", help_text="At its end; `ended`: not stated.")
    is_failed = models.BooleanField(default=False, help_text="Ended without what it was to bring.")
    is_long = models.BooleanField(default=False, help_text="Lasts longer than `LONG_US`.")
    name = _name()
    source = _name()
    policy = _name()
    level = models.SmallIntegerField(default=0, help_text="The highest recovery step, 1 to 5; 0: none.")
    failures = models.BigIntegerField(default=0)
    categories = models.TextField(default="{}", help_text="JSON: failures by category.")
    models_named = models.TextField(default="[]", help_text="JSON: providers and models of its events.")
    retries = models.BigIntegerField(default=0)
    questions = models.BigIntegerField(default=0)
    waited_us = models.BigIntegerField(default=0, help_text="The sum of its announced waits, until its end.")
    waits_until_us = models.BigIntegerField(default=0, help_text="The end of the longest wait that nothing followed.")
    capacity_until_us = models.BigIntegerField(default=0, help_text="The same of waits after capacity failures.")
    cost_usd = models.FloatField(null=True)
    fold = models.TextField(help_text="JSON of events.runs.fold.RunFold.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "run"], name="run_once")]
        # Each holds the last moment, too, so that a list of a range is counted without its rows.
        indexes = [
            models.Index(fields=["environment", "first_us", "last_us"], name="run_by_start"),
            models.Index(fields=["agent", "first_us"], name="run_by_agent"),
            models.Index(fields=["environment", "status", "first_us", "last_us"], name="run_by_status"),
            models.Index(
                fields=["environment", "first_us", "last_us"], name="run_failing", condition=Q(failures__gt=0)
            ),
            models.Index(
                fields=["environment", "first_us", "last_us"], name="run_going", condition=Q(ended_us__isnull=True)
            ),
            models.Index(
                fields=["environment", "first_us", "last_us"], name="run_asking", condition=Q(questions__gt=0)
            ),
            models.Index(fields=["environment", "first_us", "last_us"], name="run_failed", condition=Q(is_failed=True)),
            models.Index(fields=["environment", "last_us", "first_us"], name="run_long", condition=Q(is_long=True)),
        ]

    def __str__(self) -> str:
        return self.run


class RunFailure(models.Model):
    """Failures of one kind in one run. Folded."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    run = models.CharField(max_length=NAME_CHARS)
    kind = models.BinaryField(max_length=16, help_text="`events.issues.models.FailureKind.digest`.")
    failures = models.BigIntegerField()
    first_us = models.BigIntegerField()
    last_us = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "run", "kind"], name="run_failure_once")]
        # With the first moment, too, the runs of a kind in a range are counted without their rows.
        indexes = [models.Index(fields=["kind", "last_us", "first_us"], name="run_failure_by_kind")]

    def __str__(self) -> str:
        return f"{self.failures} failures of {self.run}"
