"""Which of several overrides and rules wins at one place, and why, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from events.queries import fleet
from events.wording import state_text
from recovery_ops.control.core.commands import scope_words
from recovery_ops.control.core.wording import with_reason
from recovery_ops.control.desired_state.document import Snapshot, Who
from recovery_ops.rules.desired_state import winning_override
from recovery_ops.rules.policy.model import Policy, parse_policy
from recovery_ops.rules.policy.scope import ANY, Place, Scope
from recovery_ops.rules.policy.settings import SETTINGS

_RANKS = ("environment", "group", "service", "operation", "service and operation", "instance")


class Ground(StrEnum):
    """What decides between a claim and the others: why it wins, or why what beats it does."""

    ALONE = "alone"
    SPECIFIC = "specific"
    LETTERS = "letters"
    NAMES = "names"
    NEWEST = "newest"
    LAST = "last"
    SPARED = "spared"
    AHEAD = "ahead"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One override or rule that speaks of the place. `why` says why it wins, or what beats it: the `ground`, and by
    which other it is beaten, for people.
    """

    name: str
    what: str
    scope: str
    wins: bool
    why: str
    ground: Ground
    beaten_by: str = ""
    is_let_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One setting: its value there, and who said so; `rule` is the policy's rule that did, empty where none does."""

    name: str
    value: Any
    by: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Everything that speaks of one place: overrides and rules, the winning one first, and the settings that hold."""

    overrides: Sequence[Claim]
    rules: Sequence[Claim]
    settings: Sequence[Said]


def placed(environment: str, place: Place, *, now: datetime) -> Place:
    """The place with the service and group of its instance where they are not said and one of that name lives.

    A rule for a service speaks of its instances, too, and who asks about an instance need not know of which it is.
    """
    if not place.instance or (place.service and place.group):
        return place
    found = [
        one
        for one in fleet(environment, now=now)
        if one.instance == place.instance and place.service in ("", one.service)
    ]
    if len(found) != 1:
        return place
    return replace(place, service=found[0].service, group=place.group or found[0].group)


def verdict_of(snapshot: Snapshot, place: Place, *, now: datetime, kind: str = "operation") -> Verdict:
    """What holds at a place. Where the agent's code says something, it beats the defaults; that is not known here."""
    return Verdict(
        overrides=override_claims(snapshot, place, now=now),
        rules=rule_claims(_policy(snapshot, place), place),
        settings=_settings(snapshot, place, kind),
    )


def override_claims(snapshot: Snapshot, place: Place, *, now: datetime) -> list[Claim]:
    """The overrides that speak of a place, the one that wins first."""
    at = now.timestamp()
    speaking = [one for one in snapshot.overrides if one.scope.holds(place)]
    who = Who(service=place.service, instance=place.instance, group=place.group)
    spared = {one.id for one in speaking if snapshot.lets_out(one.id, who)}
    winner = winning_override([one for one in speaking if one.id not in spared], [place], at)
    speaking.sort(key=lambda one: (one is winner, one.scope.rank, one.revision), reverse=True)
    claims = []
    for one in speaking:
        beaten_by = ""
        if one is winner:
            others = [other for other in speaking if other is not one and other.id not in spared and other.holds_at(at)]
            scopes = [other.scope for other in others]
            ground, why = _why_it_wins(one.scope, scopes, Ground.NEWEST, "newest revision at equal scope")
        elif one.id in spared:
            ground, why = Ground.SPARED, "excludes this instance"
        elif not one.holds_at(at):
            ground, why = (Ground.AHEAD, "not started") if at < one.starts_at else (Ground.OVER, "expired")
        elif winner is not None and winner.scope.rank > one.scope.rank:
            ground, advantage = _advantage(winner.scope, [one.scope])
            beaten_by, why = winner.id, f"{winner.id} wins: {advantage}"
        else:
            beaten_by = winner.id if winner else ""
            ground, why = Ground.NEWEST, f"{beaten_by or 'another override'} has a newer revision"
        claims.append(
            Claim(
                name=one.id,
                what=f"{state_text(one.mode)} by {with_reason(one.by, one.reason)}",
                scope=scope_words(one.scope),
                wins=one is winner,
                why=why,
                is_let_out=one.id in spared,
                ground=ground,
                beaten_by=beaten_by,
            )
        )
    return claims


def rule_claims(policy: Policy, place: Place) -> list[Claim]:
    """The rules of a policy that speak of a place, the one that comes first in front."""
    found = [(index, rule) for index, rule in enumerate(policy.rules) if rule.scope.holds(place)]
    found.sort(key=lambda item: (item[1].scope.rank, item[0]), reverse=True)
    scopes = [rule.scope for _, rule in found]
    claims = []
    for position, (_, rule) in enumerate(found):
        lists = [name for name in ("fallbacks", "models") if getattr(rule, name) is not None]
        said = ", ".join(name for name in SETTINGS if getattr(rule.settings, name) is not None)
        said = said or " and ".join(lists) or "none"
        if position == 0:
            beaten_by = ""
            ground, why = _why_it_wins(rule.scope, scopes[1:], Ground.LAST, "later rule at equal scope")
        else:
            beaten_by = found[0][1].id
            ground, why = Ground.LAST, f"{beaten_by} wins where both set a value"
        claims.append(
            Claim(
                name=rule.id,
                what=said,
                scope=scope_words(rule.scope),
                wins=position == 0,
                why=why,
                ground=ground,
                beaten_by=beaten_by,
            )
        )
    return claims


def _policy(snapshot: Snapshot, place: Place) -> Policy:
    """The policy that rules there: in the cohort of a rollout not the live one."""
    who = Who(service=place.service, instance=place.instance, group=place.group)
    found = snapshot.policy_for(who)
    return parse_policy(found.document, version=found.version)


def _why_it_wins(scope: Scope, others: Sequence[Scope], tie: Ground, tie_words: str) -> tuple[Ground, str]:
    if not others:
        return Ground.ALONE, "only match"
    if any(other.rank == scope.rank for other in others):
        return tie, f"{tie_words} ({rank_words(scope)})"
    ground, advantage = _advantage(scope, others)
    return ground, advantage


def _advantage(scope: Scope, others: Sequence[Scope]) -> tuple[Ground, str]:
    """What a scope has before those that it beats, as a code and in words."""
    alike = [other for other in others if other.rank[0] == scope.rank[0]]
    if not alike:
        return Ground.SPECIFIC, f"more specific scope ({rank_words(scope)})"
    among = f"at equal scope ({_RANKS[scope.rank[0]]})"
    if all(other.rank[1] < scope.rank[1] for other in alike):
        return Ground.LETTERS, f"longer pattern {among}"
    return Ground.NAMES, f"more exact names {among}"


def _settings(snapshot: Snapshot, place: Place, kind: str) -> list[Said]:
    policy = _policy(snapshot, place)
    held = policy.for_operation(place, kind=kind)
    rules = {rule.id: rule for rule in policy.rules}
    said = []
    for name in SETTINGS:
        by = next((one for one in held.winning_rules if getattr(rules[one].settings, name) is not None), "")
        said.append(
            Said(
                name=name,
                value=getattr(held.settings, name),
                by=f"rule {by}" if by else "agent code or default",
                rule=by,
            )
        )
    return said


def rank_words(scope: Scope) -> str:
    """How specific a scope is, in words."""
    parts = (scope.instance, scope.service, scope.operation, scope.group)
    named = " with a wildcard" if any(ANY in part and part != ANY for part in parts) else ""
    return _RANKS[scope.rank[0]] + named
