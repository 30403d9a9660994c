"""How the failures of an issue spread: over services, and over providers and models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from events.failures.rows import Field, Sample
from events.moments import from_us

_SPREAD_OVER = {Field.SERVICE: "Service", Field.BACKEND: "Provider and model"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How many failures have one value of a field, what share of all, and when the first and the last were."""

    value: str
    count: int
    share: float
    first: datetime
    last: datetime


def spread_of(part: Sample) -> list[tuple[Field, str, list[Spread]]]:
    """By service and by backend, each with its word, the most frequent value first. No query."""
    return [(name, word, list(_spread(part, name))) for name, word in _SPREAD_OVER.items()]


def _spread(part: Sample, name: Field) -> Iterator[Spread]:
    for value, count in part.counts(name).most_common():
        seen = [one for one in part.seen if one.values[name] == value]
        yield Spread(
            value=value,
            count=count,
            share=count / part.total,
            first=from_us(min(one.first_us for one in seen)),
            last=from_us(max(one.last_us for one in seen)),
        )
