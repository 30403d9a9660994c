"""Lets one call through an open breaker now, not after its cooldown: a command that becomes state, like a reset."""

from __future__ import annotations

from typing import Required, Unpack

from recovery_ops import wire
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.control.breakers.models.overrides import BreakerProbe
from recovery_ops.control.core import checks
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.policy.scope import Scope


class Probing(CommandContext):
    """What `probe` is given."""

    scope: Required[Scope]


def probe(**asked: Unpack[Probing]) -> CommandResult[BreakerProbe]:
    """Let each open breaker in a scope try one call now; what comes of it decides. One that a person holds stays held.

    Raises CommandRejected: 403, 400 by field, 404 for a breaker nobody reported, 409 when it was changed since `seen`.
    """
    environment, scope = asked["environment"], asked["scope"]
    command = Command.of("breaker.probe", scope, asked)

    def write(revision: int) -> Change[BreakerProbe]:
        command.check_fresh(revision - 1)
        made = BreakerProbe.objects.create(
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
        )
        after = {"probe_at": revision, "scope": wire.scope_document(scope)}
        return Change(object=made, revision=revision, after=after)

    with command.noted():
        command.check()
        checks.require_known_breaker(environment, scope)
        impact = impact_of(environment, scope, now=command.now)
        return execute(command, write, recall=_recalled, impact=impact)


def _recalled(entry: AuditEntry) -> BreakerProbe:
    return BreakerProbe.objects.get(environment=entry.environment, revision=entry.revision or 0)
