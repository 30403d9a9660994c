"""Capacity incidents as pages and programs read them, and their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from events.capacity.moves import BreakerMoves, united_moves
from events.queries.sums import capacity_name
from events.wording import listing
from recovery_ops.rules.enums import Category


class Owner(StrEnum):
    """Attribution: who could end it."""

    PROVIDER = "provider"
    QUOTA = "quota"
    NETWORK = "network"
    UNREACHABLE = "unreachable"


OWNER_WORDS: dict[Owner, str] = {
    Owner.PROVIDER: "Provider overloaded, no action needed",
    Owner.QUOTA: "Our quota",
    Owner.NETWORK: "Our network: no DNS answer or no route",
    Owner.UNREACHABLE: "Unreachable: provider or network",
}
OWNER_CHIPS: dict[Owner, str] = {
    Owner.PROVIDER: "provider",
    Owner.QUOTA: "our quota",
    Owner.NETWORK: "our network",
    Owner.UNREACHABLE: "unreachable",
}

NAMED_SHARE = 0.02
"""Of the failures of an event: a region with less is not in its name."""

_OF_THE_PROVIDER = (Category.OVERLOADED, Category.SERVER_ERROR)
OF_THE_WAY = (Category.NETWORK, Category.TIMEOUT)
"""What never reached the service, or never came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the runs that an outage reached used in all, by those that said so at their end."""

    tokens: int = 0
    tokens_runs: int = 0
    cost_usd: float = 0.0
    cost_runs: int = 0

    def tokens_of(self, runs: int) -> int | None:
        """Estimated for so many runs: as many each as those that said it. None where none did."""
        return round(self.tokens * max(1.0, runs / self.tokens_runs)) if self.tokens_runs else None

    def cost_usd_of(self, runs: int) -> float | None:
        """The same in US dollars."""
        return self.cost_usd * max(1.0, runs / self.cost_runs) if self.cost_runs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionChange:
    """When the attribution of an outage became another, and its failures by category then: the reason."""

    at: datetime
    number: int
    """Of which part of it."""
    before: Owner
    after: Owner
    categories: Mapping[Category, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityEventRow:
    """One outage. Numbers are zero until they have been read (`is_read`).

    Of several that are one, runs, instances and services are "at least" until they were counted together
    (`is_partial`); the peak and the runs that wait are those of the part with most.
    """

    id: int
    name: str
    provider: str
    model: str
    operation: str
    regions: Mapping[str, int]
    """Failures by region of what was called, the most frequent first, as far as anybody said."""
    is_joined: bool
    """Whether the rule made it one with an earlier one."""
    started: datetime
    last: datetime
    is_over: bool
    owner: Owner
    is_read: bool
    read_to: datetime
    """Its last failure when its numbers were read."""
    is_partial: bool
    failures: int
    categories: Mapping[Category, int]
    codes: Mapping[str, int]
    """Failures by HTTP status, the most frequent first; empty for those to which nothing was answered."""
    operations: Mapping[str, int]
    foreground: int
    runs: int
    instances: int
    services: Mapping[str, int]
    """How many instances of each service it reached."""
    peak_per_min: int
    peak_at: datetime | None
    longest_wait_s: float | None
    breakers: Mapping[str, int]
    """How often each opened before its last failure."""
    moves: tuple[BreakerMoves, ...]
    """What those did until it was over, and for an hour after it."""
    fallbacks: int
    waiting: int
    """Runs whose last word is a wait that is not over."""
    spent: Spent
    merged_into: int | None
    attributions: tuple[AttributionChange, ...] = ()
    """Changes of its attribution, the oldest first."""
    parts: tuple[CapacityEventRow, ...] = ()
    """What people made one event of, the lowest number first; empty for an event that is by itself."""

    @property
    def number(self) -> str:
        """What people call it."""
        return f"CE-{self.id}"

    @property
    def region(self) -> str:
        """The region, of one that is by itself; empty where nobody said."""
        return next(iter(self.regions), "")

    @property
    def names(self) -> frozenset[str]:
        """The backends that it is an outage of, without their regions."""
        return frozenset(capacity_name(part.provider, part.model, part.operation) for part in self.parts or (self,))

    @property
    def made_by(self) -> str:
        """Who made one of several: `rule`, `person`, or `rule and person`; the rule where nobody had to."""
        joined = sum(part.is_joined for part in self.parts)
        if joined >= len(self.parts) - 1:
            return "rule"
        return "rule and person" if joined else "person"

    @property
    def made_by_words(self) -> str:
        """The same for people."""
        return {"rule": "the rule", "person": "a person"}.get(self.made_by, "the rule and a person")

    def lasted(self, now: datetime) -> timedelta:
        """From its first to its last failure; to `now` while it goes on."""
        return (self.last if self.is_over else max(now, self.last)) - self.started

    @property
    def background(self) -> int:
        return self.failures - self.foreground

    @property
    def tokens(self) -> int | None:
        """Estimated: what the runs that it reached used in all. None where none of them said it."""
        return self.spent.tokens_of(self.runs)

    @property
    def cost_usd(self) -> float | None:
        """Estimated: what the runs that it reached cost in all. None where none of them said it."""
        return self.spent.cost_usd_of(self.runs)


def united(number: int, parts: Sequence[CapacityEventRow], counted: Mapping[str, Any]) -> CapacityEventRow:
    """Several events as the one that people say they are.

    A run that met two of them is not counted twice: `counted` has runs, instances and services of all of them, and
    until it is there they are at least those of the part with most, as are what they used and how many wait. Nor is
    what two parts of one operation that were at once saw both.
    """
    ordered = sorted(parts, key=lambda part: part.id)
    worst = max(ordered, key=lambda part: part.peak_per_min)
    most = max(ordered, key=lambda part: part.runs)
    at_once = _at_once(ordered)
    categories = _added([part.categories for part in ordered])
    waits = [part.longest_wait_s for part in ordered if part.longest_wait_s is not None]
    return replace(
        ordered[0],
        id=number,
        name=_name_of(ordered),
        regions=_added([part.regions for part in ordered]),
        is_joined=False,
        started=min(part.started for part in ordered),
        last=max(part.last for part in ordered),
        is_over=all(part.is_over for part in ordered),
        owner=max(ordered, key=lambda part: part.failures).owner,
        is_read=all(part.is_read for part in ordered),
        read_to=max(part.read_to for part in ordered),
        is_partial=not counted,
        failures=sum(part.failures for part in ordered),
        categories=categories,
        codes=_added([part.codes for part in ordered]),
        operations=_added([part.operations for part in ordered]),
        foreground=sum(part.foreground for part in ordered),
        runs=counted.get("runs") or max(part.runs for part in ordered),
        instances=counted.get("instances") or max(part.instances for part in ordered),
        services=counted.get("services") or _most([part.services for part in ordered]),
        peak_per_min=worst.peak_per_min,
        peak_at=worst.peak_at,
        longest_wait_s=max(waits, default=None),
        breakers=_added([_most([part.breakers for part in some]) for some in at_once]),
        moves=united_moves(part.moves for part in sorted(parts, key=lambda part: part.last)),
        fallbacks=sum(max(part.fallbacks for part in some) for some in at_once),
        waiting=max(part.waiting for part in ordered),
        spent=most.spent,
        merged_into=None,
        attributions=tuple(sorted((one for part in ordered for one in part.attributions), key=lambda one: one.at)),
        parts=tuple(ordered),
    )


def regional_name(name: str, regions: Iterable[str]) -> str:
    """`helios / large in eu-west-1`; the name alone where nobody said a region."""
    told = [region for region in regions if region]
    return f"{name} in {', '.join(told)}" if told else name


def _name_of(parts: Sequence[CapacityEventRow]) -> str:
    """`helios (search_web), helios / large in eu-west-1, us-east-1; helios / small`: each with its regions.

    A region in which next to nothing failed is on the page and not in the name.
    """
    least = sum(part.failures for part in parts) * NAMED_SHARE
    regions_of: dict[str, set[str]] = {}
    for part in parts:
        told = {region for region, count in part.regions.items() if count >= least}
        regions_of.setdefault(_name_in_whole(part), set()).update(told)
    names_in: dict[tuple[str, ...], list[str]] = {}
    for name, regions in sorted(regions_of.items()):
        names_in.setdefault(tuple(sorted(regions)), []).append(name)
    return "; ".join(regional_name(", ".join(names), regions) for regions, names in names_in.items())


def _name_in_whole(part: CapacityEventRow) -> str:
    """Its backend's name; of a provider without a model with the tools that failed: beside others it needs them."""
    name = capacity_name(part.provider, part.model, part.operation)
    if part.model or not part.provider or not part.operations:
        return name
    return f"{name} ({listing(sorted(part.operations), most=2)})"


