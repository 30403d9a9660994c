"""What a recorded failure is under the rules of a policy, as far as its fact tells what the rules ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recovery_ops.control.replay.recorded_calls import Attempt, Recording
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.policy.classification_rules import ClassificationRule, rule_for

MOST_CHANGES = 100


def classified(attempt: Attempt, rules: Sequence[ClassificationRule]) -> Failure:
    """The failure of an attempt under these rules, whatever rule named it when it was recorded."""
    failure, case = attempt.failure, attempt.case
    rule = _rule_for(rules, attempt)
    if rule is not None:
        return replace(
            failure, category=rule.category, evidence=Evidence.POLICY_RULE, rule=rule.name, instead_of=case.category
        )
    if failure.rule is None:
        return failure
    return replace(failure, category=case.category, evidence=_evidence_of(attempt), rule=None, instead_of=None)


def _rule_for(rules: Sequence[ClassificationRule], attempt: Attempt) -> ClassificationRule | None:
    """The rule that names it. One that named it when it was recorded still does where its record tells too little."""
    named, case = attempt.failure.rule, attempt.case
    if named is None or case.message:
        return rule_for(rules, case)
    for rule in rules:
        if not rule.may_name(case.category):
            continue
        if rule.match.fits(case) or (rule.name == named and rule.match.hinges_on_untold(case)):
            return rule
    return None


def _evidence_of(attempt: Attempt) -> Evidence:
    """What told the category that a rule replaced: its fact says only the category, so the nearest is taken."""
    if attempt.case.category is Category.UNKNOWN:
        return Evidence.NONE
    return Evidence.HTTP_STATUS if attempt.failure.status_code is not None else Evidence.EXCEPTION_TYPE


@dataclass(slots=True)
class Changes:
    """Which failures two policies classify otherwise, added up over recordings."""

    counts: Counter[tuple[str, Category, Category, str]] = field(default_factory=Counter)
    """By operation, the category under the old policy, that under the new one, and the rule that makes the change."""
    not_told: int = 0
    """Failures of which a rule of the new policy asks for a code or a message that their facts do not tell."""

    def add(self, recording: Recording, old: Sequence[ClassificationRule], new: Sequence[ClassificationRule]) -> None:
        """Compare every failed attempt of one instance."""
        if not old and not new and not any(one.failure.rule for call in recording.calls for one in call.attempts):
            return
        for call in recording.calls:
            for attempt in call.attempts:
                before, after = classified(attempt, old), classified(attempt, new)
                if before.category is not after.category:
                    rule = after.rule or before.rule or ""
                    self.counts[call.operation, before.category, after.category, rule] += 1
                elif after.rule is None:
                    self.not_told += any(
                        rule.may_name(attempt.case.category) and rule.match.hinges_on_untold(attempt.case)
                        for rule in new
                    )

    def join(self, other: Changes) -> None:
        """Add up those of other recordings."""
        self.counts.update(other.counts)
        self.not_told += other.not_told

    def as_document(self) -> dict[str, Any]:
        """What the page and the API show."""
        changes = [
            {"operation": operation, "old": old.value, "new": new.value, "rule": rule, "failures": count}
            for (operation, old, new, rule), count in self.counts.most_common(MOST_CHANGES)
        ]
        return {"changes": changes, "failures": self.counts.total(), "not_told": self.not_told}
