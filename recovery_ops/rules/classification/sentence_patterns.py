"""The sentences of `vendor_errors` as patterns, anchored at the start of a vendor's own message.

A sentence is looked up by its first letters, and its pattern is compiled when a message begins as it does: most errors
say none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from recovery_ops.rules.classification.vendor_errors import sentences_for
from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_patterns import compiled

_COUNT = r"(?:\d{1,3}(?:,\d{3})+|\d{1,12})"
_PLACEHOLDER = compiled(r"<(\w+)>")
_PARTS = {
    "n": rf"{_COUNT}(?!\d)",
    "any": r"[^\n]{0,160}?",
    "end": r"""[.\s]*(?:['"\\}]|$)""",
}
_KEY_CHARS = 5
_QUOTES = str.maketrans("", "", "'’`")


def matches_in(sentence: str, among: Iterable[Category]) -> Iterator[tuple[Category, re.Match[str]]]:
    """The phrases that a vendor's sentence begins with, in the order of these categories and of the table.

    Phrases that state the counts of an overflow come before those that do not.
    """
    by_start = _by_start()
    found = (*by_start.get(_key(sentence), ()), *by_start[""])
    if not found:
        return
    for category in among:
        for its, line in found:
            match = pattern_of(line).match(sentence) if its is category else None
            if match is not None:
                yield category, match


@lru_cache(maxsize=512)
def pattern_of(line: str) -> re.Pattern[str]:
    """One sentence as a pattern; apostrophes and backticks may have been lost or bent on the way."""
    escaped = re.escape(line).replace("'", "['’]?").replace("`", "`?")
    return compiled(_PLACEHOLDER.sub(_part, escaped), re.IGNORECASE)


def _part(placeholder: re.Match[str]) -> str:
    name = placeholder[1]
    if name in ("input", "limit", "more"):
        return rf"(?P<{name}>{_COUNT})(?!\d)"
    return _PARTS.get(name, placeholder[0])


def _key(text: str) -> str:
    return text[: 2 * _KEY_CHARS].translate(_QUOTES)[:_KEY_CHARS].lower()


@lru_cache(maxsize=1)
def _by_start() -> dict[str, list[tuple[Category, str]]]:
    """Category and phrase by the first letters; those that begin with anything stand under the empty key."""
    found: dict[str, list[tuple[Category, str]]] = {"": []}
    for category in Category:
        for line in sorted(sentences_for(category), key=lambda line: "<input>" not in line):
            key = _key(line)
            found.setdefault("" if "<" in key else key, []).append((category, line))
    return found
