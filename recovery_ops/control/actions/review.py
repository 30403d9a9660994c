"""Whether an environment asks that somebody else approves a policy, and what becomes of releases without approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Required, Unpack

from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.hands import identity_in, is_own
from recovery_ops.control.actions.holding import Grave
from recovery_ops.control.models import AuditEntry, BreakGlassReview, EnvironmentRules, PolicyRelease
from recovery_ops.control.refusals import FORBIDDEN, UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

PRODUCTION = "prod"
_RULES, _REVIEW = "environment.rules", "release.review"


def is_review_needed(environment: str) -> bool:
    """Whether a policy has to be approved by somebody else: where two have to want what reaches everybody, or it was
    said so; where nobody said anything, in production.
    """
    rules = EnvironmentRules.objects.filter(environment=environment).first()
    return _reviewed(environment, rules) or (rules is not None and rules.is_second_needed)


def _reviewed(environment: str, rules: EnvironmentRules | None) -> bool:
    said = None if rules is None else rules.is_review_needed
    return environment.startswith(PRODUCTION) if said is None else said


class Ruling(Asked):
    """What `set_rules` is given."""

    is_review_needed: NotRequired[bool]
    is_second_needed: NotRequired[bool]


def set_rules(**asked: Unpack[Ruling]) -> Done[EnvironmentRules]:
    """Say whether policies here need the approval of somebody else, and whether what reaches everybody takes two.

    What is not said stays. Where two have to want things, they have to want less of it too. Raises Refused: 403, 400.
    """
    environment = asked["environment"]
    wanted: dict[str, bool] = {name: asked[name] for name in ("is_review_needed", "is_second_needed") if name in asked}
    faults = {"is_review_needed": "" if wanted else "is missing, and so is is_second_needed"}
    grave = Grave.of("set_rules", asked, **wanted) if False in wanted.values() else None
    attempt = Attempt.of(
        _RULES, "set_rules", Scope(), asked, faults, about=environment, is_for_agents=False, grave=grave
    )

    def write(revision: int) -> Step[EnvironmentRules]:
        rules = EnvironmentRules.objects.filter(environment=environment).first()
        before = {
            "is_review_needed": _reviewed(environment, rules),
            "is_second_needed": rules is not None and rules.is_second_needed,
        }
        after = before | wanted
        if rules is not None and after == before:
            return Step(object=rules, revision=revision, was_already=True)
        rules = rules or EnvironmentRules(environment=environment)
        rules.is_review_needed = wanted.get("is_review_needed", rules.is_review_needed)
        rules.is_second_needed = after["is_second_needed"]
        rules.save()
        changed: dict[str, bool] = {name: before[name] for name in wanted}
        return Step(object=rules, revision=revision, before=changed, after=wanted)

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
    if entry is not None and is_own(attempt.by, identity_in(entry), attempt.environment):
        detail = "You released it yourself; somebody else has to look at it."
        raise Refused("own_work", detail, status=FORBIDDEN)
    return release


def _recalled(entry: AuditEntry) -> BreakGlassReview:
    return BreakGlassReview.objects.get(pk=entry.after["id"])
