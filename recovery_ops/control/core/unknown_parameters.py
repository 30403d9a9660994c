"""What of an address a page has asked for and understood, so that it can say what of it was ignored."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, QueryDict

from events.pages.scoped import NAMES

_OF_EVERY_PAGE = frozenset({"environment", "range", "from", "to", "view", "peek", "next", *NAMES})
"""What goes along from page to page, or is the script's: never a mistake."""
_TRACKING = "utm_"
"""What such names say is for whoever counts visits."""
_MOST_SHOWN = 5
_MOST_CHARS = 40


class TrackedQuery(QueryDict):
    """The query of an address that remembers which of its names were asked for, and which values asked for nothing."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.heard: set[str] = set()  # what reading the address itself touched is nobody's question
        self.ignored: set[tuple[str, str]] = set()

    def __contains__(self, name: object) -> bool:
        self._hear(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self._hear(name)
        return super().__getitem__(name)  # type: ignore[return-value]  # the last value of a name is one text

    def getlist(self, name: str, default: Any = None) -> list[Any]:
        self._hear(name)
        return super().getlist(name, default)

    def set_aside(self, name: str, value: str) -> None:
        """Note that this value of a name asks for nothing that there is."""
        self.ignored.add((name, value))

    def _hear(self, name: object) -> None:
        heard = self.__dict__.get("heard")
        if heard is not None and isinstance(name, str):
            heard.add(name)


def track_parameters(request: HttpRequest) -> None:
    """From here on it is remembered what is asked of the request's address."""
    request.GET = TrackedQuery(request.META.get("QUERY_STRING", ""), encoding=request.encoding)  # type: ignore[assignment]


def unknown_parameters(request: HttpRequest) -> list[str]:
    """What the address says, as `name=value`, and the page did not ask for or set aside, as far as it has come; a few
    of them, cut short.
    """
    query = request.GET
    if not isinstance(query, TrackedQuery):
        return []
    known = query.heard | _OF_EVERY_PAGE
    said = [(name, value) for name, values in query.lists() for value in values]
    unknown = [(name, value) for name, value in said if name not in known and not name.startswith(_TRACKING)]
    ignored = dict.fromkeys([*unknown, *sorted(query.ignored)])
    return [f"{name}={value}"[:_MOST_CHARS] for name, value in list(ignored)[:_MOST_SHOWN]]
