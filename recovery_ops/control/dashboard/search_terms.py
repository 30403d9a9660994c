"""What somebody types to look for: words, "exact words", -what is not meant, and field:value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PART = re.compile(r'(-?)(?:(\w+):)?(?:"([^"]*)"|(\S+))')


@dataclass(frozen=True, slots=True)
class _Part:
    is_excluded: bool
    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts of it; all of them have to hold."""

    parts: tuple[_Part, ...]

    def fits(self, told: Mapping[str, str]) -> bool:
        """Whether a thing is meant that tells this, by field. Upper and lower case are the same.

        What stands in front of a colon and is no field is a word like any other: messages have colons, too.
        """
        everything = " ".join(told.values()).lower()
        return all(self._holds(part, told, everything) != part.is_excluded for part in self.parts)

    def _holds(self, part: _Part, told: Mapping[str, str], everything: str) -> bool:
        if part.field in told:
            return part.text in told[part.field].lower()
        return (f"{part.field}:{part.text}" if part.field else part.text) in everything


def words_of(typed: str) -> Wanted:
    """Read what was typed. Nothing typed fits everything."""
    found = []
    for minus, field, exact, word in _PART.findall(typed):
        text = (exact or word).lower()
        if text:
            found.append(_Part(bool(minus), field.lower(), text))
    return Wanted(tuple(found))
