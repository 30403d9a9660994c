"""Which of the outages found, each of one backend in one region, are one outage. Pure, and independent of order.

A backend that fails in several regions at once is one outage, and so is a provider that fails on several models and
tools at once, unless it is known that somebody else would have to end the one than the other: our quota is not the
provider's overload. At once: no more than `within_s` lies between them. What people said is kept to: nothing reaches
across a cut, and what they want by itself is joined to nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recovery_ops.rules.incidents.detection import BOUNDS, Interval, OutageBounds
from recovery_ops.rules.lazy_dataclass import dataclass


class Backend(NamedTuple):
    """What answers the calls; the operation only where nobody said who does."""

    provider: str
    model: str
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One outage of one backend in one region. `cuts` are those of the backend there, in seconds, ascending."""

    number: int
    backend: Backend
    interval: Interval
    owner: str = ""
    """Who could end it; empty while nobody knows."""
    cuts: Sequence[float] = ()
    is_alone: bool = False
    """A person said that it is an outage by itself."""


def are_one(one: Part, other: Part, bounds: OutageBounds = BOUNDS) -> bool:
    """Whether two parts are one outage, whichever is named first."""
    if one.is_alone or other.is_alone or not _are_at_once(one.interval, other.interval, bounds):
        return False
    return _are_of_one(one, other) and not _are_cut(one, other)


def wholes(parts: Iterable[Part], bounds: OutageBounds = BOUNDS) -> Mapping[int, int]:
    """The number of each part with that of the whole it belongs to, which is the lowest of its parts'."""
    heads: dict[int, int] = {}

    def head(number: int) -> int:
        while heads[number] != number:
            number = heads[number]
        return number

    near: list[Part] = []
    for part in sorted(parts, key=lambda part: (part.interval.started, part.number)):
        heads[part.number] = part.number
        near = [one for one in near if part.interval.started - one.interval.last <= bounds.within_s]
        for one in near:
            if are_one(one, part, bounds):
                low, high = sorted((head(one.number), head(part.number)))
                heads[high] = low
        near.append(part)
    return {number: head(number) for number in heads}


def _are_of_one(one: Part, other: Part) -> bool:
    if one.backend == other.backend:
        return True
    if not one.backend.provider or one.backend.provider != other.backend.provider:
        return False
    return one.owner == other.owner or not one.owner or not other.owner


def _are_at_once(one: Interval, other: Interval, bounds: OutageBounds) -> bool:
    return max(one.started, other.started) - min(one.last, other.last) <= bounds.within_s


def _are_cut(one: Part, other: Part) -> bool:
    """Whether a cut of either lies between their beginnings: what began before it and what began after it are two."""
    starts = one.interval.started, other.interval.started
    return any(bisect_right(cuts, starts[0]) != bisect_right(cuts, starts[1]) for cuts in (one.cuts, other.cuts))
