"""Where the values of a JSON text stand, by the paths that faults are told with: to bring people to the place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Place(NamedTuple):
    """A stretch of a text, in characters from its beginning, and the line in which it begins, from 1."""

    start: int
    end: int
    line: int


class Places:
    """Where the values of one text stand. It is read once, however many faults are looked up."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[str, tuple[int, int]] = {}
        self._fault: Place | None = None
        try:
            start = _BLANK.match(text, 0).end()  # type: ignore[union-attr]  # it matches nothing, too
            self._found = dict(_places(text, start, ""))
        except (ValueError, IndexError, RecursionError) as error:
            at = min(getattr(error, "pos", 0), len(text))
            self._fault = _lined(text, at, min(at + 1, len(text)))

    def of(self, path: str) -> Place:
        """Where the value at this path stands; else what comes nearest above it; for bad JSON the fault."""
        if self._fault is not None:
            return self._fault
        while path and path not in self._found:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return _lined(self._text, *self._found.get(path, (0, 0)))


def _lined(text: str, start: int, end: int) -> Place:
    return Place(start, end, text.count("\n", 0, start) + 1)


def _places(text: str, start: int, path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Every value from here on with its stretch, the inner ones after those around them; a member with its name."""
    _, end = _DECODER.raw_decode(text, start)
    yield path, (start, end)
    if text[start] not in "{[":
        return
    is_object, at, index = text[start] == "{", start + 1, 0
    while (at := _after(text, at, ",")) < end - 1:
        begun, below = at, f"{path}[{index}]"
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            below = f"{path}.{name}" if path else str(name)
            at = _after(text, _after(text, at, ""), ":")
        _, at_end = _DECODER.raw_decode(text, at)
        yield from _places(text, at, below)
        if is_object:
            yield below, (begun, at_end)
        at, index = at_end, index + 1


def _after(text: str, at: int, sign: str) -> int:
    at = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
    return _BLANK.match(text, at + 1).end() if sign and text[at] == sign else at  # type: ignore[union-attr]
