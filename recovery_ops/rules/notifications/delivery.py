"""What becomes of a message after a try to deliver it: it arrived, it is tried again and when, or never."""

from __future__ import annotations

from enum import StrEnum

from recovery_ops.rules.lazy_dataclass import dataclass

TRIES_MOST = 10
FIRST_WAIT_S, LONGEST_WAIT_S = 5.0, 900.0
LONGEST_ASKED_S = 3600.0
"""A receiver that asks for more patience than this is asked again then all the same."""
_AGAIN = frozenset({408, 425, 429})
"""Refusals that say "later", not "never"."""


class Outcome(StrEnum):
    """What one try came to."""

    ARRIVED = "arrived"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What to do now; `wait_s` is set where it is tried again."""

    outcome: Outcome
    wait_s: float = 0.0


def outcome_of(status: int) -> Outcome:
    """What an HTTP status says of a message. A redirect is never followed: it would lead past every check."""
    if 200 <= status < 300:
        return Outcome.ARRIVED
    return Outcome.LATER if status in _AGAIN or status >= 500 else Outcome.NEVER


def next_try(outcome: Outcome, *, tries: int, retry_after_s: float | None = None, chance: float = 0.0) -> Next:
    """What follows a try that was the `tries`-th. `chance` from 0 to 1 spreads the waits by up to a fifth."""
    if outcome is not Outcome.LATER:
        return Next(outcome=outcome)
    if tries >= TRIES_MOST:
        return Next(outcome=Outcome.NEVER)
    wait_s: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (tries - 1)) * (1 + 0.2 * chance)
    if retry_after_s is not None:
        wait_s = max(wait_s, min(retry_after_s, LONGEST_ASKED_S))
    return Next(outcome=Outcome.LATER, wait_s=wait_s)
