"""What narrows a list, as addresses, files and programs alike state it: values by name, of which an empty one asks for
nothing, and what cannot be read asks for nothing either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

TEXT_CHARS = 200
NUMBER_BELOW = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """A list's own kind has a field for each name, a text or a number, whose default is what asks for nothing."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """What an address asks for."""
        said = {one.name: given.get(one.name, "").strip()[:TEXT_CHARS] for one in fields(cls)}
        numbers = {one.name for one in fields(cls) if isinstance(one.default, float)}
        asked = {name: text for name, text in said.items() if text and cls.is_readable(name, text)}
        for name in said.keys() - asked.keys():
            set_aside(given, name, said[name])
        return cls(**{name: float(text) if name in numbers else text for name, text in asked.items()})

    @classmethod
    def is_readable(cls, name: str, text: str) -> bool:
        """Whether a text can be asked for by this name; a list's own kind says for which it cannot."""
        return True

    @property
    def said(self) -> dict[str, Any]:
        """What is asked for, by name."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name))}

    def without(self, name: str) -> Self:
        """The same, with one thing not asked for."""
        return replace(self, **{one.name: one.default for one in fields(self) if one.name == name})


def one_of(given: Mapping[str, str], name: str, known: Collection[str], otherwise: str = "") -> str:
    """The value of a name where it is one of those known; else `otherwise`, and what was said is set aside."""
    value = given.get(name, "")
    if value in known:
        return value
    set_aside(given, name, value)
    return otherwise


def set_aside(given: Mapping[str, str], name: str, value: str) -> None:
    """Note that a value asks for nothing, for an address that keeps such notes (`set_aside`); an empty one is none."""
    note = getattr(given, "set_aside", None)
    if value and note is not None:
        note(name, value)


def is_number(text: str) -> bool:
    """Whether a text is a number from 0 on, with which something can be compared."""
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and 0 <= number < NUMBER_BELOW
