"""What a fact states, read as the kind of value that it should be, whatever was sent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

MOST_COUNT = 10**9
"""No single count of a fact is taken for more, so that sums stay far from where a database's integers end."""

_WRITTEN_OUT = 1e16
"""From here on Python writes a float with an exponent."""
_READ_AS_WHOLE = range(-(2**63), 2**64)
"""What orjson reads as a whole number where it is written as one."""


def text_of(given: object, most: int) -> str:
    """A text of so many letters at most; empty for nothing."""
    if given is None:
        return ""
    text = given if isinstance(given, str) else str(alike(given))
    return text if len(text) <= most else text[: most - 1] + "…"


def alike(given: object) -> object:
    """The same value as both databases give it back: jsonb orders members, has no negative zero, and writes out large
    fractions as whole numbers."""
    if isinstance(given, float):
        if given == 0:
            return 0.0
        if not _WRITTEN_OUT <= abs(given) < math.inf:
            return given
        whole = int(Decimal(repr(given)))
        return whole if whole in _READ_AS_WHOLE else given
    if isinstance(given, Mapping):
        return {str(name): alike(given[name]) for name in sorted(given, key=str)}
    return [alike(one) for one in given] if isinstance(given, list) else given


def number_of(given: object) -> float | None:
    """A finite number, also from a text of digits; None for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e18 else None  # false for NaN, too


def whole_or_none(given: object) -> int | None:
    """A whole number within bounds; None for anything else."""
    number = number_of(given)
    return None if number is None else max(-MOST_COUNT, min(int(number), MOST_COUNT))


def whole_of(given: object) -> int:
    """The same, 0 for anything else."""
    return whole_or_none(given) or 0


def count_of(given: Mapping[str, Any], name: str, missing: int = 0) -> int:
    """How many an attribute says there are; `missing` where it is no number."""
    number = whole_or_none(given.get(name))
    return missing if number is None else max(0, number)


def spelled(read: Any, given: object) -> str:
    """A word in our own spelling, empty where it is none of ours."""
    if given is None:
        return ""
    try:
        return str(read(given).value)
    except ValueError:
        return ""


_PLACE_IN_CODE = re.compile(r"event \S+\.rs:\d+")
"""What programs in Rust (`tracing`, as in Codex) write into the field of the name."""


def event_name_in(field: str, attribute: object) -> str:
    """The name of an event, as its field says it or the attribute that was there before the field."""
    named = str(attribute or "")
    return named if named and _PLACE_IN_CODE.fullmatch(field) else field or named
