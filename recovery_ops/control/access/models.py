"""What people may do, by environment and by group of agents; and the counts and used codes of sign-in."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q

from recovery_ops.control.core.models.bases import environment_field, name_field
from recovery_ops.rules.policy.scope import ANY


class RoleGrantQuerySet(models.QuerySet["RoleGrant"]):
    """Grants, and those of them that hold."""

    def in_force(self, now: datetime) -> RoleGrantQuerySet:
        """Those that have not ended."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now))


class RoleGrant(models.Model):
    """What a person may do in one environment, or everywhere (`*`), for all agents or one group of them.

    `source` is empty for what a person granted, `groups` for what the provider's groups stand for, `break_glass` for an
    emergency.
    """

    BY_PERSON, BY_GROUPS, BY_BREAK_GLASS = "", "groups", "break_glass"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants")
    environment = environment_field()
    group = name_field(ANY)
    role = models.CharField(max_length=16)
    source = models.CharField(max_length=16, default=BY_PERSON, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)

    objects = RoleGrantQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "environment", "group", "source"], name="role_once_by_source")
        ]

    def __str__(self) -> str:
        return f"{self.role} in {self.environment}"


class CacheEntry(models.Model):
    """What Django's cache in the database keeps: the table is Django's own in all but its making."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "control_cacheentry"

    def __str__(self) -> str:
        return self.cache_key
