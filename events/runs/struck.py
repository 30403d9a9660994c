"""Whether a failure belongs to an outage: of its backend, in its region, while it lasted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from recovery_ops.rules.incidents.detection import OUTAGE_COUNTS

COUNTED = frozenset(category.value for category in OUTAGE_COUNTS)


class Struck(NamedTuple):
    """One backend in one region while it was short of capacity. Empty: nobody said, as in its failures."""

    provider: str
    model: str
    operation: str
    region: str
    first_us: int
    last_us: int

    def has(self, *, at_us: int, provider: str, model: str, operation: str, region: str) -> bool:
        """Whether it holds a failure of that moment."""
        is_its = (provider, model, region) == (self.provider, self.model, self.region)
        return is_its and self.operation in ("", operation) and self.first_us <= at_us <= self.last_us


def is_of_outage(
    parts: Iterable[Struck],
    *,
    category: str,
    at_us: int,
    provider: str,
    model: str,
    operation: str,
    region: str | None,
) -> bool:
    """Whether a failure is one of those that an outage of these parts is made of."""
    said = region or ""
    return category in COUNTED and any(
        part.has(at_us=at_us, provider=provider, model=model, operation=operation, region=said) for part in parts
    )
