"""Keys of one's own: which key does what another does in the console as it comes. Kept in one cookie, as pairs.

`jn-kp` says that `n` does what `j` does, and `p` what `k` does; a key that was given away and got nothing back does
nothing.
"""

from __future__ import annotations

import string
from collections.abc import Mapping

ACTS: Mapping[str, str] = {
    "j": "next row",
    "k": "row before",
    "x": "choose the row",
    "o": "open the row",
    "p": "pause, or go on",
    "l": "copy the link of the page",
    "v": "saved views",
    "g": "go to a page: then its letter",
    "t": "another range: then its key",
    "a": "take, assign",
    "i": "assign",
    "s": "snooze, archive",
    "e": "ask a queue",
    "n": "comment; note on a time axis",
    "m": "merge",
    "r": "resolve",
    "y": "approve",
    "d": "reject; before and after",
    "b": "label; the breaker of an outage",
    "f": "trip; follow a run",
    "c": "disable; copy the id of a run",
    "u": "return to auto; ask a later step",
    "w": "watch a breaker",
}
"""The keys that can be moved, and what they do."""
GIVEN = string.ascii_letters + string.digits
"""The keys that one can move them to."""
FIELD = "key_"
_SEPARATOR = "-"


class TwoOfOne(ValueError):
    """A key that is to do two things."""


def moves_of(text: str) -> dict[str, str]:
    """What the cookie says, as the key that comes with the console and one's own; nothing where it says nonsense."""
    pairs = [pair for pair in text.split(_SEPARATOR) if pair]
    if any(len(pair) != 2 or pair[0] not in ACTS or pair[1] not in GIVEN for pair in pairs):
        return {}
    moves = {pair[0]: pair[1] for pair in pairs}
    return {} if _twice(moves) else moves


def typed(given: Mapping[str, str]) -> str:
    """The cookie for a form in which each act has a field with its key. Raises TwoOfOne with the key."""
    moves = {}
    for usual in ACTS:
        own = given.get(f"{FIELD}{usual}", "").strip()[:1]
        if own in GIVEN and own and own != usual:
            moves[usual] = own
    twice = _twice(moves)
    if twice:
        raise TwoOfOne(twice)
    return _SEPARATOR.join(f"{usual}{own}" for usual, own in moves.items())


def _twice(moves: Mapping[str, str]) -> str:
    """A key that does two things; empty where none does."""
    keys = [moves.get(usual, usual) for usual in ACTS]
    return next((key for key in keys if keys.count(key) > 1), "")
