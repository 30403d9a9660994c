"""What of an address a page has asked for, so that it can say which words of it nobody knows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, QueryDict

_OF_EVERY_PAGE = frozenset({"environment", "range", "from", "to", "view", "peek"})
"""What goes along from page to page, or is the script's: never a mistake."""
_MOST_SHOWN = 5
_MOST_CHARS = 40


class HeardQuery(QueryDict):
    """The query of an address that remembers which of its names were asked for."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.heard: set[str] = set()  # what reading the address itself touched is nobody's question

    def __contains__(self, name: object) -> bool:
        self._hear(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self._hear(name)
        return super().__getitem__(name)  # type: ignore[return-value]  # the last value of a name is one text

    def getlist(self, name: str, default: Any = None) -> list[Any]:
        self._hear(name)
        return super().getlist(name, default)

    def _hear(self, name: object) -> None:
        heard = self.__dict__.get("heard")
        if heard is not None and isinstance(name, str):
            heard.add(name)


def listen(request: HttpRequest) -> None:
    """From here on it is remembered what is asked of the request's address."""
    request.GET = HeardQuery(request.META.get("QUERY_STRING", ""), encoding=request.encoding)  # type: ignore[assignment]


def unheard(request: HttpRequest) -> list[str]:
    """The names in the address that the page did not ask for, as far as it has come; a few of them, cut short."""
    query = request.GET
    if not isinstance(query, HeardQuery):
        return []
    names = [name for name in query if name not in query.heard | _OF_EVERY_PAGE]
    return [name[:_MOST_CHARS] for name in names[:_MOST_SHOWN]]
