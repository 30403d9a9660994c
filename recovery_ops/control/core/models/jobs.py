"""What all long work has in common: the row that somebody asks for, and a process that beats while it runs."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, environment_field, person_field


class Job(models.Model):
    """One piece of work. The row drives it: whoever finds it `waiting` starts it, `beat_at` says that it lives."""

    WAITING, RUNNING, DONE, FAILED, CANCELLED = "waiting", "running", "done", "failed", "cancelled"
    STATES = (WAITING, RUNNING, DONE, FAILED, CANCELLED)
    UNFINISHED = (WAITING, RUNNING)

    environment = environment_field()
    number = models.IntegerField()
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    asked_at = models.DateTimeField()
    state = models.CharField(max_length=16, default=WAITING, choices=[(state, state) for state in STATES])
    started_at = models.DateTimeField(null=True, blank=True)
    beat_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    is_cancel_asked = models.BooleanField(default=False)
    problem = models.CharField(max_length=1000, default="", blank=True)

    class Meta:
        abstract = True

    @property
    def is_unfinished(self) -> bool:
        """Whether something is still to come of it."""
        return self.state in self.UNFINISHED
