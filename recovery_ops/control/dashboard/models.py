"""What people note on the time axis: a deploy, a change elsewhere, the beginning of a maintenance."""

from __future__ import annotations

from datetime import datetime

from django.db import models

from recovery_ops.control.core.models.bases import NAME_CHARS, environment_field, name_field, person_field

TEXT_CHARS = 200
TAG_CHARS, TAGS_MOST = 40, 10
TAGS_CHARS = TAGS_MOST * (TAG_CHARS + 1) + 1


class Annotation(models.Model):
    """A moment (`lasts` false), a span until `until`, or one that goes on (`until` None).

    `operation` is the breaker it is about; empty: the whole environment. What was removed is drawn no more.
    """

    environment = environment_field()
    number = models.IntegerField()
    text = models.CharField(max_length=TEXT_CHARS)
    tags = models.CharField(max_length=TAGS_CHARS, default="", blank=True, help_text="`|deploy|eu|`; empty for none.")
    operation = name_field()
    at = models.DateTimeField()
    lasts = models.BooleanField(default=False)
    until = models.DateTimeField(null=True)
    by_user = person_field()
    by = models.CharField(max_length=NAME_CHARS)
    made_at = models.DateTimeField()
    ended_by = name_field()
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="annotation_number_once")]
        indexes = [models.Index(fields=["environment", "at"], name="annotation_by_time")]

    def __str__(self) -> str:
        return f"annotation {self.number}"

    @property
    def tag_names(self) -> list[str]:
        """Its tags, in alphabetical order."""
        return self.tags.strip("|").split("|") if self.tags else []

    @property
    def goes_on(self) -> bool:
        """Whether it lasts and nobody has ended it."""
        return self.lasts and self.until is None

    def ends(self, now: datetime) -> datetime | None:
        """Until when it is drawn; None for a moment."""
        return (self.until or now) if self.lasts else None
