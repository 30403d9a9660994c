"""Rollouts: a proposal that some instances obey already, for a time, before it is the live policy of all."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Q

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.rules.fleet.canary_cohort import Cohort
from recovery_ops.rules.fleet.health_gate import LEAST_CALLS
from recovery_ops.rules.policy.scope import ANY

SAID_CHARS = 1000


class RolloutQuerySet(models.QuerySet["PolicyRollout"]):
    """Questions about rollouts."""

    def running(self, environment: str | None = None) -> Self:
        """Those that go on: in one environment at most one."""
        found = self.filter(state=PolicyRollout.RUNNING)
        return found if environment is None else found.filter(environment=environment)


class PolicyRollout(models.Model):
    """One try of a proposal. The row drives it: whoever finds its time over promotes it or takes it back.

    `step` rises with what people decide about it, so who acts on an older view is told. What the gate said last is
    noted beside (`health`, `said`, `figures`): that is news, not a decision.
    """

    RUNNING, PROMOTED, ROLLED_BACK = "running", "promoted", "rolled_back"
    STATES = (RUNNING, PROMOTED, ROLLED_BACK)

    environment = environment_field()
    number = models.IntegerField()
    proposal = models.ForeignKey(PolicyProposal, on_delete=models.PROTECT, related_name="rollouts")
    document = models.JSONField()
    base_version = models.CharField(max_length=32, help_text="What everybody else obeys meanwhile.")
    service = name_field(ANY)
    group = name_field(ANY)
    share = models.FloatField(help_text="Above 0, up to 1.")
    salt = models.CharField(max_length=NAME_CHARS)
    limit = models.BigIntegerField(help_text="Of the places of rules.cohorts.")
    least_calls = models.IntegerField(default=LEAST_CALLS)
    is_break_glass = models.BooleanField(default=False)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    revision = models.BigIntegerField(help_text="With which it began.")
    started_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = models.CharField(max_length=16, default=RUNNING, choices=[(state, state) for state in STATES])
    step = models.IntegerField(default=1)
    health = models.CharField(max_length=16, default="", blank=True, help_text="A word of rules.health.Health.")
    said = models.CharField(max_length=SAID_CHARS, default="", blank=True)
    figures = models.JSONField(default=dict)
    judged_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = name_field()
    end_reason = models.CharField(max_length=SAID_CHARS, default="", blank=True)
    end_revision = models.BigIntegerField(null=True, blank=True)

    objects = RolloutQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "number"], name="rollout_number_once"),
            models.UniqueConstraint(fields=["environment"], condition=Q(state="running"), name="rollout_once_running"),
        ]

    def __str__(self) -> str:
        return f"rollout {self.number} of {self.environment}"

    @property
    def about(self) -> str:
        """What the audit log calls it."""
        return f"rollout {self.number}"

    @property
    def is_running(self) -> bool:
        """Whether its cohort obeys it now."""
        return self.state == self.RUNNING

    @property
    def version(self) -> str:
        """What facts decided by it name as their policy: no number, because that is given to what is live."""
        return f"canary-{self.number}"

    @property
    def cohort(self) -> Cohort:
        """Who obeys it."""
        return Cohort(salt=self.salt, limit=self.limit, service=self.service, group=self.group)
