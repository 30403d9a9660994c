"""Which agents and operations a rule or an override speaks of, and which of several wins."""

from __future__ import annotations

from fnmatch import fnmatchcase

from recovery_ops.rules.records import dataclass

ANY = "*"


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
    """A part of an environment. `*` (also at the end of a name, `model:*`) stands for anything.

    `operation` is compared with the operation's name and with its breaker's, because a breaker is named after its
    operation unless a shared backend is declared.
    """

    service: str = ANY
    operation: str = ANY
    instance: str = ANY
    group: str = ANY

    def holds(self, place: Place) -> bool:
        """Whether the place lies in this scope."""
        return (
            _fits(self.instance, place.instance)
            and _fits(self.service, place.service)
            and _fits(self.group, place.group)
            and (_fits(self.operation, place.operation) or _fits(self.operation, place.breaker))
        )

    def reaches(self, *, service: str, instance: str, group: str = "") -> bool:
        """Whether an instance lies in this scope with at least one operation that it may have."""
        return _fits(self.instance, instance) and _fits(self.service, service) and _fits(self.group, group)

    @property
    def rank(self) -> tuple[int, int]:
        """How specific: instance > service + operation > operation > service > group > environment.

        The second number breaks ties between wildcards: more literal characters win.
        """
        literal = sum(len(part.rstrip(ANY)) for part in (self.instance, self.service, self.operation, self.group))
        if self.instance != ANY:
            return (5, literal)
        if self.service != ANY and self.operation != ANY:
            return (4, literal)
        if self.operation != ANY:
            return (3, literal)
        if self.service != ANY:
            return (2, literal)
        if self.group != ANY:
            return (1, literal)
        return (0, literal)

    @property
    def is_whole_environment(self) -> bool:
        """Whether nothing narrows it."""
        return self.rank == (0, 0)


def _fits(pattern: str, name: str) -> bool:
    if pattern == ANY:
        return True
    if ANY in pattern:
        return fnmatchcase(name, pattern.replace("[", "[[]"))
    return pattern == name
