"""Which chains of fallbacks never end: an operation that is its own fallback, also over others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recovery_ops.rules.scope import ANY, Scope


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
