"""The list of breakers in groups: by service, by provider, or by the group of their instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from events.rows import BreakerRow
from events.wording import listing

T = TypeVar("T")
NAMES_MOST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """One way to group: its name in addresses, its word, what of a breaker it goes by, and where there is nothing."""

    name: str
    word: str
    parts_of: Callable[[BreakerRow], Sequence[str]]
    nobody: str


GROUPINGS: Mapping[str, Grouping] = {
    one.name: one
    for one in (
        Grouping(name="service", word="service", parts_of=lambda row: row.services, nobody="No service"),
        Grouping(
            name="provider", word="provider", parts_of=lambda row: row.providers, nobody="No provider in the last 24 h"
        ),
        Grouping(name="group", word="group", parts_of=lambda row: row.groups, nobody="No group"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Generic[T]):
    """The rows under one heading, with the names in common. A breaker of two services stands once, under both."""

    title: str
    names: Sequence[str]
    rows: Sequence[T]


def in_groups(
    rows: Iterable[T], breaker_of: Callable[[T], BreakerRow], grouping: Grouping | None
) -> Sequence[Group[T]]:
    """The rows by what they have in common, each group where its first row was; one without a title where none is
    asked for.
    """
    if grouping is None:
        return [Group(title="", names=(), rows=list(rows))]
    found: dict[tuple[str, ...], list[T]] = {}
    for row in rows:
        found.setdefault(tuple(grouping.parts_of(breaker_of(row))), []).append(row)
    return [
        Group(title=listing(list(parts), most=NAMES_MOST) or grouping.nobody, names=parts, rows=some)
        for parts, some in found.items()
    ]
