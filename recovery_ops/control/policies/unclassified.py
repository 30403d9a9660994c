"""The inbox of causes that nobody could name: what waits, is proposed, is left so, or is named by a rule by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.failures.unknown import Matched, Unknown, matched, unknown_causes
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.models.unclassified import UnknownCause
from recovery_ops.control.policies.services.unclassified import LOOK_BACK
from recovery_ops.rules.classification.rule_suggestions import Suggestion, narrowest_match, suggested_category
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.classification_rules import (
    NAME_CHARS,
    ClassificationRule,
    Match,
    parse_classification,
    rule_document,
    rule_for,
)
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.settings import Problem

WAITING, PROPOSED, DISMISSED, NAMED = "waiting", "proposed", "dismissed", "named"
_OVER = (PolicyProposal.REJECTED, PolicyProposal.ROLLED_BACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One cause in the inbox. `named_by`: the rule of the live policy that names such failures from now on."""

    cause: Unknown
    state: str
    said: UnknownCause | None
    suggestion: Suggestion | None
    named_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """Everything in it, the most frequent first, and those that were dismissed and came no more."""

    items: Sequence[Item]
    quiet: Sequence[UnknownCause]

    def of(self, state: str) -> list[Item]:
        """Those in one state."""
        return [one for one in self.items if one.state == state]


def inbox(environment: str, *, now: datetime) -> Inbox:
    """What there is of the last seven days."""
    causes = unknown_causes(environment, start=now - LOOK_BACK, end=now)
    said = {
        one.fingerprint: one
        for one in UnknownCause.objects.filter(environment=environment).select_related("proposal").order_by("-at")[:500]
    }
    live = live_policy(environment)
    rules = parse_policy(live.document, version=live.version).classification
    items = [_item(cause, said.pop(cause.fingerprint, None), rules) for cause in causes]
    quiet = [one for one in said.values() if one.state == UnknownCause.DISMISSED]
    return Inbox(items=items, quiet=quiet)


def _item(cause: Unknown, said: UnknownCause | None, rules: Sequence[ClassificationRule]) -> Item:
    newest = cause.cases[0]
    rule = rule_for(rules, newest)
    state = WAITING
    if rule is not None:
        state = NAMED
    elif said is not None and said.state == UnknownCause.DISMISSED:
        state = DISMISSED
    elif said is not None and said.state == UnknownCause.PROPOSED and _is_going_on(said.proposal):
        state = PROPOSED
    return Item(
        cause=cause,
        state=state,
        said=said,
        suggestion=suggested_category(newest),
        named_by="" if rule is None else rule.name,
    )


def _is_going_on(proposal: PolicyProposal | None) -> bool:
    return proposal is not None and proposal.state not in (*_OVER, PolicyProposal.SUPERSEDED, PolicyProposal.LIVE)


def draft_of(item: Item) -> dict[str, Any]:
    """A rule for it, as JSON: the narrowest match, and a category only where a word suggests one."""
    match = narrowest_match(item.cause.cases)
    kind = item.cause.cases[0].exception_type.rpartition(".")[2] or item.cause.error_type
    where = next(iter(item.cause.operations), "")
    name = f"{kind} in {where}" if kind and where else kind or where or item.cause.fingerprint
    category = item.suggestion.category if item.suggestion is not None else Category.UNKNOWN
    draft = rule_document(ClassificationRule(name=name[:NAME_CHARS].strip(), match=match, category=category))
    if item.suggestion is None:
        del draft["category"]
    return draft


def preview_of(environment: str, rule: object, *, now: datetime) -> tuple[Matched | None, dict[str, str]]:
    """What a rule would match of the last seven days' failures; or its faults, by path within the rule.

    What it says of them does not matter for that, so a rule without a category is looked at too.
    """
    problems: list[Problem] = []
    whole = {"category": Category.SERVER_ERROR.value, **rule} if isinstance(rule, Mapping) else rule
    parsed = parse_classification([whole], "rule", problems)
    if problems:
        return None, {one.path.removeprefix("rule[0]").lstrip("."): one.message for one in problems}
    match: Match = parsed[0].match
    return matched(environment, match, start=now - LOOK_BACK, end=now), {}
