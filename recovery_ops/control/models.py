"""The tables of what people want: overrides, resets and releases, each with its revision; who may; and who did.

`Revision` is the number that agents have to reach. It is bumped last in the transaction of each change, so a reader
who finds the same number before and after reading has read one state, and no change is ever announced too early.
"""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from typing import Any, Self, TypeVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from recovery_ops.rules.intent import Override as DesiredOverride
from recovery_ops.rules.intent import Reset as DesiredReset
from recovery_ops.rules.scope import ANY, Scope
from recovery_ops.rules.words import State

ENVIRONMENT_CHARS = 64
NAME_CHARS = 200
REASON_CHARS = 500
EVERYWHERE = "*"
"""As an environment: all of them."""

_LETTERS = "23456789abcdefghjkmnpqrstvwxyz"
"""No letter or digit that is mistaken for another when it is read aloud."""


class Unchangeable(Exception):
    """A row that is written once was to be changed or deleted."""


def new_override_id() -> str:
    """Short enough to read aloud, and not used before: one in 30^8."""
    return "ov-" + "".join(secrets.choice(_LETTERS) for _ in range(8))


def _name(default: str = "") -> models.CharField[str, str]:
    return models.CharField(max_length=NAME_CHARS, default=default, blank=True)


def _environment() -> models.CharField[str, str]:
    return models.CharField(max_length=ENVIRONMENT_CHARS)


def _person() -> models.ForeignKey[Any, Any]:
    """Beside a copy of the name: what somebody did outlives their account."""
    return models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")


_Row = TypeVar("_Row", bound=models.Model)


class WrittenOnceQuerySet(models.QuerySet[_Row]):
    """Refuses what would change or remove rows in bulk."""

    def update(self, **kwargs: Any) -> int:
        raise Unchangeable(f"{self.model.__name__} is written once")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise Unchangeable(f"{self.model.__name__} is written once")


class WrittenOnce(models.Model):
    """A row that can be added, and neither changed nor deleted."""

    objects = WrittenOnceQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise Unchangeable(f"{type(self).__name__} is written once")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise Unchangeable(f"{type(self).__name__} is written once")


class Scoped(models.Model):
    """A row that speaks of a part of its environment; `*` stands for anything."""

    service = _name(ANY)
    operation = _name(ANY)
    instance = _name(ANY)
    group = _name(ANY)

    class Meta:
        abstract = True

    @property
    def scope(self) -> Scope:
        """The part of the environment it speaks of."""
        return Scope(service=self.service, operation=self.operation, instance=self.instance, group=self.group)


class Revision(models.Model):
    """The newest revision of one environment's desired state; no row means 0."""

    environment = models.CharField(max_length=ENVIRONMENT_CHARS, primary_key=True)
    number = models.BigIntegerField(default=0)
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.environment} {self.number}"


class OverrideQuerySet(models.QuerySet["Override"]):
    """Questions about overrides."""

    def live(self, environment: str) -> Self:
        """Those that nobody and nothing has ended, the most specific name first."""
        return self.filter(environment=environment, ended_at=None).order_by("operation", "revision")

    def in_force(self, environment: str, now: datetime) -> Self:
        """Those that agents obey at this moment, whether or not the end of others was noted yet."""
        return self.live(environment).filter(starts_at__lte=now, expires_at__gt=now)

    def in_scope(self, scope: Scope) -> Self:
        """Those of exactly this scope."""
        return self.filter(service=scope.service, operation=scope.operation, instance=scope.instance, group=scope.group)


class Override(Scoped):
    """What a person imposed on the breakers in a scope, from when until when, and why.

    At most one is live in exactly one scope. `revision` is that of its last change, `end_revision` that of its end.
    """

    MODES = [(mode.value, mode.value) for mode in (State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY)]

    id = models.CharField(max_length=16, primary_key=True, default=new_override_id)
    environment = _environment()
    mode = models.CharField(max_length=16, choices=MODES)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = _person()
    by = models.CharField(max_length=NAME_CHARS)
    starts_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revision = models.BigIntegerField()
    ramp_s = models.FloatField(default=0.0)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = _name()
    end_reason = models.CharField(max_length=REASON_CHARS, default="", blank=True)
    end_revision = models.BigIntegerField(null=True, blank=True)

    objects = OverrideQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "operation", "service", "instance", "group"],
                condition=Q(ended_at__isnull=True),
                name="override_once_live",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(ended_at__isnull=True), name="override_due"),
            models.Index(fields=["environment", "operation", "starts_at"], name="override_history"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.mode} {self.operation}"

    def as_desired(self) -> DesiredOverride:
        """As agents are told; moments as seconds since the epoch."""
        return DesiredOverride(
            id=self.id,
            mode=State(self.mode),
            scope=self.scope,
            reason=self.reason,
            by=self.by,
            starts_at=self.starts_at.timestamp(),
            expires_at=self.expires_at.timestamp(),
            revision=self.revision,
            ramp_s=self.ramp_s,
        )


class Reset(Scoped, WrittenOnce):
    """A command that became state: each agent in the scope resets once when it first sees this revision."""

    environment = _environment()
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = _person()
    by = models.CharField(max_length=NAME_CHARS)
    at = models.DateTimeField()
    revision = models.BigIntegerField()
    ramp_s = models.FloatField(default=0.0)

    class Meta:
        indexes = [models.Index(fields=["environment", "revision"], name="reset_by_revision")]

    def __str__(self) -> str:
        return f"reset {self.operation} {self.revision}"

    def as_desired(self) -> DesiredReset:
        """As agents are told."""
        return DesiredReset(scope=self.scope, revision=self.revision, ramp_s=self.ramp_s)


class PolicyRelease(WrittenOnce):
    """One version of an environment's policy document. The newest is live: going back is a release of its own."""

    environment = _environment()
    version = models.IntegerField()
    document = models.JSONField()
    summary = models.CharField(max_length=REASON_CHARS)
    reason = models.CharField(max_length=REASON_CHARS)
    by_user = _person()
    by = models.CharField(max_length=NAME_CHARS)
    created_at = models.DateTimeField()
    revision = models.BigIntegerField(help_text="With which it went live.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["environment", "version"], name="policy_version_once")]

    def __str__(self) -> str:
        return f"policy {self.version} of {self.environment}"


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

    environment = _environment()
    number = models.BigIntegerField()
    at = models.DateTimeField()
    actor_kind = models.CharField(max_length=8)
    actor_name = models.CharField(max_length=NAME_CHARS)
    actor_id = models.CharField(max_length=32, default="")
    verb = models.CharField(max_length=40)
    object = models.CharField(max_length=4 * NAME_CHARS)
    operation = _name()
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


class RoleGrant(models.Model):
    """What a person may do in one environment, or everywhere (`*`)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants")
    environment = _environment()
    role = models.CharField(max_length=16)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "environment"], name="role_once")]

    def __str__(self) -> str:
        return f"{self.role} in {self.environment}"
