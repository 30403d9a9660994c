"""The table of days: what is left of the runs of a day when their facts are gone."""

from __future__ import annotations

from django.db import models

from events.models import ENVIRONMENT_CHARS


class RecoveryDay(models.Model):
    """One day (UTC) of one environment, by the runs that ended in it and the attempts that failed in it.

    A run that met a failure *recovered alone* when it ended well without asking a person, was *helped* when it ended
    well and had asked one; it is *lost* when it failed or was stopped. Runs that nothing happened to are in `runs`
    alone, as are cancelled ones. Seconds are how long those runs took, dollars what they said they cost; of `troubled`
    ones, `costed` said so.
    """

    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    day = models.IntegerField(help_text="Days since the epoch, UTC.")
    read_us = models.BigIntegerField(help_text="When its facts were read.")
    facts = models.BigIntegerField(help_text="How many facts its sums held then: other than now means read it again.")
    is_partial = models.BooleanField(default=False, help_text="Whether more runs ended than were read.")

    runs = models.IntegerField(default=0)
    alone = models.IntegerField(default=0)
    helped = models.IntegerField(default=0)
    lost = models.IntegerField(default=0)
    costed = models.IntegerField(default=0)
    alone_s = models.FloatField(default=0.0)
    helped_s = models.FloatField(default=0.0)
    lost_s = models.FloatField(default=0.0)
    alone_usd = models.FloatField(default=0.0)
    helped_usd = models.FloatField(default=0.0)
    lost_usd = models.FloatField(default=0.0)

    failures = models.BigIntegerField(default=0, help_text="Attempts that failed.")
    retries = models.BigIntegerField(default=0)
    fallbacks = models.BigIntegerField(default=0)
    exhausted = models.BigIntegerField(default=0, help_text="Calls that no rung could save.")
    causes = models.JSONField(
        default=list, help_text="[operation, category, failures, runs it met, those of them lost], most failures first."
    )
    costs = models.JSONField(
        null=True,
        help_text="[operation, runs that met a failure of it and said what they cost, dollars]; null: not read so.",
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "day"], name="recovery_day_once")]

    def __str__(self) -> str:
        return f"{self.environment} day {self.day}"
