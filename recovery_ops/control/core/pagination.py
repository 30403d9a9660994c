"""Lists that are longer than a page: where the rows behind a page are, by the cursor that the API knows too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, QueryDict

from events.pages.narrowing import set_aside
from recovery_ops.control.core.cursors import BadCursor, Place, after_place, cut, place_of

PARAMETER = "cursor"
PLACES = (PARAMETER, "before")
"""What says where in a list a page begins: of another list it would leave out rows."""
T = TypeVar("T")
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some rows of a list, and where the next ones are: empty where there are none."""

    rows: Sequence[T]
    further_href: str
    is_first: bool


def place_asked(request: HttpRequest, kinds: Sequence[type]) -> Place | None:
    """Behind which place the page begins. What is no place of this list is its beginning."""
    try:
        return place_of(request.GET[PARAMETER], kinds) if PARAMETER in request.GET else None
    except BadCursor:
        set_aside(request.GET, PARAMETER, request.GET[PARAMETER])
        return None


def page(request: HttpRequest, rows: Sequence[T], after: Place | None, cursor: str) -> Page[T]:
    """The page of these rows, which ended where the cursor says."""
    return Page(rows=rows, further_href=_address(request, cursor), is_first=after is None)


def page_of(
    request: HttpRequest, rows: Iterable[T], place: Callable[[T], Place], kinds: Sequence[type], most: int
) -> Page[T]:
    """A page of rows that are all at hand, in the order of their places."""
    after = place_asked(request, kinds)
    shown, cursor = after_place(rows, place, after, most)
    return page(request, shown, after, cursor)


def newest_of(request: HttpRequest, found: QuerySet[M], most: int, field: str = "number") -> Page[M]:
    """A page of what has a number that grows, the newest first."""
    after = place_asked(request, (int,))
    if after is not None:
        found = found.filter(**{f"{field}__lt": after[0]})
    rows = list(found.order_by(f"-{field}")[: most + 1])
    shown, cursor = cut(rows, lambda row: (getattr(row, field),), most)
    return page(request, shown, after, cursor)


def from_the_start(request: HttpRequest) -> QueryDict:
    """What was asked for without the place, so that another choice, search or range begins with its first row."""
    query = request.GET.copy()
    for name in PLACES:
        query.pop(name, None)
    return query


def _address(request: HttpRequest, cursor: str) -> str:
    if not cursor:
        return ""
    query: Any = request.GET.copy()
    query[PARAMETER] = cursor
    return f"?{query.urlencode()}"
