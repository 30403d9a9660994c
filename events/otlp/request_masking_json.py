"""Finds what stands under names that say that it is a secret, in a request in JSON: whole, cut off, or no JSON at all.

Nothing is parsed into objects, so all other text stays as it was sent, and what is broken is walked as far as it goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from recovery_ops.rules.classification.redaction import MASK

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_NUMBERS = frozenset({"intValue", "doubleValue"})
"""Members of a value that are numbers, also where they are written as texts."""
_OF_VALUES = _NUMBERS | {
    "key",
    "value",
    "values",
    "stringValue",
    "boolValue",
    "bytesValue",
    "arrayValue",
    "kvlistValue",
}
"""Names that a value is framed by."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A text, a number or a word; `member` is the name that it stands under, empty for a name itself."""

    start: int
    end: int
    member: str


@dataclass(slots=True)
class _Frame:
    """An object or a list that is open. A span counts leaves; its end is not known while it is open."""

    member: str = ""
    since: int = 0
    """The first leaf of the member that is read now."""
    is_name_next: bool = True
    is_object: bool = True
    key: str | None = None
    value: tuple[int, int] | None = None


def without_named(text: str, is_secret_name: Callable[[str], bool]) -> str:
    """The text without the values under these names: members of any object, and pairs of `key` and `value`.

    Where the text ends before the key of a value, the value goes, too.
    """
    leaves, hidden = _walked(text, is_secret_name)
    parts, end = [], 0
    for leaf in _under(leaves, hidden):
        parts += [text[end : leaf.start], _blank(text[leaf.start : leaf.end], leaf.member)]
        end = leaf.end
    return "".join((*parts, text[end:]))


def _walked(text: str, is_secret_name: Callable[[str], bool]) -> tuple[list[_Leaf], list[tuple[int, int]]]:
    """All leaves, and the spans of those that are to be hidden."""
    leaves: list[_Leaf] = []
    hidden: list[tuple[int, int]] = []
    frames = [_Frame()]

    def ended(*, is_cut: bool = False) -> None:
        """The member that was read is whole."""
        frame, span = frames[-1], (frames[-1].since, len(leaves))
        if frame.is_object and frame.member:
            if is_secret_name(frame.member):
                hidden.append(span)
            elif frame.member == "value":
                frame.value = span
        is_secret = is_cut if frame.key is None else is_secret_name(frame.key)
        if frame.value is not None and is_secret:
            hidden.append(frame.value)
        frame.member, frame.since, frame.is_name_next = "", len(leaves), True

    for found in _TOKEN.finditer(text):
        sign, frame = found[0], frames[-1]
        if sign in "{[":
            frames.append(_Frame(since=len(leaves), is_object=sign == "{"))
        elif sign in "}]":
            ended()
            if len(frames) > 1:
                frames.pop()
        elif sign == ",":
            ended()
        elif sign == ":":
            frame.is_name_next = False
        elif frame.is_object and frame.is_name_next and sign[0] == '"':
            frame.member, frame.since = _said(sign), len(leaves)
            if frame.member not in _OF_VALUES and len(frames) > 1:
                leaves.append(_Leaf(found.start(), found.end(), ""))
                frame.since = len(leaves)
        else:
            if frame.is_object and frame.member == "key" and sign[0] == '"' and found.end() < len(text):
                frame.key = _said(sign)
            leaves.append(_Leaf(found.start(), found.end(), frame.member or "item"))
    while frames:
        ended(is_cut=True)
        frames.pop()
    return leaves, hidden


def _under(leaves: list[_Leaf], hidden: list[tuple[int, int]]) -> Iterator[_Leaf]:
    """The leaves of these spans, each once, in the order of the text."""
    done = 0
    for start, end in sorted(hidden):
        yield from leaves[max(start, done) : end]
        done = max(done, end)


def _said(literal: str) -> str:
    try:
        return str(json.loads(literal, strict=False)) if "\\" in literal else literal.strip('"')
    except ValueError:
        return literal.strip('"')


def _blank(written: str, member: str) -> str:
    """What stands there instead, of the same kind, so that the request can still be read."""
    if written[0] == '"':
        if member == "bytesValue":
            return '""'
        return '"0"' if member in _NUMBERS else f'"{MASK}"'
    return {"true": "false", "false": "false", "null": "null"}.get(written, "0")
