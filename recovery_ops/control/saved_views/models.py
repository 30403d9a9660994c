"""Saved views: a page with its filters under a name, for one person."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from recovery_ops.control.core.models.bases import environment_field, name_field

QUERY_CHARS = 2000


class SavedView(models.Model):
    """The state of a page, which is its address: `query` is what stands behind the `?`."""

    environment = environment_field()
    screen = models.CharField(max_length=40)
    name = name_field()
    query = models.CharField(max_length=QUERY_CHARS, blank=True)
    owner: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "screen", "owner", "name"], name="view_name_once")
        ]

    def __str__(self) -> str:
        return self.name
