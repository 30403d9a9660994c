"""Masking rules as screens and API show them: what there is, and what rules would hide of a text, before they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from events.queries import FailureRow, recent_failures
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.rules.classification.redaction import MASK, masked
from recovery_ops.rules.policy.masking_rules import OUR_WORDS, Masking, parse_masking

BUILT_IN_NAME = "built-in"
TESTED_CHARS = 4096
"""As much as intake looks at of one text."""
RECENT = 20
LOOK_BACK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text: as it is or, where a `rule` hides it, what stands there instead."""

    text: str
    rule: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What is left of a text: in pieces, and how often each rule hid something."""

    pieces: tuple[Piece, ...]
    hidden: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """What would be stored."""
        return "".join(piece.text for piece in self.pieces)


def live_masking(environment: str) -> Masking:
    """What the live policy hides."""
    return parse_masking(live_policy(environment).document.get("masking"), "masking", [])


def tested(masking: Masking, text: str) -> Tested:
    """What these rules and the built-in ones leave of a text, by the functions that agents and intake use."""
    left = masked(text[:TESTED_CHARS])
    pieces: list[Piece] = []
    at = 0
    for one in masking.found(left) if left not in OUR_WORDS else ():
        pieces += _built_in(left[at : one.start])
        pieces.append(Piece(one.replacement, one.rule or "cut"))
        at = one.end
    pieces += _built_in(left[at:])
    counts: dict[str, int] = {}
    for piece in pieces:
        if piece.rule:
            counts[piece.rule] = counts.get(piece.rule, 0) + 1
    return Tested(pieces=tuple(pieces), hidden=tuple(counts.items()))


def _built_in(text: str) -> Sequence[Piece]:
    found: list[Piece] = []
    for index, part in enumerate(text.split(MASK)):
        if index:
            found.append(Piece(MASK, BUILT_IN_NAME))
        if part:
            found.append(Piece(part))
    return found


def recent_texts(environment: str, now: datetime) -> list[FailureRow]:
    """The newest failures with a message, to try rules on: as they are stored, masked by the rules of their time."""
    rows = recent_failures(environment, start=now - LOOK_BACK, end=now, limit=RECENT)
    return [one for one in rows if one.message]
