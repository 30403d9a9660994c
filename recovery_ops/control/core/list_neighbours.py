"""The one before and the one after in the list that a page was opened from, whose query its address keeps as `list`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest

from events.pages.scoped import NAMES

LIST, NUL = "list", "%00"
_QUERY_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Addresses of the one before and the one after; empty where there is none. `place` counts from 1; 0 is nowhere."""

    before: str = ""
    after: str = ""
    place: int = 0
    of: int = 0


NOBODY = Neighbours()


def list_of(request: HttpRequest) -> str:
    """The query of the list; empty for the list as it opens by itself, where the address names none."""
    query = request.GET.get(LIST, "")[:_QUERY_CHARS]
    # Encoded twice it passed the door; PostgreSQL would answer the list with an error.
    return "" if NUL in query else query


def neighbours_of(
    request: HttpRequest, here: str, names: Sequence[str], address_of: Callable[[str], str]
) -> Neighbours:
    """Where `here` stands among the names of a list; nowhere, where it is not among them."""
    if here not in names:
        return NOBODY
    at, also = names.index(here), from_here(list_of(request))
    return Neighbours(
        before=f"{address_of(names[at - 1])}{also}" if at else "",
        after=f"{address_of(names[at + 1])}{also}" if at + 1 < len(names) else "",
        place=at + 1,
        of=len(names),
    )


def from_here(query: str) -> str:
    """What the address of a row has behind it, so that its page knows the list; nothing for the list as it opens.

    What the list keeps to from screen to screen stands there by itself, too: its page is a screen on the way.
    """
    kept = {name: value for name, value in parse_qsl(query) if name in NAMES}
    return f"?{urlencode({LIST: query} | kept)}" if query else ""
