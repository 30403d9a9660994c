"""Whether an environment asks that somebody else approves a policy, and what becomes of releases without approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Required, Unpack

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actors import Actor
from recovery_ops.control.models import AuditEntry, BreakGlassReview, EnvironmentRules, PolicyRelease
from recovery_ops.control.refusals import FORBIDDEN, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

PRODUCTION = "prod"
_RULES, _REVIEW = "environment.rules", "release.review"


def is_review_needed(environment: str) -> bool:
    """Whether a policy has to be approved by somebody else. Where nobody said so: in production."""
    said = EnvironmentRules.objects.filter(environment=environment).values_list("is_review_needed", flat=True).first()
    return environment.startswith(PRODUCTION) if said is None else said


def identity(by: Actor) -> str:
    """What tells whether two deeds are one person's."""
    return f"{by.kind}:{by.id or by.name}"


class Ruling(Asked):
    """What `set_rules` is given."""

    is_review_needed: Required[bool]


def set_rules(**asked: Unpack[Ruling]) -> Done[EnvironmentRules]:
    """Say whether policies of this environment need the approval of somebody else. Raises Refused: 403, 400."""
    environment, wanted = asked["environment"], asked["is_review_needed"]
    attempt = Attempt.of(_RULES, "set_rules", Scope(), asked, about=environment, is_for_agents=False)

    def write(revision: int) -> Step[EnvironmentRules]:
        held = is_review_needed(environment)
        rules, is_new = EnvironmentRules.objects.get_or_create(
            environment=environment, defaults={"is_review_needed": wanted}
        )
        if held == wanted and not is_new:
            return Step(object=rules, revision=revision, was_already=True)
        rules.is_review_needed = wanted
        rules.save()
        before, after = {"is_review_needed": held}, {"is_review_needed": wanted}
        return Step(object=rules, revision=revision, before=before, after=after)

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=lambda entry: EnvironmentRules.objects.get(pk=environment))


class Reviewing(Asked):
    """What `review_release` is given."""

    version: Required[int]


def review_release(**asked: Unpack[Reviewing]) -> Done[BreakGlassReview]:
    """Take a release that went live without approval off the list: somebody else has looked at it, and says what of it.

    Raises Refused: 403 also for who released it, 404, 400 for a release that needs no review.
    """
    environment, version = asked["environment"], asked["version"]
    release = PolicyRelease.objects.filter(environment=environment, version=version).first()
    attempt = Attempt.of(_REVIEW, "approve_policy", Scope(), asked, about=f"policy {version}", is_for_agents=False)

    def write(revision: int) -> Step[BreakGlassReview]:
        found = _reviewable(release, version, attempt)
        held = BreakGlassReview.objects.filter(release=found).first()
        if held is not None:
            return Step(object=held, revision=revision, was_already=True)
        made = BreakGlassReview.objects.create(
            release=found, by_user_id=attempt.by.user_id, by=attempt.by.name, at=attempt.now, reason=attempt.reason
        )
        return Step(object=made, revision=revision, after={"id": made.pk})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def awaiting_review(environment: str) -> Sequence[PolicyRelease]:
    """Releases that nobody approved and nobody has looked at since, the newest first."""
    broken = PolicyRelease.objects.filter(environment=environment, is_break_glass=True, review=None)
    return list(broken.order_by("-version"))


def _reviewable(release: PolicyRelease | None, version: int, attempt: Attempt) -> PolicyRelease:
    if release is None:
        detail = f"There is no policy {version} in {attempt.environment}."
        raise Refused("unknown_release", detail, status=UNKNOWN, fields={"version": "is not known"})
    if not release.is_break_glass:
        raise Refused("nothing_to_review", f"Policy {version} went live in the ordinary way; there is nothing to do.")
    entry = AuditEntry.objects.filter(environment=attempt.environment, revision=release.revision).first()
    did = None if entry is None else f"{entry.actor_kind}:{entry.actor_id or entry.actor_name}"
    if did == identity(attempt.by):
        detail = "You released it yourself; somebody else has to look at it."
        raise Refused("own_work", detail, status=FORBIDDEN)
    return release


def _recalled(entry: AuditEntry) -> BreakGlassReview:
    return BreakGlassReview.objects.get(pk=entry.after["id"])
