"""When enough instances opened a breaker by themselves, the rest follow: trip, prolong, release, or leave alone.

Those that opened it are let out of the trip and go on by their own rules: their probes are what shows whether it is
still so. No share is ever taken from a shared bit, and where nobody is left to tell, nothing is prolonged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.fleet_settings import QuorumRule
from recovery_ops.rules.policy.scope import Place, Scope

RELEASE_PART = 0.5
"""The share has to fall below this part of the quorum before the trip is released, so that it does not flap."""


class Do(StrEnum):
    """What is to be done about one breaker."""

    NOTHING = "nothing"
    TRIP = "trip"
    EXTEND = "extend"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One breaker across the fleet at one moment. Times are seconds of one clock."""

    opened: int
    """Instances that report now and opened it by themselves: open, or half-open since."""
    reporting: int
    """Instances that report now and have it."""
    met_since: float | None = None
    """Since when, without a break, the quorum was found reached."""
    fallen_since: float | None = None
    """Since when, without a break, the share was found below the release."""
    held_until: float | None = None
    """When the rule's own trip ends; None: it holds none."""
    witnesses: int = 0
    """Of those that its trip lets out, how many report."""
    person: str = ""
    """Who set an override that stands there, or above it; empty: nobody."""
    rests_until: float = 0.0
    """Until when the rule stays away, because a person ended what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done, why, and the two moments to be remembered until the next look."""

    do: Do
    why: str
    met_since: float | None = None
    fallen_since: float | None = None


def rule_for(rules: Sequence[QuorumRule], breaker: str, operations: Sequence[str] = ()) -> QuorumRule | None:
    """The rule of a breaker: the one with the most specific pattern, of equals the last; None where there is none."""
    best: tuple[tuple[int, int, int], int] | None = None
    found = None
    for index, rule in enumerate(rules):
        scope = Scope(operation=rule.operation)
        names = operations or (breaker,)
        if any(scope.holds(Place(service="", instance="", operation=one, breaker=breaker)) for one in names):
            rank = (scope.rank, index)
            if best is None or rank >= best:
                best, found = rank, rule
    return found


def needed_of(rule: QuorumRule, reporting: int) -> int:
    """How many instances have to have opened it, of those that report."""
    return max(rule.minimum_count, math.ceil(round(rule.share * reporting, 6)))


def decide(rule: QuorumRule | None, seen: Seen, now: float) -> Decision:
    """What follows for one breaker; `rule` is None where the policy has none for it any more."""
    if seen.held_until is not None:
        return _while_held(rule, seen, now)
    if rule is None:
        return Decision(do=Do.NOTHING, why="no quorum rule")
    needed = needed_of(rule, seen.reporting)
    if seen.opened < needed:
        return Decision(
            do=Do.NOTHING, why=f"{seen.opened} of {seen.reporting} opened the breaker; the quorum is {needed}"
        )
    since = now if seen.met_since is None else seen.met_since
    if seen.person:
        return Decision(do=Do.NOTHING, why=f"an override by {seen.person} is active", met_since=since)
    if now < seen.rests_until:
        return Decision(do=Do.NOTHING, why="an operator cleared it; the rule is paused", met_since=since)
    if now - since < rule.hold_s:
        return Decision(do=Do.NOTHING, why=f"reached; must last {rule.hold_s:g} s", met_since=since)
    return Decision(do=Do.TRIP, why=f"{seen.opened} of {seen.reporting} instances opened the breaker", met_since=since)


def _while_held(rule: QuorumRule | None, seen: Seen, now: float) -> Decision:
    if rule is None:
        return Decision(do=Do.RELEASE, why="the policy has no quorum rule any more")
    if seen.person:
        return Decision(do=Do.RELEASE, why=f"an override by {seen.person} wins")
    if not seen.witnesses:
        return Decision(
            do=Do.NOTHING, why="no instance that opened the breaker reports; the override expires as planned"
        )
    needed = needed_of(rule, seen.reporting)
    if seen.opened < needed * RELEASE_PART:
        since = now if seen.fallen_since is None else seen.fallen_since
        do = Do.RELEASE if now - since >= rule.hold_s else Do.NOTHING
        few = f"only {seen.opened} of {seen.reporting} are open"
        none = f"0 of {seen.reporting} are open"
        return Decision(do=do, why=few if seen.opened else none, fallen_since=since)
    ends_in_s = (seen.held_until or now) - now
    if seen.opened >= needed and ends_in_s < rule.expires_s / 2:
        return Decision(do=Do.EXTEND, why=f"{seen.opened} of {seen.reporting} instances are open")
    return Decision(do=Do.NOTHING, why=f"{seen.opened} of {seen.reporting} are open")
