"""Where a page of a list ended, as a text to ask for the next one with: the place of its last row in the list's order.

A place and no count: rows that came or went meanwhile move nothing, so walking the pages meets each row once.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Iterable, Sequence
from itertools import dropwhile, islice
from typing import TypeVar

from recovery_ops.control.core.numbers import is_number

CURSOR_CHARS = 1000
T = TypeVar("T")
Place = tuple[int | float | str, ...]
"""What a list is sorted by, ascending; the last part is of this row alone."""


class BadCursor(ValueError):
    """A text that no page of this list ended with."""


def cursor_of(place: Place) -> str:
    """The text for a place."""
    return urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def place_of(cursor: str, kinds: Sequence[type]) -> Place:
    """The place that a text stands for, of parts of these kinds. Raises BadCursor."""
    if len(cursor) > CURSOR_CHARS or not cursor.isascii():
        raise BadCursor(cursor[:40])
    try:
        found = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (Error, ValueError, RecursionError):
        raise BadCursor(cursor[:40]) from None
    if not isinstance(found, list) or len(found) != len(kinds):
        raise BadCursor(cursor[:40])
    if not all(_is(part, kind) for part, kind in zip(found, kinds, strict=True)):
        raise BadCursor(cursor[:40])
    return tuple(found)


def after_place(rows: Iterable[T], place: Callable[[T], Place], after: Place | None, most: int) -> tuple[list[T], str]:
    """So many rows behind a place, of all in their order; and the text for the next page, empty where there is none."""
    ordered = sorted(rows, key=place)
    behind = ordered if after is None else dropwhile(lambda row: place(row) <= after, ordered)
    return cut(list(islice(behind, most + 1)), place, most)


def cut(rows: list[T], place: Callable[[T], Place], most: int) -> tuple[list[T], str]:
    """The page of rows of which one more than fits was read, and the text for the next page."""
    shown = rows[:most]
    return shown, cursor_of(place(shown[-1])) if len(rows) > most else ""


def _is(part: object, kind: type) -> bool:
    if kind is int:
        return is_number(part)
    return isinstance(part, kind)
