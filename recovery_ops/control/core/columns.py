"""The columns of a table: by which its rows are sorted, which are left out, how wide each is. The address says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.http import HttpRequest
from django.utils.encoding import escape_uri_path

from events.pages.narrowing import set_aside
from recovery_ops.control.core.pagination import from_the_start

T = TypeVar("T")
_SORT, _COLUMN = "sort", "column"
_NARROW, _WIDE = "narrow", "wide"
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
    is_extra: bool = False
    """Whether it is shown to those only who choose it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The heading of a column. `order` is `ascending` or `descending` where rows are sorted by it."""

    word: str
    href: str
    order: str
    is_number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """How wide a column is, and the addresses that make it narrower and wider; empty where it is as far as it goes."""

    word: str
    is_narrow: bool
    is_wide: bool
    narrower_href: str
    wider_href: str


class Columns(Generic[T]):
    """The columns that a request asks for: `sort=calls`, `sort=-calls`, a `column=` for each one to be shown, and
    `narrow=` and `wide=` for those of another width than the usual one.
    """

    def __init__(self, request: HttpRequest, columns: Sequence[Column[T]], *, before: int = 0) -> None:
        """`before` counts the columns that stand in front of these, such as that of the boxes to choose rows with."""
        self._request, self._columns, self._before = request, columns, before
        asked = request.GET.get(_SORT, "")
        name, self._is_down = asked.removeprefix(_DOWN), asked.startswith(_DOWN)
        self._sorted = next((one for one in columns if one.name == name and one.key is not None), None)
        if self._sorted is None:
            set_aside(request.GET, _SORT, asked)
        known = {one.name for one in columns}
        for other in request.GET.getlist(_COLUMN):
            if other not in known:
                set_aside(request.GET, _COLUMN, other)
        self._chosen = set(request.GET.getlist(_COLUMN)) & known
        self._wide = set(request.GET.getlist(_WIDE)) & known
        self._narrow = set(request.GET.getlist(_NARROW)) & known - self._wide

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

    def shows(self, name: str) -> bool:
        """Whether the column of this name is shown, or rows are sorted by it."""
        one = next(one for one in self._columns if one.name == name)
        return self._is_shown(one) or one is self._sorted

    @property
    def heads(self) -> list[Head]:
        """The headings, each with the address that sorts by it, and the other way round the second time."""
        return [
            Head(word=one.word, href=self._href(one), order=self._order(one), is_number=one.is_number)
            for one in self._columns
        ]

    @property
    def width(self) -> int:
        """How many columns there are, shown or not, with those in front: what a heading across them spans."""
        return self._before + len(self._columns)

    @property
    def hidden(self) -> str:
        """The places of the columns that are left out, counted from 1, for `data-hide`."""
        return self._places({one.name for one in self._columns if not self._is_shown(one)})

    @property
    def narrow(self) -> str:
        """The places of those that are narrower than usual, for `data-slim`."""
        return self._places(self._narrow)

    @property
    def wide(self) -> str:
        """The places of those that are wider than usual, for `data-broad`."""
        return self._places(self._wide)

    @property
    def has_widths(self) -> bool:
        """Whether one has another width than the usual one."""
        return bool(self._narrow or self._wide)

    @property
    def widths(self) -> list[Width]:
        """How wide each is that is shown, with the addresses by which a step is taken."""
        return [self._width(one) for one in self._columns if self._is_shown(one)]

    @property
    def choices(self) -> list[tuple[str, str, bool]]:
        """Name, heading, and whether it is shown, of those that may be left out."""
        return [(one.name, one.word, self._is_shown(one)) for one in self._columns if not one.is_fixed]

    @property
    def kept(self) -> list[tuple[str, str]]:
        """What else the address says, for the form that chooses columns."""
        query = from_the_start(self._request)
        return [(name, value) for name, values in query.lists() if name != _COLUMN for value in values]

    def _places(self, names: Collection[str]) -> str:
        return " ".join(
            str(place) for place, one in enumerate(self._columns, start=1 + self._before) if one.name in names
        )

    def _width(self, one: Column[T]) -> Width:
        is_narrow, is_wide = one.name in self._narrow, one.name in self._wide
        return Width(
            word=one.word,
            is_narrow=is_narrow,
            is_wide=is_wide,
            narrower_href="" if is_narrow else self._sized(one, "" if is_wide else _NARROW),
            wider_href="" if is_wide else self._sized(one, "" if is_narrow else _WIDE),
        )

    def _sized(self, one: Column[T], width: str) -> str:
        """The address with this column of another width; empty: the usual one. The place in the list stays."""
        query = self._request.GET.copy()
        for name in (_NARROW, _WIDE):
            kept = [other for other in query.getlist(name) if other != one.name]
            query.setlist(name, [*kept, one.name] if name == width else kept)
        return f"{escape_uri_path(self._request.path)}?{query.urlencode()}"

    def _is_shown(self, one: Column[T]) -> bool:
        return one.is_fixed or (one.name in self._chosen if self._chosen else not one.is_extra)

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
