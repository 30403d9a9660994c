"""The table of capacity events, and what is remembered between two looks at the facts."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from events.models import ENVIRONMENT_CHARS, NAME_CHARS


class CapacityEvent(models.Model):
    """One outage of one backend in one region: a provider's model, or an operation of which nobody said who answers.

    Kept for good, unlike the facts it was made of. The interval only grows; `rules.outages` says how. Numbers are what
    was read of the facts within it; codes and waits are of the newest failures alone where `is_partial`.
    """

    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    provider = models.CharField(max_length=NAME_CHARS, default="", blank=True)
    model = models.CharField(max_length=NAME_CHARS, default="", blank=True)
    operation = models.CharField(max_length=NAME_CHARS, default="", help_text="Only where provider and model are not.")
    region = models.CharField(max_length=NAME_CHARS, default="", help_text="Where it failed; empty: nobody said.")
    started_us = models.BigIntegerField(help_text="The first failure of the first hot moment.")
    last_us = models.BigIntegerField(help_text="The last failure of the last hot moment.")
    merged_into = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    part_of = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        help_text="The event that it is shown as one with, by the rule or by people; it goes on growing by itself.",
    )
    joined_to = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        help_text="The event that `rules.one_outage` says it is one with.",
    )

    read_us = models.BigIntegerField(default=0, help_text="Up to which failure the numbers below were read.")
    is_partial = models.BooleanField(default=False)
    is_counted_by_fact = models.BooleanField(
        default=False, help_text="Whether its failures were counted one by one: the sums know no region."
    )
    failures = models.BigIntegerField(default=0)
    categories = models.JSONField(default=dict, help_text="Failures by category.")
    codes = models.JSONField(
        default=dict, help_text="Failures by HTTP status, empty for none; of those read one by one."
    )
    operations = models.JSONField(default=dict, help_text="Failures by operation, the twenty with most.")
    foreground = models.BigIntegerField(default=0, help_text="Failures for which somebody waited.")
    runs = models.IntegerField(default=0)
    instances = models.IntegerField(default=0)
    services = models.JSONField(default=dict, help_text="How many instances of each service it reached.")
    counted = models.JSONField(
        default=dict, help_text="Runs, instances and services of all that is shown as one with it; empty: not counted."
    )
    peak_per_min = models.IntegerField(default=0)
    peak_us = models.BigIntegerField(default=0, help_text="The beginning of the worst minute.")
    longest_wait_s = models.FloatField(null=True, help_text="The longest Retry-After that was seen.")
    breakers = models.JSONField(default=dict, help_text="How often each breaker opened in its course.")
    moves = models.JSONField(
        default=dict, help_text="What each breaker did that opened, as events.capacity.moves says."
    )
    fallbacks = models.BigIntegerField(default=0, help_text="Answers by an alternative in its course.")
    is_ours = models.BooleanField(
        default=False, help_text="Most of what never reached the service failed on our side: no name, no route."
    )
    attributions = models.JSONField(
        default=list, help_text="Each change of its attribution: at_us, from, to, and the failures by category then."
    )

    followed_us = models.BigIntegerField(default=0, help_text="When the runs it reached were last asked.")
    follow_until_us = models.BigIntegerField(default=0, help_text="Until when they are asked again.")
    waits = models.JSONField(default=list, help_text="Until when each run waits whose last word is a wait.")
    tokens = models.BigIntegerField(default=0, help_text="What those that ended said they used.")
    tokens_runs = models.IntegerField(default=0, help_text="How many said it.")
    cost_usd = models.FloatField(default=0.0, help_text="What those that ended said they cost.")
    cost_runs = models.IntegerField(default=0, help_text="How many said it.")

    class Meta:
        indexes = [
            models.Index(fields=["environment", "last_us"], name="capacity_by_last", condition=Q(merged_into=None)),
            models.Index(fields=["part_of"], name="capacity_by_whole", condition=Q(part_of__isnull=False)),
            models.Index(fields=["joined_to"], name="capacity_by_joined", condition=Q(joined_to__isnull=False)),
            models.Index(fields=["merged_into"], name="capacity_by_absorber", condition=Q(merged_into__isnull=False)),
        ]

    def __str__(self) -> str:
        return " ".join(part for part in (self.provider, self.model, self.operation, self.region) if part)


class CapacityArrangement(models.Model):
    """What a person said of capacity events: these two are one, here one ends and another begins, this one is apart.

    In force until it is taken back (`ended_at`). Every look for outages keeps to it.
    """

    MERGE, CUT, APART = "merge", "cut", "apart"

    environment = models.CharField(max_length=ENVIRONMENT_CHARS)
    kind = models.CharField(max_length=8)
    event = models.ForeignKey(CapacityEvent, on_delete=models.PROTECT, related_name="+", help_text="The later one.")
    other = models.ForeignKey(CapacityEvent, on_delete=models.PROTECT, related_name="+")
    provider = models.CharField(max_length=NAME_CHARS, default="", help_text="Of a cut: whose outage it is.")
    model = models.CharField(max_length=NAME_CHARS, default="")
    operation = models.CharField(max_length=NAME_CHARS, default="")
    region = models.CharField(max_length=NAME_CHARS, default="")
    at_us = models.BigIntegerField(null=True, help_text="Of a cut: what happened from then on is the later one's.")
    made_at = models.DateTimeField()
    made_by = models.CharField(max_length=NAME_CHARS)
    reason = models.CharField(max_length=500)
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=NAME_CHARS, default="")

    class Meta:
        indexes = [models.Index(fields=["environment", "ended_at"], name="arrangement_by_end")]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class CapacityLook(models.Model):
    """What was seen of one environment: failures by hour, so that an hour to which late facts came is looked at again.

    The row is locked while events are written: two workers never make one event twice.
    """

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, unique=True)
    bounds = models.JSONField(default=dict, help_text="When many failures are one outage, as the policy says.")
    hours = models.JSONField(default=dict, help_text="Failures by hour since the epoch, as they were at the last look.")

    def __str__(self) -> str:
        return self.environment
