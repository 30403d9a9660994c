"""Closes breakers by a person's word, with a fresh window: a command that travels as state, so that none misses it."""

from __future__ import annotations

from typing import Required, Unpack

from recovery_ops import wire
from recovery_ops.control.actions import checks
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.overrides import end_in_scope
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import AuditEntry, Reset
from recovery_ops.rules.scope import Scope


class Resetting(Asked):
    """What `reset` is given."""

    scope: Required[Scope]


def reset(**asked: Unpack[Resetting]) -> Done[Reset]:
    """Close the breakers in a scope with a fresh window, and end the override that rests on exactly this scope.

    A large fleet closes over a ramp, so that a service that just came back does not meet everybody at once.
    Raises Refused: 403, 400 by field, 404 for a breaker nobody reported, 409 when it was changed since `seen`.
    """
    environment, scope = asked["environment"], asked["scope"]
    attempt = Attempt.of("breaker.reset", "reset", scope, asked)

    def write(revision: int) -> Step[Reset]:
        attempt.check_fresh(revision - 1)
        ended = end_in_scope(scope, attempt, revision)
        made = Reset.objects.create(
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
            ramp_s=impact.ramp_s,
        )
        before = {"overrides": [one.pk for one in ended]}
        after = {"reset_at": revision, "scope": wire.scope_document(scope), "ramp_s": made.ramp_s}
        return Step(object=made, revision=revision, before=before, after=after)

    with attempt.noted():
        attempt.check()
        checks.require_known_breaker(environment, scope)
        impact = impact_of(environment, scope, now=attempt.now)
        return carry_out(attempt, write, recall=_recalled, impact=impact)


def _recalled(entry: AuditEntry) -> Reset:
    return Reset.objects.get(environment=entry.environment, revision=entry.revision or 0)
