"""Makes what strangers send safe to store: secrets masked, lengths and depths cut, nothing a database would choke on.

The same value comes out for the same value in, whichever encoding it came in. Values are texts, numbers, booleans,
None, lists and maps; floats that are no numbers become texts, because JSON cannot hold them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from recovery_ops.rules.classification.redaction import MASK, masked, visible
from recovery_ops.rules.policy.masking_patterns import LONGEST_DECIDED
from recovery_ops.rules.policy.masking_rules import NOTHING_MORE, Masking
from recovery_ops.wire.masking import OUR_NAMES, is_hidden

VALUE_CHARS = 4096
MESSAGE_CHARS = 1000
KEY_CHARS = 256
DEPTH = 8
"""Lists and maps nested deeper are replaced by an ellipsis."""
MEMBERS = 256
"""The most members of a list or map that are kept."""
_SHORT_CHARS = 64
_MORE_CHARS = max(640, LONGEST_DECIDED)
"""Where a text is cut: what more is looked at. The longest texts in quotes that the built-in patterns know have 512."""
_INT64 = range(-(2**63), 2**63)

_T = TypeVar("_T")
_Text = TypeVar("_Text", str, bytes)

SECRET_KEY = re.compile(
    r"authorization|cookie|passw|passphrase|secret|credential|private[._-]?key|api[._-]?key|access[._-]?key|token$",
    re.I,
)


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
        # built-in patterns know is so short without any sign in it, or has only these.
        if (len(text) < _SHORTEST_KEY and text.isalnum()) or _IDENTIFIER(text):
            return text
        return super().__missing__(text)


_SHORTEST_KEY = 16
_IDENTIFIER = re.compile("[0-9a-f-]+").fullmatch


class Cleaned(dict[str, object]):
    """Attributes whose reader cleaned them, one by one, with `Cleaner.pair`."""

    __slots__ = ()


class Cleaner:
    """Cleans what comes to one environment: by what is hidden anyway, and by what is hidden there beside it.

    Nearly all values are one of a few words; looking them up is ten times cheaper than looking for secrets in them.
    """

    def __init__(self, masking: Masking = NOTHING_MORE) -> None:
        self.masking = masking
        self._short_texts: _Memo[str] = (
            _Memo(self._masked, 16384) if masking.rules else _ShortTexts(self._masked, 16384)
        )
        self._names: _Memo[tuple[str, bool]] = _Memo(self._named, 4096)

    def text(self, text: str, most: int = VALUE_CHARS) -> str:
        """The text without secrets, NUL and lone surrogates, of at most `most` characters."""
        if len(text) <= _SHORT_CHARS:
            return self._short_texts[text]
        if len(text) > most:
            text = visible(text)  # what nobody sees would push the halves of a secret further apart than is looked
        if len(text) <= most:
            return self._masked(text)
        # What both say: the rest that the first cut leaves of a secret is masked in the second, and what the second
        # cut leaves of one lies behind the first.
        return agreed(self._masked(text[:most]), self._masked(text[: most + _MORE_CHARS]))[: most - 1] + "…"

    def value(self, value: object, depth: int = 0) -> object:
        """Any value of an attribute, safe to store as JSON."""
        kind = type(value)
        if kind is str:
            return self.text(value)  # type: ignore[arg-type]  # mypy does not follow `type() is`, which is the quickest
        if kind is int:
            return value if value in _INT64 else str(value)
        if kind is bool or value is None:
            return value
        if kind is float:
            return value if math.isfinite(value) else _no_number(value)  # type: ignore[arg-type]  # the same
        if depth >= DEPTH:
            return "…"
        if isinstance(value, Mapping):
            return self.map(value, MEMBERS, depth + 1)
        if isinstance(value, list):
            return [self.value(one, depth + 1) for one in value[:MEMBERS]]
        return self.text(str(value))

    def pair(self, key: str, value: object) -> tuple[str, object]:
        """One attribute, cleaned."""
        name, is_secret = self._names[key]
        return name, MASK if is_secret else self.value(value)

    def map(self, given: Mapping[str, object], most: int, depth: int = 0) -> dict[str, object]:
        """The first `most` attributes, cleaned."""
        if type(given) is Cleaned and len(given) <= most:
            return given
        found: dict[str, object] = {}
        for key, value in islice(given.items(), most):
            name, is_secret = self._names[key]
            if is_secret:
                found[name] = MASK
            elif type(value) is str and len(value) <= _SHORT_CHARS:
                found[name] = self._short_texts[value]  # what nearly all are: this runs a dozen times for each fact
            else:
                found[name] = self.value(value, depth)
        return found

    def is_secret_name(self, key: str) -> bool:
        """Whether a value under that name is one to hide, whatever it looks like."""
        return SECRET_KEY.search(key) is not None or is_hidden(self.masking, key)

    def _named(self, key: str) -> tuple[str, bool]:
        """The name of an attribute, and whether its value is hidden."""
        if key in OUR_NAMES:
            return key, is_hidden(self.masking, key)
        name = self.text(key, KEY_CHARS)
        return name, self.is_secret_name(name) or self.is_secret_name(key[:KEY_CHARS])

    def _masked(self, text: str) -> str:
        if not text.isprintable():
            text = text.translate(_SEPARATORS)
        return self.masking.masked(masked(text))


_SEPARATORS = {0x2028: "\n", 0x2029: "\n"}
"""What ends a line where nobody sees it; the line breaks that everybody knows stay."""
PLAIN = Cleaner()
"""Cleans by what is hidden anyway."""
clean_text = PLAIN.text


@lru_cache(maxsize=64)
def cleaner_for(masking: Masking) -> Cleaner:
    """The cleaner of these rules, with what it remembers."""
    return Cleaner(masking) if masking else PLAIN


def agreed(one: _Text, other: _Text) -> _Text:
    """What both begin with."""
    if other.startswith(one):
        return one
    return one[
        : next((at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), len(other))
    ]


def _no_number(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
