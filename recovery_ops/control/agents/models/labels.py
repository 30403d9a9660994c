"""Labels of instances: whatever people call one of them, to find it again."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.labels import LABELS_CHARS, parse_labels
from recovery_ops.control.core.models.bases import environment_field, name_field


class InstanceLabels(models.Model):
    """The labels of one instance, by the names under which it reports: they outlast its silence."""

    environment = environment_field()
    service = name_field()
    instance = name_field()
    labels = models.CharField(
        max_length=LABELS_CHARS, default="", blank=True, help_text="`|canary|vip|`; empty for none."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "service", "instance"], name="instance_labels_once"),
        ]

    def __str__(self) -> str:
        return f"{self.service}/{self.instance}: {', '.join(self.label_names) or 'no label'}"

    @property
    def label_names(self) -> list[str]:
        """Its labels, in alphabetical order."""
        return parse_labels(self.labels)
