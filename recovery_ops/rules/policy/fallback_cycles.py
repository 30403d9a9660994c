"""Which chains of fallbacks never end: an operation that is its own fallback, also over others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recovery_ops.rules.policy.scope import ANY, Place, Scope


class Fallbacks(NamedTuple):
    """What one rule says stands in, in order, and where the rule stands in its document."""

    path: str
    scope: Scope
    names: Sequence[str]


def cycles(rules: Iterable[Fallbacks]) -> list[str]:
    """The paths of the rules whose operation leads back to itself, in order.

    Agents of one service may obey other rules than those of the next, so each kind of agent that a rule speaks of is
    asked by itself: the most specific rule that reaches it wins for each operation, as it does for a call.
    """
    known = [rule for rule in rules if rule.scope.operation != ANY]
    looping: set[str] = set()
    for service, instance, group in {(one.scope.service, one.scope.instance, one.scope.group) for one in known}:
        mine = [one for one in known if one.scope.reaches(service=service, instance=instance, group=group)]
        winning = {one.scope.operation: one for one in sorted(mine, key=lambda one: one.scope.rank)}
        chain = {operation: one.names for operation, one in winning.items()}
        looping.update(one.path for operation, one in winning.items() if _leads_back(chain, operation))
    return [rule.path for rule in known if rule.path in looping]


def pattern_cycles(rules: Iterable[Fallbacks]) -> dict[str, str]:
    """By the path of a rule for a pattern, a name for which it leads back to itself: `s*` to `search` does.

    Asked of the names that the rules say, for each kind of agent as `cycles` does. Not refused: another rule for that
    name may be on its way, and policies that say so are live.
    """
    known = [*rules]
    names = sorted({name for one in known for name in (one.scope.operation, *one.names) if ANY not in name})
    found: dict[str, str] = {}
    for service, instance, group in sorted({(one.scope.service, one.scope.instance, one.scope.group) for one in known}):
        winning: dict[str, Fallbacks] = {}
        for name in names:
            place = Place(service=service, instance=instance, group=group, operation=name, breaker=name)
            mine = [one for one in known if one.scope.holds(place)]
            if mine:
                winning[name] = max(reversed(mine), key=lambda one: one.scope.rank)
        chain = {name: one.names for name, one in winning.items()}
        for name, one in winning.items():
            if ANY in one.scope.operation and _leads_back(chain, name):
                found.setdefault(one.path, name)
    return found


def _leads_back(chain: Mapping[str, Sequence[str]], start: str) -> bool:
    seen: set[str] = set()
    waiting = [*chain.get(start, ())]
    while waiting:
        name = waiting.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            waiting += chain.get(name, ())
    return False
