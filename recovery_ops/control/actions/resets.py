"""Closes breakers by a person's word, with a fresh window: a command that travels as state, so that none misses it.

Where more than one breaker of one instance is not closed, it goes in steps: see `ramps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Required, Unpack

from recovery_ops import wire
from recovery_ops.control.actions import checks, ramps
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.overrides import end_in_scope
from recovery_ops.control.desired import current_revision
from recovery_ops.control.impact import impact_of
from recovery_ops.control.models import AuditEntry, Reset, ResetRamp
from recovery_ops.control.ramping import targets_of
from recovery_ops.rules.scope import Scope

_MANY = 2
_ABOUT_CHARS = 400


class Resetting(Asked):
    """What `reset` is given."""

    scope: Required[Scope]


def reset(**asked: Unpack[Resetting]) -> Done[Reset | ResetRamp]:
    """Close the breakers in a scope with a fresh window, and end the override that rests on exactly this scope.

    At most one that is not closed is reset at once; more of them in steps, so that a service that just came back does
    not meet everybody, and the first that opens again keeps the others as they are.
    Raises Refused: 403, 400 by field, 404 for a breaker nobody reported, 409 when it was changed since `seen`.
    """
    environment, scope = asked["environment"], asked["scope"]
    attempt = Attempt.of("breaker.reset", "reset", scope, asked)

    def write(revision: int) -> Step[Any]:
        attempt.check_fresh(revision - 1)
        targets = targets_of(environment, [scope], now=attempt.now)
        if len(targets) >= _MANY:
            return ramps.begun(attempt, [scope], targets, revision)
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


def reset_many(names: Sequence[str], where: Scope, **asked: Unpack[Asked]) -> Done[ResetRamp] | None:
    """Reset several breakers as one ramp; None, and nothing is done, where at most one of them is not closed.

    Raises Refused as `reset`, for all of them at once.
    """
    scopes = [replace(where, operation=name) for name in names]
    about = ", ".join(names)[:_ABOUT_CHARS]
    attempt = Attempt.of("breaker.reset", "reset", scopes[0], asked, about=about)

    def write(revision: int) -> Step[Any]:
        for scope in scopes:
            replace(attempt, scope=scope, about="").check_fresh(revision - 1)
        targets = targets_of(attempt.environment, scopes, now=attempt.now)
        step = ramps.begun(attempt, scopes, targets, revision)
        return replace(step, after={**(step.after or {}), "names": [*names]})

    if (
        not is_used(attempt.environment, attempt.key)
        and len(targets_of(attempt.environment, scopes, now=attempt.now)) < _MANY
    ):
        return None
    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=ramps.recalled)


def is_used(environment: str, key: str | None) -> bool:
    """Whether something was done with this idempotency key."""
    return key is not None and AuditEntry.objects.filter(environment=environment, key=key).exists()


def names_begun(environment: str, key: str | None) -> frozenset[str] | None:
    """The breakers for which `reset_many` was carried out with this idempotency key; None: it was not."""
    entry = None if key is None else AuditEntry.objects.filter(environment=environment, key=key).first()
    after = None if entry is None else entry.after
    return frozenset(after["names"]) if isinstance(after, dict) and "names" in after else None


def check_reset(scope: Scope, **asked: Unpack[Asked]) -> None:
    """Raise Refused when this alone could not be reset."""
    attempt = Attempt.of("breaker.reset", "reset", scope, asked)
    with attempt.noted():
        attempt.check()
        checks.require_known_breaker(attempt.environment, scope)
        attempt.check_fresh(current_revision(attempt.environment))


def _recalled(entry: AuditEntry) -> Reset | ResetRamp:
    if "ramp" in entry.after:
        return ramps.recalled(entry)
    return Reset.objects.get(environment=entry.environment, revision=entry.revision or 0)
