"""Makes what strangers send safe to store: secrets masked, lengths and depths cut, nothing a database would choke on.

The same value comes out for the same value in, whichever encoding it came in. Values are texts, numbers, booleans,
None, lists and maps; floats that are no numbers become texts, because JSON cannot hold them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeVar

from recovery_ops.rules.masking import MASK, masked

VALUE_CHARS = 4096
MESSAGE_CHARS = 1000
KEY_CHARS = 256
DEPTH = 8
"""Lists and maps nested deeper are replaced by an ellipsis."""
MEMBERS = 256
"""The most members of a list or map that are kept."""
_SHORT_CHARS = 64
_INT64 = range(-(2**63), 2**63)

_T = TypeVar("_T")

SECRET_KEY = re.compile(
    r"authorization|cookie|passw|passphrase|secret|credential|private[._-]?key|api[._-]?key|access[._-]?key|token$",
    re.I,
)


def clean_text(text: str, most: int = VALUE_CHARS) -> str:
    """The text without secrets, NUL and lone surrogates, of at most `most` characters."""
    if len(text) <= _SHORT_CHARS:
        return _short_texts[text]
    if len(text) <= most:
        return masked(text)
    # Masked before the final cut, which could leave half of a key that no pattern knows any more.
    return masked(text[: most + _SHORT_CHARS])[: most - 1] + "…"


class _Memo(dict[str, _T]):
    """What was made of texts, computed once. Forgets all when it is full. A hit is a plain look-up."""

    def __init__(self, make: Callable[[str], _T], most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, text: str) -> _T:
        made = self._make(text)
        if len(text) <= KEY_CHARS:
            if len(self) >= self._most:
                self.clear()
            self[text] = made
        return made


class _ShortTexts(_Memo[str]):
    """Short texts without their secrets."""

    def __missing__(self, text: str) -> str:
        # Identifiers are new each time, so they are told by their letters, and not remembered: no secret that the
        # patterns know is so short without any sign in it, or has only these.
        if (len(text) < _SHORTEST_KEY and text.isalnum()) or _IDENTIFIER(text):
            return text
        return super().__missing__(text)


_SHORTEST_KEY = 16
_IDENTIFIER = re.compile("[0-9a-f-]+").fullmatch


def _named(key: str) -> tuple[str, bool]:
    """The name of an attribute, and whether a value under that name is one to hide, whatever it looks like."""
    name = clean_text(key, KEY_CHARS)
    return name, SECRET_KEY.search(name) is not None


# Nearly all values are one of a few words; looking them up is ten times cheaper than looking for secrets in them.
_short_texts = _ShortTexts(masked, 16384)
_names: _Memo[tuple[str, bool]] = _Memo(_named, 4096)


def clean_value(value: object, depth: int = 0) -> object:
    """Any value of an attribute, safe to store as JSON."""
    kind = type(value)
    if kind is str:
        return clean_text(value)  # type: ignore[arg-type]  # mypy does not follow `type() is`, which is the quickest
    if kind is int:
        return value if value in _INT64 else str(value)
    if kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else _no_number(value)  # type: ignore[arg-type]  # the same
    if depth >= DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return clean_map(value, MEMBERS, depth + 1)
    if isinstance(value, list):
        return [clean_value(one, depth + 1) for one in value[:MEMBERS]]
    return clean_text(str(value))


class Cleaned(dict[str, object]):
    """Attributes whose reader cleaned them, one by one, with `clean_pair`."""

    __slots__ = ()


def clean_pair(key: str, value: object) -> tuple[str, object]:
    """One attribute, cleaned."""
    name, is_secret = _names[key]
    return name, MASK if is_secret else clean_value(value)


def clean_map(given: Mapping[str, object], most: int, depth: int = 0) -> dict[str, object]:
    """The first `most` attributes, cleaned."""
    if type(given) is Cleaned and len(given) <= most:
        return given
    found: dict[str, object] = {}
    for key, value in islice(given.items(), most):
        name, is_secret = _names[key]
        if is_secret:
            found[name] = MASK
        elif type(value) is str and len(value) <= _SHORT_CHARS:
            found[name] = _short_texts[value]  # what nearly all values are: this runs a dozen times for each fact
        else:
            found[name] = clean_value(value, depth)
    return found


def _no_number(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
