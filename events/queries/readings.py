"""Reads stored words and numbers back as ours: they may come from any sender, so what is not understood is None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.enums import Category, State, Trigger
from recovery_ops.rules.events import BreakerStateChanged, Event
from recovery_ops.wire import names

_CATEGORIES = {category.value: category for category in Category}
_STATES = {state.value: state for state in State}
_TRIGGERS = {trigger.value: trigger for trigger in Trigger}

LONGEST_S = 10 * 365 * 86_400.0
"""Nothing that is told here lasts for longer, and a moment so far from another can still be told."""
_BEYOND = 1e18
"""From here on nothing was counted or measured; sums of what is less are still numbers, and can be divided."""
MOVED = names.EVENTS[BreakerStateChanged].name
"""The stored event of a breaker's move."""


def category_or_none(word: object) -> Category | None:
    """The category of this name."""
    return _CATEGORIES.get(word) if isinstance(word, str) else None


def state_or_none(word: object) -> State | None:
    """The state of this name."""
    return _STATES.get(word) if isinstance(word, str) else None


def trigger_or_none(word: object) -> Trigger | None:
    """The trigger of this name."""
    return _TRIGGERS.get(word) if isinstance(word, str) else None


def number_or_none(value: object) -> float | None:
    """A number less than `_BEYOND`, also below 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _BEYOND else None  # false for NaN, too


def length_s_or_none(value: object) -> float | None:
    """A length of time in seconds, none below 0 and none beyond `LONGEST_S`: anybody may say any number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return min(LONGEST_S, max(0.0, float(value)))


def number_in(stored: object) -> float | None:
    """A number less than `_BEYOND` that the database took out of stored JSON, which one engine hands out as text."""
    try:
        number = float(stored) if isinstance(stored, str | int | float) else math.nan
    except ValueError:
        return None
    return number if abs(number) < _BEYOND else None


def whole_or_none(value: object) -> int | None:
    """A whole number."""
    number = number_or_none(value)
    return None if number is None else int(number)


def text_of(value: object) -> str:
    """A text; empty where there is none."""
    return value if isinstance(value, str) else ""


class Attributes:
    """Reads fields of one kind of fact out of stored attributes, by the names that travel."""

    def __init__(self, kind: type[Event], *field_names: str) -> None:
        self._names = {name: names.attribute_of(kind, name) for name in field_names}

    def of(self, attributes: object) -> dict[str, Any]:
        """Each field's stored value, None where there is none."""
        given: Mapping[str, Any] = attributes if isinstance(attributes, Mapping) else {}
        return {name: given.get(attribute) for name, attribute in self._names.items()}
