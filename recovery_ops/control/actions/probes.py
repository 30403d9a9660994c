"""Lets one call through an open breaker now, not after its cooldown: a command that becomes state, like a reset."""

from __future__ import annotations

from typing import Required, Unpack

from recovery_ops import wire
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import AuditEntry, BreakerProbe
from recovery_ops.rules.scope import Scope


class Probing(Asked):
    """What `probe` is given."""

    scope: Required[Scope]


def probe(**asked: Unpack[Probing]) -> Done[BreakerProbe]:
    """Let each open breaker in a scope try one call now; what comes of it decides. One that a person holds stays held.

    Raises Refused: 403, 400 by field, 404 for a breaker nobody reported, 409 when it was changed since `seen`.
    """
    environment, scope = asked["environment"], asked["scope"]
    attempt = Attempt.of("breaker.probe", "probe", scope, asked)

    def write(revision: int) -> Step[BreakerProbe]:
        attempt.check_fresh(revision - 1)
        made = BreakerProbe.objects.create(
            environment=environment,
            service=scope.service,
            operation=scope.operation,
            instance=scope.instance,
            group=scope.group,
            reason=attempt.reason,
            by_user_id=attempt.by.user_id,
            by=attempt.by.name,
            at=attempt.now,
            revision=revision,
        )
        after = {"probe_at": revision, "scope": wire.scope_document(scope)}
        return Step(object=made, revision=revision, after=after)

    with attempt.noted():
        attempt.check()
        checks.require_known_breaker(environment, scope)
        impact = impact_of(environment, scope, now=attempt.now)
        return carry_out(attempt, write, recall=_recalled, impact=impact)


def _recalled(entry: AuditEntry) -> BreakerProbe:
    return BreakerProbe.objects.get(environment=entry.environment, revision=entry.revision or 0)
