"""What a list of the console is to a file of it: its columns, how many rows there are, and the rows, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import Protocol

from django.http import HttpRequest, QueryDict

from events.pages.table_files import Cell
from events.pages.window import Window

Cells = tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which rows: of an environment, narrowed as an address says it, in [start, end) where the list has a range.

    `user_id` is the person who asks, for what is theirs; None for a key.
    """

    environment: str
    given: QueryDict
    start: datetime | None
    end: datetime | None
    user_id: int | None
    now: datetime

    def conditions(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """What narrows it, of these names, as it was said."""
        return [(name, value) for name in names if (value := self.given.get(name, "").strip())]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows, and how many of those that the list counts itself by have been looked at since the batch before."""

    rows: Sequence[Cells]
    looked: int


class FileList(Protocol):
    """One list that can be long.

    `counts` is what `total` counts, in words: its rows, or what it has to look at to find them (`is_bound`).
    """

    name: str
    page: str
    title: str
    one: str
    several: str
    counts: str
    columns: Sequence[str]
    asks: Sequence[str]
    at_once_most: int
    is_bound: bool
    has_range: bool

    def needs(self, wish: Wish) -> tuple[str, str]:
        """The permission that it takes to read these rows, and where."""

    def total(self, wish: Wish, *, most: int | None = None) -> int:
        """How many of what it counts there are; counting may stop behind `most`. One query."""

    def batches(self, wish: Wish) -> Iterator[Batch]:
        """The rows in the order of the page."""


def wish_in(request: HttpRequest, environment: str, window: Window | None, now: datetime) -> Wish:
    """The rows that a request for a page asks for; without a window, those of all times."""
    start, end = (None, None) if window is None else (window.start, window.end)
    return Wish(environment=environment, given=request.GET, start=start, end=end, user_id=request.user.pk, now=now)


def rows_at_once(one: FileList, wish: Wish) -> Iterator[Cells]:
    """The rows of a file that somebody waits for: the first `at_once_most`."""
    return islice(chain.from_iterable(batch.rows for batch in one.batches(wish)), one.at_once_most)
