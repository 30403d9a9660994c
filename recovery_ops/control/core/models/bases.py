"""What every table of intent is made of: names, environments, people, scopes, and rows that are written once."""

from __future__ import annotations

from typing import Any, TypeVar

from django.conf import settings
from django.db import models

from recovery_ops.rules.policy.scope import ANY, Scope

ENVIRONMENT_CHARS = 64
NAME_CHARS = 200
REASON_CHARS = 500
EVERYWHERE = "*"
"""As an environment: all of them."""


class Unchangeable(Exception):
    """A row that is written once was to be changed or deleted."""


def name_field(default: str = "") -> models.CharField[str, str]:
    return models.CharField(max_length=NAME_CHARS, default=default, blank=True)


def environment_field() -> models.CharField[str, str]:
    return models.CharField(max_length=ENVIRONMENT_CHARS)


def person_field() -> models.ForeignKey[Any, Any]:
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

    service = name_field(ANY)
    operation = name_field(ANY)
    instance = name_field(ANY)
    group = name_field(ANY)

    class Meta:
        abstract = True

    @property
    def scope(self) -> Scope:
        """The part of the environment it speaks of."""
        return Scope(service=self.service, operation=self.operation, instance=self.instance, group=self.group)
