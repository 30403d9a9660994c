"""Removal of the demonstration: a user's command, and the deletion of its data by the worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Required, Unpack

from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone

from events.keys import CACHE_S, forget_keys
from events.models import AgentKey
from events.store.removal import count_events, delete_rows, remove_environment
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry, AuditHead
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.demonstration.selectors import demonstration_of
from recovery_ops.rules.policy.scope import Scope

PERMISSION = "remove_demonstration"
ABOUT = "demonstration"
_LATE = timedelta(seconds=CACHE_S + 5.0)
"""How long a process may let a revoked key in, and what it let in takes to be stored."""
_KEPT = (AuditEntry, AuditHead, Demonstration, RoleGrant)
"""The audit log proves who removed what; roles belong to users."""


class Removing(CommandContext):
    """What `remove_demonstration` is given; `confirm` is the environment's name."""

    confirm: Required[str]


def remove_demonstration(**asked: Unpack[Removing]) -> CommandResult[Demonstration]:
    """Stop the demonstration and have all data of its environment deleted. Raises CommandRejected: 403, 400, 404."""
    fault = "" if asked["confirm"] == asked["environment"] else f"has to be {asked['environment']}"
    command = Command.of("demonstration.remove", Scope(), asked, {"confirm": fault}, about=ABOUT)

    def write(revision: int) -> Change[Demonstration]:
        found = demonstration_of(command.environment)
        if found is None:
            detail = f"{command.environment} has no demonstration."
            raise CommandRejected("unknown_demonstration", detail, status=NOT_FOUND)
        if found.removed_at is not None:
            return Change(object=found, revision=revision, was_already=True)
        found.removed_at, found.emptied_at = command.now, None
        found.save(update_fields=["removed_at", "emptied_at"])
        # Agents that still run are rejected from now on, whoever started them.
        AgentKey.objects.filter(environment=command.environment, revoked_at=None).update(revoked_at=command.now)
        transaction.on_commit(forget_keys)
        return Change(object=found, revision=revision, after={"events": count_events(command.environment)})

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: Demonstration.objects.get(environment=entry.environment))


def empty_removed(now: datetime, *, may_go_on: Callable[[], bool] = lambda: True) -> int:
    """Delete the data of removed demonstrations; return how many were emptied. May be lost, doubled, or run twice."""
    due = Demonstration.objects.filter(emptied_at=None).exclude(removed_at=None)
    return sum(_empty(one, now, may_go_on) for one in due)


def _empty(one: Demonstration, now: datetime, may_go_on: Callable[[], bool]) -> bool:
    if one.removed_at is None or not remove_environment(one.environment, may_go_on=may_go_on):
        return False
    with transaction.atomic():
        audit.lock(one.environment)
        # All are found before the first is deleted: some are found by what they belong to.
        found = [(table, list(rows.values_list("pk", flat=True))) for table, rows in _rows_of(one.environment)]
        for table, keys in found:
            delete_rows(table._default_manager.filter(pk__in=keys))
        if now < one.removed_at + _LATE:
            return False
        Demonstration.objects.filter(pk=one.pk).update(emptied_at=now)
        deed = audit.AuditRecord(verb="demonstration.empty", object=f"{ABOUT} in {one.environment}")
        # In the environment that stays: that of the demonstration is on no list from now on.
        audit.append(settings.ENVIRONMENT, deed, by=system_actor("console"), at=now)
    return True


def _rows_of(environment: str) -> list[tuple[type[models.Model], models.QuerySet[Any]]]:
    """The rows of intent of an environment, by their own column or by that of what they belong to."""
    found = []
    for table in apps.get_app_config("control").get_models():
        if table in _KEPT:
            continue
        names = {one.name for one in table._meta.get_fields()}
        if "environment" in names:
            found.append((table, table._default_manager.filter(environment=environment)))
            continue
        parents = [
            one.name
            for one in table._meta.concrete_fields
            if one.related_model and any(other.name == "environment" for other in one.related_model._meta.get_fields())
        ]
        if parents:
            theirs = Q(*((f"{name}__environment", environment) for name in parents), _connector=Q.OR)
            found.append((table, table._default_manager.filter(theirs)))
    return found


def may_start(environment: str, *, is_wanted: bool) -> bool:
    """Whether the demonstration of an environment starts: not after its removal, unless it `is_wanted` again."""
    found = demonstration_of(environment)
    if found is None or found.removed_at is None:
        return True
    if is_wanted:
        empty_removed(max(timezone.now(), found.removed_at + _LATE))
        found.delete()
    return is_wanted
