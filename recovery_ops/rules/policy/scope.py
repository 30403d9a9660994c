"""Which agents and operations a rule or an override speaks of, and which of several wins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from recovery_ops.rules.lazy_dataclass import dataclass

ANY = "*"
_OTHER_WILDCARDS = re.compile(r"[\[?]")
"""What `fnmatch` knows besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One operation in one instance: what scopes are asked about."""

    service: str
    instance: str
    operation: str = ""
    breaker: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A part of an environment. `*` (also within a name, `model:*`) stands for anything; no other character does.

    `operation` is compared with the operation's name and with its breaker's, because a breaker is named after its
    operation unless a shared backend is declared.
    """

    service: str = ANY
    operation: str = ANY
    instance: str = ANY
    group: str = ANY

    def holds(self, place: Place) -> bool:
        """Whether the place lies in this scope."""
        name = self.operation
        if name != place.operation and name != place.breaker and ANY not in name:
            return False  # of a thousand rules nearly all go here: a lint asks each of each
        return (
            _fits(self.instance, place.instance)
            and _fits(self.service, place.service)
            and _fits(self.group, place.group)
            and (_fits(self.operation, place.operation) or _fits(self.operation, place.breaker))
        )

    def holds_any(self, places: Iterable[Place]) -> bool:
        """Whether one of the places lies in this scope: a breaker is wherever an operation of it is."""
        return any(self.holds(place) for place in places)

    def reaches(self, *, service: str, instance: str, group: str = "") -> bool:
        """Whether an instance lies in this scope with at least one operation that it may have."""
        return _fits(self.instance, instance) and _fits(self.service, service) and _fits(self.group, group)

    @property
    def rank(self) -> tuple[int, int, int]:
        """How specific: instance > service + operation > operation > service > group > environment.

        The second number breaks ties: more literal characters win; then the third: more parts that are whole names.
        """
        parts = (self.instance, self.service, self.operation, self.group)
        letters = sum(len(part.replace(ANY, "")) for part in parts)
        return (self._level, letters, sum(ANY not in part for part in parts))

    @property
    def _level(self) -> int:
        if self.instance != ANY:
            return 5
        if self.service != ANY and self.operation != ANY:
            return 4
        if self.operation != ANY:
            return 3
        if self.service != ANY:
            return 2
        return 1 if self.group != ANY else 0

    @property
    def is_whole_environment(self) -> bool:
        """Whether nothing narrows it."""
        return self._level == 0


def _fits(pattern: str, name: str) -> bool:
    if pattern == ANY:
        return True
    if ANY in pattern:
        return fnmatchcase(name, _OTHER_WILDCARDS.sub(r"[\g<0>]", pattern))
    return pattern == name
