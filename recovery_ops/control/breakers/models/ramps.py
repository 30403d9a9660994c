"""Ramps: a reset of many breakers that goes in steps, each of which waits for what the one before did."""

from __future__ import annotations

from typing import Self

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS, environment_field, name_field, person_field
from recovery_ops.rules.fleet.canary_cohort import Cohort
from recovery_ops.rules.policy.fleet_settings import RampBounds
from recovery_ops.rules.policy.scope import ANY, Scope

SAID_CHARS = 1000


class RampQuerySet(models.QuerySet["ResetRamp"]):
    """Questions about ramps."""

    def running(self, environment: str | None = None) -> Self:
        """Those that go on by themselves."""
        found = self.filter(state=ResetRamp.RUNNING)
        return found if environment is None else found.filter(environment=environment)

    def about(self, environment: str, breaker: str) -> list[ResetRamp]:
        """Those of one breaker that are not over, the newest first. Halted ones wait for a person."""
        unfinished = self.filter(environment=environment, state__in=ResetRamp.UNFINISHED).order_by("-number")
        return [one for one in unfinished if breaker in one.breakers]


class ResetRamp(models.Model):
    """One reset of many. The row drives it: whoever finds its step proven takes the next one.

    `plan` says how many are reset after each step and the places below which they lie; `steps` what was done: when,
    and under which revision. `turn` rises with every act, so of two that act on one view the second is told. What the
    rule said last is noted beside (`health`, `said`): that is news, no act.
    """

    RUNNING, HALTED, CANCELLED, DONE = "running", "halted", "cancelled", "done"
    STATES = (RUNNING, HALTED, CANCELLED, DONE)
    UNFINISHED = (RUNNING, HALTED)

    environment = environment_field()
    number = models.IntegerField()
    breakers = models.JSONField(help_text="Their names.")
    service = name_field(ANY)
    instance = name_field(ANY)
    group = name_field(ANY)
    total = models.IntegerField(help_text="Breakers of instances that were not closed when it began.")
    salt = models.CharField(max_length=NAME_CHARS)
    plan = models.JSONField(help_text="A list of [count, limit], the limit of the places of rules.cohorts.")
    steps = models.JSONField(default=list, help_text="A list of {at, revision, by, breakers, ramp_s}.")
    overrides = models.JSONField(default=list, help_text="The ids of overrides that end with it, step by step.")
    bounds = models.JSONField(help_text="As rules.fleet_bounds.RampBounds.")
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    started_at = models.DateTimeField()
    step_at = models.DateTimeField()
    forgiven_at = models.DateTimeField(null=True, blank=True, help_text="What had opened by then halts it no more.")
    state = models.CharField(max_length=16, default=RUNNING, choices=[(state, state) for state in STATES])
    turn = models.IntegerField(default=1)
    health = models.CharField(max_length=16, default="", blank=True, help_text="A word of rules.ramps.Go.")
    said = models.CharField(max_length=SAID_CHARS, default="", blank=True)
    culprits = models.JSONField(default=list, help_text="The names of those that halted it.")
    judged_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = name_field()
    end_reason = models.CharField(max_length=SAID_CHARS, default="", blank=True)

    objects = RampQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="ramp_number_once")]
        indexes = [models.Index(fields=["environment", "state"], name="ramp_by_state")]

    def __str__(self) -> str:
        return f"reset {self.number} of {self.environment}"

    @property
    def title(self) -> str:
        """What the audit log calls it."""
        return f"reset {self.number}"

    @property
    def is_running(self) -> bool:
        """Whether it goes on by itself."""
        return self.state == self.RUNNING

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state not in self.UNFINISHED

    @property
    def has_more(self) -> bool:
        """Whether a step is left."""
        return len(self.steps) < len(self.plan)

    @property
    def done_count(self) -> int:
        """How many of `total` the steps so far have reset."""
        return int(self.plan[len(self.steps) - 1][0]) if self.steps else 0

    @property
    def limits(self) -> RampBounds:
        """What its steps wait for, as the policy said when it began."""
        return RampBounds(**self.bounds)

    def salt_of(self, breaker: str) -> str:
        """Each breaker has an order of instances of its own, so the first step is one breaker of one instance."""
        return f"{self.salt}/{breaker}"

    def scope_of(self, breaker: str) -> Scope:
        """The part of the environment in which it resets a breaker."""
        return Scope(operation=breaker, service=self.service, instance=self.instance, group=self.group)

    def cohort_of(self, breaker: str, *, floor: int, limit: int) -> Cohort:
        """The instances whose places lie between two limits."""
        return Cohort(salt=self.salt_of(breaker), floor=floor, limit=limit)

    def step_of(self, breaker: str, place: int) -> int | None:
        """The step (from 0 on) that reset a breaker in the instance at this place; None if none did yet."""
        for number, (done, (_, limit)) in enumerate(zip(self.steps, self.plan, strict=False)):
            if place < limit and breaker in done["breakers"]:
                return number
        return None
