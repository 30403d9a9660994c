"""The columns of a table: by which of them its rows are sorted, and which are left out. The address says both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.http import HttpRequest

from recovery_ops.control.views.paging import from_the_start

T = TypeVar("T")
_SORT, _COLUMN = "sort", "column"
_DOWN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[T]):
    """One column: its name in addresses, its heading, and what rows are sorted by; without `key` they are not.

    What is most is wanted first of numbers and moments (`is_most_first`), of names what comes first.
    """

    name: str
    word: str
    key: Callable[[T], Any] | None = None
    is_number: bool = False
    is_most_first: bool = False
    is_fixed: bool = False
    """Whether it cannot be left out: it says what a row is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The heading of a column. `order` is `ascending` or `descending` where rows are sorted by it."""

    word: str
    href: str
    order: str
    is_number: bool


class Columns(Generic[T]):
    """The columns that a request asks for: `sort=calls`, `sort=-calls`, and a `column=` for each one to be shown."""

    def __init__(self, request: HttpRequest, columns: Sequence[Column[T]], *, before: int = 0) -> None:
        """`before` counts the columns that stand in front of these, such as that of the boxes to choose rows with."""
        self._request, self._columns, self._before = request, columns, before
        asked = request.GET.get(_SORT, "")
        name, self._is_down = asked.removeprefix(_DOWN), asked.startswith(_DOWN)
        self._sorted = next((one for one in columns if one.name == name and one.key is not None), None)
        known = {one.name for one in columns}
        self._chosen = set(request.GET.getlist(_COLUMN)) & known

    @property
    def is_sorted(self) -> bool:
        """Whether somebody asked for an order of their own."""
        return self._sorted is not None

    @property
    def sorted_by(self) -> str:
        """The order in words; empty for the usual one."""
        if self._sorted is None:
            return ""
        return f"by {self._sorted.word.lower()}, {'descending' if self._is_down else 'ascending'}"

    def in_order(self, rows: Iterable[T]) -> list[T]:
        """The rows in the order that is asked for, those without a value last; as they came where none is."""
        found, by = list(rows), self._sorted
        if by is None or by.key is None:
            return found
        values = [(by.key(row), row) for row in found]
        known = [pair for pair in values if pair[0] is not None]
        known.sort(key=lambda pair: pair[0], reverse=self._is_down)
        return [row for _, row in known] + [row for value, row in values if value is None]

    @property
    def heads(self) -> list[Head]:
        """The headings, each with the address that sorts by it, and the other way round the second time."""
        return [
            Head(word=one.word, href=self._href(one), order=self._order(one), is_number=one.is_number)
            for one in self._columns
        ]

    @property
    def hidden(self) -> str:
        """The places of the columns that are left out, counted from 1, for `data-hide`."""
        if not self._chosen:
            return ""
        places = enumerate(self._columns, start=1 + self._before)
        return " ".join(str(place) for place, one in places if not one.is_fixed and one.name not in self._chosen)

    @property
    def choices(self) -> list[tuple[str, str, bool]]:
        """Name, heading, and whether it is shown, of those that may be left out."""
        return [
            (one.name, one.word, not self._chosen or one.name in self._chosen)
            for one in self._columns
            if not one.is_fixed
        ]

    @property
    def kept(self) -> list[tuple[str, str]]:
        """What else the address says, for the form that chooses columns."""
        query = self._request.GET
        return [(name, value) for name, values in query.lists() if name != _COLUMN for value in values]

    def _order(self, one: Column[T]) -> str:
        if one is not self._sorted:
            return ""
        return "descending" if self._is_down else "ascending"

    def _href(self, one: Column[T]) -> str:
        if one.key is None:
            return ""
        is_down = not self._is_down if one is self._sorted else one.is_most_first
        query = from_the_start(self._request)
        query[_SORT] = f"{_DOWN if is_down else ''}{one.name}"
        return f"?{query.urlencode()}"
