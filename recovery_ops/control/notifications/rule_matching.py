"""Which of the rules tells what happened: what each asks for, from which severity on, and about what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from events.queries.breakers import providers_of, reported
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.notifications.models.notifications import NotificationRule
from recovery_ops.control.notifications.triggers import Occurrence
from recovery_ops.rules.notifications.grouping import Phase, Severity
from recovery_ops.rules.policy.scope import Place, Scope

ENDS_TOLD_ALONE = "degradation_ended"
"""The trigger by which an end is told to who did not hear of the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What rules are narrowed by and no occurrence says itself.

    `served`: the providers behind each operation and breaker, by the calls of the last day. `causes`: the fingerprints
    that a rule is about, by its number: of a cause that people merged all of its parts.
    """

    served: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    causes: Mapping[int, AbstractSet[str]] = field(default_factory=dict)

    def providers_of(self, one: Occurrence) -> AbstractSet[str]:
        """Whose trouble it is, as far as that is known."""
        return one.providers or self.served.get(one.operation, frozenset())


def narrowing_of(
    environment: str, rules: Iterable[NotificationRule], now: datetime, *, is_snoozed: bool = False
) -> Narrowing:
    """What these rules need to know. Two queries where one names a provider or some are snoozed, one where one names a
    cause.
    """
    rules = list(rules)
    with_causes = [rule for rule in rules if rule.causes]
    grouping = grouping_of(environment) if with_causes else None
    parts = {
        rule.pk: frozenset(part for name in rule.causes for part in (name, *grouping.parts(grouping.head(name))))
        for rule in with_causes
        if grouping is not None
    }
    is_about_providers = is_snoozed or any(rule.providers for rule in rules)
    return Narrowing(served=served(environment, now) if is_about_providers else {}, causes=parts)


def served(environment: str, now: datetime) -> Mapping[str, AbstractSet[str]]:
    """The providers behind each breaker and operation, by the calls of the last day. Two queries."""
    found: dict[str, set[str]] = {}
    known = reported(environment, now=now)
    for breaker, providers in providers_of(environment, now=now).items():
        operations = known[breaker].operations if breaker in known else ()
        for name in (breaker, *operations):
            found.setdefault(name, set()).update(providers)
    return found


def is_for(rule: NotificationRule, one: Occurrence, narrowing: Narrowing, *, is_told: bool) -> bool:
    """Whether a rule tells this: it asks for it, or told how it began."""
    if one.rule is not None and one.rule != rule.pk:
        return False
    if is_told and one.phase in (Phase.ENDED, Phase.ACKNOWLEDGED):
        return True
    if one.triggers.isdisjoint(rule.triggers) or one.at < rule.since:
        return False
    if one.phase is Phase.ACKNOWLEDGED or (one.phase is Phase.ENDED and ENDS_TOLD_ALONE not in rule.triggers):
        return False  # nobody heard of its beginning
    return one.severity.reaches(Severity(rule.least_severity)) and _fits(rule, one, narrowing)


def is_of_providers(patterns: Iterable[str], providers: Iterable[str]) -> bool:
    """Whether one of the providers is one of these; a pattern has a `*` in it."""
    providers = list(providers)
    return any(matches(pattern, name) for pattern in patterns for name in providers)


def matches(pattern: str, name: str) -> bool:
    """Whether a name is what a rule's pattern means; an empty one means everything."""
    return Scope(operation=pattern or "*").holds(Place(service="", instance="", operation=name))


def _fits(rule: NotificationRule, one: Occurrence, narrowing: Narrowing) -> bool:
    if one.operation and not matches(rule.operation, one.operation):
        return False
    if one.queue and not matches(rule.queue, one.queue):
        return False
    if rule.causes and one.causes.isdisjoint(narrowing.causes.get(rule.pk, frozenset())):
        return False
    return not rule.providers or is_of_providers(rule.providers, narrowing.providers_of(one))
