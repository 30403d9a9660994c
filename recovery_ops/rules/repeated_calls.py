"""Repeated calls of a run: how often the same tool was called with the same arguments and had the same result.

A row is the longest series of latest calls with at most two different calls in it, each always with the same result. So
a pair in alternation is a row, in whatever order parallel calls end, and a result that changes ends it. The count of a
call is how often the row has it. Calls and results are kept as digests, of a run at most two of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

LONGEST_COMPARED = 1_000_000
"""A longer value has no mark: its call is taken for one that differs from all others."""
MOST_COMPARED = 10_000
_DEEPEST = 50
_STATED = frozenset({"datetime", "decimal", "uuid"})
"""Modules whose values are told apart by their text."""
_PAIR = 2


class Mark(NamedTuple):
    """One call and its result, as digests."""

    call: bytes
    result: bytes
    whose: Callable[[], object] | None = None
    """A reference to the object whose id is a part of `call`. Once it returns None, that id may be another object's."""


class RepeatedCalls:
    """The row of a run. Not thread-safe."""

    __slots__ = ("_in_a_row", "_last", "_row", "has_warned", "most")

    def __init__(self) -> None:
        self.most = 0
        """The greatest count so far."""
        self.has_warned = False
        """Whether the model was warned of this row."""
        self._row: dict[bytes, tuple[bytes, int, Callable[[], object] | None]] = {}
        """The result and the count of each call, and the reference to its object."""
        self._last = b""
        self._in_a_row = 0

    def made(self, mark: Mark | None) -> int:
        """Add a call, and return its count. One without a mark ends the row."""
        if mark is None:
            self.clear()
            return 1
        result, count, whose = self._row.get(mark.call, (mark.result, 0, None))
        is_new = count == 0
        is_another = whose is not None and whose() is None
        if (is_new and len(self._row) == _PAIR) or result != mark.result or is_another:
            self._cut(mark.call)
            count = 0
        self._row[mark.call] = (mark.result, count + 1, mark.whose)
        self._in_a_row = self._in_a_row + 1 if mark.call == self._last else 1
        self._last = mark.call
        self.most = max(self.most, count + 1)
        return count + 1

    def clear(self) -> None:
        """End the row: the next call begins another."""
        self._row, self._last, self._in_a_row, self.has_warned = {}, b"", 0, False

    def _cut(self, call: bytes) -> None:
        """Begin another row: with the latest calls, as far as they are all of another call than this one."""
        last = self._last
        if last == call:
            self.clear()
            return
        result, _, whose = self._row[last]
        self._row, self.has_warned = {last: (result, self._in_a_row, whose)}, False


def mark_of_call(call: object, result: object) -> Mark | None:
    """The mark of a call; None where the content of either cannot be compared."""
    call_mark = mark_of(call)
    result_mark = None if call_mark is None else mark_of(result)
    return None if call_mark is None or result_mark is None else Mark(call_mark, result_mark)


def mark_of(value: object) -> bytes | None:
    """A digest of a plain value, 16 bytes: equal for equal ones.

    None for a value that is too large, too deep, or of a class whose content is not known. Raises nothing.
    """
    reader = _Reader()
    try:
        reader.read(value, 0)
    except Exception:  # also of an object of the caller's that cannot be read
        return None
    digest: bytes = _blake2b()(b"".join(reader.found), digest_size=16).digest()
    return digest


@cache
def _blake2b() -> Callable[..., Any]:
    import hashlib  # when first needed: a run without tools does without OpenSSL

    return hashlib.blake2b


class _Reader:
    """Reads a value as bytes, within bounds of depth, number and size; raises ValueError beyond them."""

    __slots__ = ("_chars", "_parts", "found")

    def __init__(self) -> None:
        self.found: list[bytes] = []
        self._chars, self._parts = LONGEST_COMPARED, MOST_COMPARED

    def read(self, value: object, depth: int) -> None:
        self._parts -= 1
        kind = type(value)
        if kind is str:
            self._text(b"s", value)  # type: ignore[arg-type]  # as its type is str
        elif value is None or kind is int or kind is bool or kind is float:
            self._text(_PLAIN[kind], str(value))
        elif depth > _DEEPEST:
            raise ValueError("too deep")
        elif kind is tuple or kind is list:
            self._several(b"l", value, len(value), depth)  # type: ignore[arg-type]  # it is one of the two
        elif kind is dict:
            self._mapping(value, depth)  # type: ignore[arg-type]  # as its type is dict
        else:
            self._other(value, kind, depth)

    def _mapping(self, value: dict[Any, Any], depth: int) -> None:
        keys = list(value) if len(value) == 1 else self._sorted(value, len(value))
        self._several(b"d", (part for key in keys for part in (key, value[key])), len(value), depth)

    def _other(self, value: Any, kind: type, depth: int) -> None:
        name = kind.__qualname__.encode()
        if kind in (bytes, bytearray):
            self._text(b"b", value)
        elif kind in (set, frozenset):
            self._several(b"set", self._sorted(value, len(value)), len(value), depth)
        elif isinstance(value, Enum):
            self._text(name, value.name)
        elif isinstance(value, str):
            self._text(name, str(value))
        elif isinstance(value, list | tuple):
            self._several(name, value, len(value), depth)
        elif isinstance(value, dict):
            self._mapping(value, depth)
        elif kind.__module__ in _STATED:
            self._text(name, str(value))
        else:
            names = _names_of(value)
            self._several(name, (getattr(value, part) for part in names), len(names), depth)

    def _text(self, tag: bytes, text: str | bytes | bytearray) -> None:
        self._chars -= len(text)
        if self._chars < 0:
            raise ValueError("too large")
        content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        self.found.append(b"%b:%d:%b" % (tag, len(content), content))

    def _sorted(self, values: Iterable[Any], count: int) -> list[Any]:
        """Values in order; TypeError where they have none."""
        if count > self._parts:
            raise ValueError("too many parts")
        return sorted(values)

    def _several(self, tag: bytes, values: Iterable[object], count: int, depth: int) -> None:
        if count > self._parts:
            raise ValueError("too many parts")
        self.found.append(b"%b[%d]" % (tag, count))
        for one in values:
            self.read(one, depth + 1)


_PLAIN: dict[type, bytes] = {type(None): b"n", int: b"i", bool: b"t", float: b"f"}


def _names_of(value: object) -> list[str]:
    """The names of the parts of a record. TypeError or AttributeError for any other object."""
    if is_dataclass(value) and not isinstance(value, type):
        return [part.name for part in fields(value)]
    return list(type(value).__pydantic_fields__)  # type: ignore[attr-defined]  # AttributeError: not a record
