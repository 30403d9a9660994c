"""Closes breakers by a person's word, with a fresh window: a command that travels as state, so that none misses it.

Where more than one breaker of one instance is not closed, it goes in steps: see `ramps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Required, Unpack

from recovery_ops import wire
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.breakers.models.overrides import Reset
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.ramp_progress import targets_of
from recovery_ops.control.breakers.services import ramps
from recovery_ops.control.breakers.services.overrides import end_in_scope
from recovery_ops.control.core import checks
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.rules.policy.scope import Scope

_MANY = 2
_ABOUT_CHARS = 400


class Resetting(CommandContext):
    """What `reset` is given."""

    scope: Required[Scope]


def reset(**asked: Unpack[Resetting]) -> CommandResult[Reset | ResetRamp]:
    """Close the breakers in a scope with a fresh window, and end the override that rests on exactly this scope.

    At most one that is not closed is reset at once; more of them in steps, so that a service that just came back does
    not meet everybody, and the first that opens again keeps the others as they are.
    Raises CommandRejected: 403, 400 by field, 404 for a breaker nobody reported, 409 when it was changed since `seen`.
    """
    environment, scope = asked["environment"], asked["scope"]
    command = Command.of("breaker.reset", scope, asked)

    def write(revision: int) -> Change[Any]:
        command.check_fresh(revision - 1)
        targets = targets_of(environment, [scope], now=command.now)
        if len(targets) >= _MANY:
            return ramps.begun(command, [scope], targets, revision)
        ended = end_in_scope(scope, command, revision)
        made = Reset.objects.create(
            environment=environment,
            service=scope.service,
            operation=scope.operation,
            instance=scope.instance,
            group=scope.group,
            reason=command.reason,
            by_user_id=command.by.user_id,
            by=command.by.name,
            at=command.now,
            revision=revision,
            ramp_s=impact.ramp_s,
        )
        before = {"overrides": [one.pk for one in ended]}
        after = {"reset_at": revision, "scope": wire.scope_document(scope), "ramp_s": made.ramp_s}
        return Change(object=made, revision=revision, before=before, after=after)

    with command.noted():
        command.check()
        checks.require_known_breaker(environment, scope)
        impact = impact_of(environment, scope, now=command.now)
        return execute(command, write, recall=_recalled, impact=impact)


def reset_many(names: Sequence[str], where: Scope, **asked: Unpack[CommandContext]) -> CommandResult[ResetRamp] | None:
    """Reset several breakers as one ramp; None, and nothing is done, where at most one of them is not closed.

    Raises CommandRejected as `reset`, for all of them at once.
    """
    scopes = [replace(where, operation=name) for name in names]
    about = ", ".join(names)[:_ABOUT_CHARS]
    command = Command.of("breaker.reset", scopes[0], asked, about=about, objects=len(names))

    def write(revision: int) -> Change[Any]:
        for scope in scopes:
            replace(command, scope=scope, about="").check_fresh(revision - 1)
        targets = targets_of(command.environment, scopes, now=command.now)
        step = ramps.begun(command, scopes, targets, revision)
        return replace(step, after={**(step.after or {}), "names": [*names]})

    if (
        not is_used(command.environment, command.key)
        and len(targets_of(command.environment, scopes, now=command.now)) < _MANY
    ):
        return None
    with command.noted():
        command.check()
        return execute(command, write, recall=ramps.recalled)


def is_used(environment: str, key: str | None) -> bool:
    """Whether something was done with this idempotency key."""
    return key is not None and AuditEntry.objects.filter(environment=environment, key=key).exists()


def names_begun(environment: str, key: str | None) -> frozenset[str] | None:
    """The breakers for which `reset_many` was carried out with this idempotency key; None: it was not."""
    entry = None if key is None else AuditEntry.objects.filter(environment=environment, key=key).first()
    after = None if entry is None else entry.after
    return frozenset(after["names"]) if isinstance(after, dict) and "names" in after else None


def check_reset(scope: Scope, **asked: Unpack[CommandContext]) -> None:
    """Raise Refused when this alone could not be reset."""
    command = Command.of("breaker.reset", scope, asked)
    with command.noted():
        command.check()
        checks.require_known_breaker(command.environment, scope)
        command.check_fresh(current_revision(command.environment))


def _recalled(entry: AuditEntry) -> Reset | ResetRamp:
    if "ramp" in entry.after:
        return ramps.recalled(entry)
    return Reset.objects.get(environment=entry.environment, revision=entry.revision or 0)