def _at_once(parts: Sequence[CapacityEventRow]) -> list[list[CapacityEventRow]]:
    """Groups of parts that have an operation in common and were at one time: what stood in, or opened, both saw."""
    groups: list[list[CapacityEventRow]] = []
    for part in parts:
        mine = [group for group in groups if any(_saw_the_same(part, one) for one in group)]
        groups = [group for group in groups if group not in mine]
        groups.append([part, *(one for group in mine for one in group)])
    return groups


def _saw_the_same(one: CapacityEventRow, other: CapacityEventRow) -> bool:
    is_at_once = one.started <= other.last and other.started <= one.last
    return is_at_once and not one.operations.keys().isdisjoint(other.operations)


_Key = TypeVar("_Key", bound=str)


def _added(counts: Sequence[Mapping[_Key, int]]) -> dict[_Key, int]:
    total: dict[_Key, int] = {}
    for one in counts:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _most(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Each name with the highest of its counts: what two of them have in common is not counted twice."""
    names = sorted({name for one in counts for name in one})
    return {name: max(one.get(name, 0) for one in counts) for name in names}


def owner_of(categories: Mapping[Category, int], *, is_ours: bool) -> Owner:
    """Who could end it, by what most of its own failures are, whatever else fails in the same minute.

    What never reached the service is our network's only where most of it failed on our side (`is_ours`): a service
    that is down itself refuses and resets connections too.
    """
    provider = sum(categories.get(one, 0) for one in _OF_THE_PROVIDER)
    quota = categories.get(Category.RATE_LIMITED, 0)
    way = sum(categories.get(one, 0) for one in OF_THE_WAY)
    if way > max(provider, quota):
        return Owner.NETWORK if is_ours else Owner.UNREACHABLE
    return Owner.QUOTA if quota > provider else Owner.PROVIDER


def owner_word(stored: object, *, is_ours: bool) -> str:
    """The same of the counts that an event keeps; empty before they were first read."""
    categories = categories_of(stored)
    return owner_of(categories, is_ours=is_ours).value if categories else ""


def categories_of(stored: object) -> dict[Category, int]:
    """The stored counts by category, the most frequent first."""
    given: Mapping[str, int] = stored if isinstance(stored, Mapping) else {}
    known = {Category(word): count for word, count in given.items() if word in set(Category)}
    return dict(sorted(known.items(), key=lambda item: (-item[1], item[0])))


def is_about(row: CapacityEventRow, *, provider: str = "", region: str = "") -> bool:
    """Whether it is an outage of this provider, and failed in this region; empty leaves nothing out."""
    providers = {part.provider for part in row.parts or (row,)}
    return (not provider or provider in providers) and (not region or region in row.regions)


def going_on(rows: Sequence[CapacityEventRow]) -> list[CapacityEventRow]:
    """Those that are not over."""
    return [row for row in rows if not row.is_over]
