"""Whether an environment asks that somebody else approves a policy, and what becomes of releases without approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Required, Unpack

from recovery_ops.control.core.approvals import GatedAction
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.key_owners import entry_identity, is_own
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.production import by_setting_or_name
from recovery_ops.control.core.rejections import FORBIDDEN, NOT_FOUND, CommandRejected
from recovery_ops.control.policies.models.policies import BreakGlassReview, PolicyRelease
from recovery_ops.rules.policy.scope import Scope

RULES = ("is_production", "is_review_needed", "is_second_needed")
"""The fields of `EnvironmentRules` that can be set."""
_RULES, _REVIEW = "environment.rules", "release.review"


def is_review_needed(environment: str) -> bool:
    """Whether a policy has to be approved by somebody else: where two have to want what reaches everybody, or it was
    said so; where nobody said anything, in production.
    """
    rules = EnvironmentRules.objects.filter(environment=environment).first()
    asked = rules_in_force(environment, rules)
    return asked["is_review_needed"] or asked["is_second_needed"]


def rules_in_force(environment: str, rules: EnvironmentRules | None) -> dict[str, bool]:
    """What holds here, by field: what was said, else what follows from the name and from being production."""
    in_production = by_setting_or_name(environment, None if rules is None else rules.is_production)
    review = None if rules is None else rules.is_review_needed
    return {
        "is_production": in_production,
        "is_review_needed": in_production if review is None else review,
        "is_second_needed": rules is not None and rules.is_second_needed,
    }


class Ruling(CommandContext):
    """What `set_rules` is given."""

    is_production: NotRequired[bool]
    is_review_needed: NotRequired[bool]
    is_second_needed: NotRequired[bool]


def set_rules(**asked: Unpack[Ruling]) -> CommandResult[EnvironmentRules]:
    """Say whether this environment is production, whether policies here need the approval of somebody else, and whether
    what reaches everybody takes two.

    What is not said stays. Where two have to want things, they have to want less of it too. Raises CommandRejected:
    403, 400.
    """
    environment = asked["environment"]
    wanted = {name: bool(value) for name, value in asked.items() if name in RULES}
    faults = {"is_review_needed": "" if wanted else "is missing; set it, is_second_needed or is_production"}
    gated_action = GatedAction.of("set_rules", asked, **wanted) if False in wanted.values() else None
    command = Command.of(_RULES, Scope(), asked, faults, about=environment, gated_action=gated_action)

    def write(revision: int) -> Change[EnvironmentRules]:
        rules = EnvironmentRules.objects.filter(environment=environment).first()
        before = rules_in_force(environment, rules)
        after = before | wanted
        if rules is not None and after == before:
            return Change(object=rules, revision=revision, was_already=True)
        rules = rules or EnvironmentRules(environment=environment)
        for name, value in wanted.items():
            setattr(rules, name, value)
        rules.save()
        changed: dict[str, bool] = {name: before[name] for name in wanted}
        return Change(object=rules, revision=revision, before=changed, after=wanted)

    with command.noted():
        command.check()
        return execute(command, write, recall=lambda entry: EnvironmentRules.objects.get(pk=environment))


class Reviewing(CommandContext):
    """What `review_release` is given."""

    version: Required[int]


def review_release(**asked: Unpack[Reviewing]) -> CommandResult[BreakGlassReview]:
    """Take a release that went live without approval off the list: somebody else has looked at it, and says what of it.

    Raises CommandRejected: 403 also for who released it, 404, 400 for a release that needs no review.
    """
    environment, version = asked["environment"], asked["version"]
    release = PolicyRelease.objects.filter(environment=environment, version=version).first()
    command = Command.of(_REVIEW, Scope(), asked, about=f"policy {version}")

    def write(revision: int) -> Change[BreakGlassReview]:
        found = _reviewable(release, version, command)
        held = BreakGlassReview.objects.filter(release=found).first()
        if held is not None:
            return Change(object=held, revision=revision, was_already=True)
        made = BreakGlassReview.objects.create(
            release=found, by_user_id=command.by.user_id, by=command.by.name, at=command.now, reason=command.reason
        )
        return Change(object=made, revision=revision, after={"id": made.pk})

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def awaiting_review(environment: str) -> Sequence[PolicyRelease]:
    """Releases that nobody approved and nobody has looked at since, the newest first."""
    broken = PolicyRelease.objects.filter(environment=environment, is_break_glass=True, review=None)
    return list(broken.order_by("-version"))


def _reviewable(release: PolicyRelease | None, version: int, command: Command) -> PolicyRelease:
    if release is None:
        detail = f"{command.environment} has no policy {version}."
        raise CommandRejected("unknown_release", detail, status=NOT_FOUND, fields={"version": "is unknown"})
    if not release.is_break_glass:
        raise CommandRejected(
            "nothing_to_review", f"Policy {version} needs no review; it was not released by break-glass."
        )
    entry = AuditEntry.objects.filter(environment=command.environment, revision=release.revision).first()
    if entry is not None and is_own(command.by, entry_identity(entry), command.environment):
        detail = "You released this policy; another user has to review it."
        raise CommandRejected("own_work", detail, status=FORBIDDEN)
    return release


def _recalled(entry: AuditEntry) -> BreakGlassReview:
    return BreakGlassReview.objects.get(pk=entry.after["id"])
