"""What the quorum rule remembers between two looks: since when a share was reached, and since when it has fallen."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.bases import environment_field, name_field


class QuorumWatch(models.Model):
    """One breaker that some instances opened, where a rule of the policy speaks of it. Gone when nobody has it open."""

    environment = environment_field()
    breaker = name_field()
    opened = models.IntegerField(default=0)
    reporting = models.IntegerField(default=0)
    met_since = models.DateTimeField(null=True, blank=True)
    fallen_since = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "breaker"], name="quorum_watch_once")]

    def __str__(self) -> str:
        return f"{self.breaker}: {self.opened} of {self.reporting}"
