"""Who did what: entries in a chain, and where each chain ends."""

from __future__ import annotations

import json
from typing import Any

from django.db import models

from recovery_ops.control.core.models.bases import (
    ENVIRONMENT_CHARS,
    NAME_CHARS,
    REASON_CHARS,
    WrittenOnce,
    environment_field,
    name_field,
)


class AuditHead(models.Model):
    """The end of one environment's chain of audit entries: shows when the newest entries are gone.

    Its row is also the lock that lets one change of an environment happen at a time, on both engines alike.
    """

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, primary_key=True)
    number = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="")

    def __str__(self) -> str:
        return f"{self.environment} {self.number}"


class AuditEntry(WrittenOnce):
    """One thing somebody did or was refused, chained to the one before it: `hash` covers all of it and that hash.

    `key` is the caller's idempotency key: a second change with it is answered with this entry.
    """

    OK, REFUSED = "ok", "refused"

    environment = environment_field()
    number = models.BigIntegerField()
    at = models.DateTimeField()
    actor_kind = models.CharField(max_length=8)
    actor_name = models.CharField(max_length=NAME_CHARS)
    actor_id = models.CharField(max_length=32, default="")
    verb = models.CharField(max_length=40)
    object = models.CharField(max_length=4 * NAME_CHARS)
    operation = name_field()
    reason = models.CharField(max_length=REASON_CHARS, default="")
    before_text = models.TextField(default="null")
    after_text = models.TextField(default="null")
    revision = models.BigIntegerField(null=True)
    result = models.CharField(max_length=8, default=OK)
    code = models.CharField(max_length=40, default="", help_text="Why it was refused.")
    channel = models.CharField(max_length=8)
    ip = models.CharField(max_length=64, default="")
    user_agent = models.CharField(max_length=300, default="")
    request_id = models.CharField(max_length=64, default="")
    key = models.CharField(max_length=64, null=True)  # noqa: DJ001  # "no key" must not collide with "no key"
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "number"], name="audit_number_once"),
            models.UniqueConstraint(fields=["environment", "key"], name="audit_key_once"),
        ]
        indexes = [
            models.Index(fields=["environment", "revision"], name="audit_by_revision"),
            models.Index(fields=["environment", "operation", "number"], name="audit_by_operation"),
            models.Index(fields=["environment", "at", "number"], name="audit_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.actor_name} {self.verb} {self.object}"

    @property
    def before(self) -> Any:
        """What was there, as JSON: None where nothing was."""
        return json.loads(self.before_text)

    @property
    def after(self) -> Any:
        """What is there now, as JSON: None where nothing is."""
        return json.loads(self.after_text)

    @property
    def is_refusal(self) -> bool:
        """Whether nothing was changed."""
        return self.result == self.REFUSED


class UsedKey(models.Model):
    """What an idempotency key was used for: `request_digest` is `actors.digest_request` of it.

    Beside the audit log and not in it: what was said there in words is evidence, this only tells two requests apart.
    `at` is when it came first: `control.retention` forgets it some time after.
    """

    environment = environment_field()
    key = models.CharField(max_length=64)
    request_digest = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "key"], name="used_key_once")]
        indexes = [models.Index(fields=["at"], name="used_key_at")]

    def __str__(self) -> str:
        return self.key
