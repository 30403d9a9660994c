"""What a fact states, read as the kind of value that it should be, whatever was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_COUNT = 10**9
"""No single count of a fact is taken for more, so that sums stay far from where a database's integers end."""


def text_of(given: object, most: int) -> str:
    """A text of so many letters at most; empty for nothing."""
    if given is None:
        return ""
    text = given if isinstance(given, str) else str(given)
    return text if len(text) <= most else text[: most - 1] + "…"


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
