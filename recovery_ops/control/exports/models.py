"""Exports: a list as a file that takes longer than somebody waits, written in a process of its own, kept for days."""

from __future__ import annotations

from django.db import models

from recovery_ops.control.core.models.jobs import Job

PREFIX_CHARS = 16
QUERY_CHARS = 4_000


class Export(Job):
    """One file of one list, for whoever asked: a person, or a key by its prefix.

    `done` of `total` is how far it has come, in what the list counts itself by; `rows` are in the file so far.
    """

    what = models.CharField(max_length=16)
    kind = models.CharField(max_length=8)
    query = models.TextField(help_text="What narrows the list, as its address says it.")
    address = models.TextField(help_text="Where a browser sees the same.")
    columns = models.JSONField(default=list, help_text="Empty: all of them.")
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    key_prefix = models.CharField(max_length=PREFIX_CHARS, default="", blank=True)
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    rows = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    is_cut = models.BooleanField(default=False, help_text="There was more than fits into one file.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "number"], name="export_number_once")]
        indexes = [models.Index(fields=["asked_at"], condition=models.Q(state="waiting"), name="export_waiting")]

    def __str__(self) -> str:
        return f"export {self.number} of {self.environment}"


class ExportPart(models.Model):
    """A piece of the file, compressed. In the database, because the process that serves may be on another machine."""

    export = models.ForeignKey(Export, on_delete=models.CASCADE, related_name="parts")
    number = models.IntegerField()
    content = models.BinaryField(help_text="gzip")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["export", "number"], name="export_part_once")]

    def __str__(self) -> str:
        return f"part {self.number} of {self.export_id}"
