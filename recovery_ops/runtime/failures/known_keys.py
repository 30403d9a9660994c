"""The keys that model clients of this process were given: what an error quotes of them is masked.

The patterns of `rules.classification.redaction` find keys by their form. A gateway's own keys have none.
"""

from __future__ import annotations

from collections.abc import Iterable

from recovery_ops.rules.classification.redaction import MASK

SHORTEST = 8
"""A shorter key may be a word, and is not looked for."""
MOST = 256
_KEYS: list[str] = []


def hide_keys(keys: Iterable[str]) -> None:
    """Look for these keys, too; the oldest go first beyond `MOST`."""
    new = [key for key in dict.fromkeys(keys) if len(key) >= SHORTEST and key not in _KEYS]
    _KEYS[:] = [*_KEYS, *new][-MOST:]


def without_keys(text: str) -> str:
    """The text with `[masked]` in the place of each known key."""
    found = [key for key in _KEYS if key in text]
    for key in sorted(found, key=len, reverse=True):
        text = text.replace(key, MASK)
    return text
