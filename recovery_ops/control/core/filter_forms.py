"""The filters above a list: one form that is sent with GET, so that the address says all there is to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest

from events.pages.empties import Clause
from events.pages.scoped import NAMES
from recovery_ops.control.core.pagination import from_the_start

TYPED_CHARS = 100
_OF_A_FILE = "format"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One field: one of `options` (value and word) is picked, or where there are none something is typed.

    `every` is what an empty field means; `words` goes before what was chosen, where it is let go. What is asked for
    seldom (`is_more`) is folded away until it is.
    """

    name: str
    label: str
    every: str = ""
    options: Sequence[tuple[str, str]] | None = None
    is_number: bool = False
    words: str = ""
    is_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A filter with what was asked for. `options` holds that, too, where nothing else has it."""

    filter: Filter
    value: str
    options: Sequence[tuple[str, str]] | None
    words: str
    without_href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """The fields of the form, what else the address says, and where nothing is chosen."""

    fields: Sequence[Field]
    kept: Sequence[tuple[str, str]]
    clear_href: str

    @property
    def usual(self) -> list[Field]:
        """Those that stand in sight."""
        return [one for one in self.fields if not one.filter.is_more]

    @property
    def more(self) -> list[Field]:
        """Those that are folded away."""
        return [one for one in self.fields if one.filter.is_more]

    @property
    def is_more_chosen(self) -> bool:
        """Whether one of those narrows the list."""
        return any(one.value for one in self.more if one.filter.name not in NAMES)

    @property
    def chosen(self) -> list[Field]:
        """Those that narrow the list."""
        return [one for one in self.fields if one.value]

    @property
    def chips(self) -> list[Field]:
        """Those of them that belong to this list: what goes along from screen to screen stands above every one."""
        return [one for one in self.chosen if one.filter.name not in NAMES]

    def clauses(self, left: Callable[[str], int]) -> list[Clause]:
        """What keeps rows out, each with how many there would be without it."""
        return [Clause(one.words, left(one.filter.name), one.without_href) for one in self.chosen]


def narrowing_of(request: HttpRequest, filters: Sequence[Filter], said: Mapping[str, str]) -> Narrowing:
    """The form, with what was `said` by name; a filter that is not in `said` is not chosen."""
    query = from_the_start(request)
    query.pop(_OF_A_FILE, None)
    cleared = query.copy()
    for one in filters:
        cleared.pop(one.name, None)
    fields = []
    for one in filters:
        value, without = said.get(one.name, ""), query.copy()
        without.pop(one.name, None)
        fields.append(
            Field(
                filter=one,
                value=value,
                options=_options(one, value),
                words=_words(one, value),
                without_href=f"?{without.urlencode()}",
            )
        )
    kept = [(name, value) for name, values in cleared.lists() for value in values]
    return Narrowing(fields=fields, kept=kept, clear_href=f"?{cleared.urlencode()}")


def _options(one: Filter, value: str) -> Sequence[tuple[str, str]] | None:
    if one.options is None or not value or value in dict(one.options):
        return one.options
    return [*one.options, (value, value)]


def _words(one: Filter, value: str) -> str:
    word = dict(one.options).get(value, value) if one.options is not None else value
    return f"{one.words or one.label.lower()} {word}"
