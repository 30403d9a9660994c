"""Which instances are first: a share of them, chosen by their names alone, so that everybody agrees on it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.scope import ANY, Scope

_BITS = 48
WHOLE = 1 << _BITS
"""One more than the highest place: a cohort of all places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The instances of a service and a group (`*`: any) whose place lies from `floor` on and below `limit`.

    Who is in it depends on nothing but names: an instance that starts later, or comes back, is on the same side, and
    a cohort with the same salt and a higher limit holds all that this one holds.
    """

    salt: str
    floor: int = 0
    limit: int = WHOLE
    service: str = ANY
    group: str = ANY

    def holds(self, *, service: str, instance: str, group: str = "") -> bool:
        """Whether an instance is in it."""
        if not self.reaches(service=service, group=group):
            return False
        return self.floor <= place_of(self.salt, service, instance) < self.limit

    def reaches(self, *, service: str, group: str = "") -> bool:
        """Whether an instance could be in it: it is of the service and the group."""
        return Scope(service=self.service, group=self.group).reaches(service=service, instance="", group=group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """The instances that an override does not hold: those named by service and name, and those of a cohort."""

    instances: frozenset[tuple[str, str]] = frozenset()
    cohorts: tuple[Cohort, ...] = ()

    @staticmethod
    def of(document: Mapping[str, Any]) -> Spared:
        """What `document` reads back."""
        return Spared(
            instances=frozenset((service, instance) for service, instance in document.get("instances", ())),
            cohorts=tuple(Cohort(salt=salt, limit=limit) for salt, limit in document.get("cohorts", ())),
        )

    @property
    def document(self) -> dict[str, Any]:
        """As JSON; empty for nobody."""
        named = {"instances": [list(one) for one in sorted(self.instances)]} if self.instances else {}
        return named | ({"cohorts": [[one.salt, one.limit] for one in self.cohorts]} if self.cohorts else {})

    def holds(self, *, service: str, instance: str) -> bool:
        """Whether an instance is let out."""
        is_named = (service, instance) in self.instances
        return is_named or any(one.holds(service=service, instance=instance) for one in self.cohorts)


def place_of(salt: str, service: str, instance: str) -> int:
    """Where a name stands in a row of `WHOLE` places: always at the same one for one salt, and evenly spread."""
    digest = hashlib.sha256(f"{salt}\x1f{service}\x1f{instance}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[: _BITS // 8], "big")


def limit_for(salt: str, share: float, instances: Iterable[tuple[str, str]]) -> int:
    """The limit with which a share (above 0, up to 1) of these instances, named by service and name, is in the cohort.

    At least one of them is, rounded up; where there are none yet, each that comes is in it with that likelihood.
    """
    if share >= 1:
        return WHOLE
    places = sorted({place_of(salt, service, instance) for service, instance in instances})
    if not places:
        return math.ceil(share * WHOLE)
    wanted = max(1, math.ceil(round(share * len(places), 6)))
    return WHOLE if wanted >= len(places) else places[wanted - 1] + 1
