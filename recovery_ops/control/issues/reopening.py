"""When a cause of failures that was put away, or called done, comes back, and when one is done with. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

HOUR = timedelta(hours=1)
LEAST_IN_AN_HOUR = 10
"""Fewer failures than these in an hour are no escalation, however quiet it was before."""
TIMES_USUAL = 2
"""How often what was usual at most has to be exceeded."""
_NUMBERS = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,5})")


class Hour(NamedTuple):
    """An hour that is counted by itself: when it began, and how many failures came in it."""

    began: datetime
    seen: int

    def with_more(self, more: int, now: datetime) -> Hour:
        """With so many more, which came by `now`: hours follow each other without a gap, each begins with none."""
        over = (now - self.began) // HOUR
        if over < 1:
            return Hour(self.began, self.seen + more)
        # Nobody looked for more than an hour: what came meanwhile is of no one hour.
        return Hour(self.began + over * HOUR, more if over == 1 else 0)


def clean_in_a_row(seen: int, ends: Iterable[datetime], *, failed_at: datetime | None) -> int:
    """How many clean runs there are in a row, with those that ended at these moments after so many `seen` before.

    A failure (`failed_at` the newest of them, None for none) begins the count anew, whatever it had come to: only what
    ended later counts.
    """
    if failed_at is None:
        return seen + sum(1 for _ in ends)
    return sum(at > failed_at for at in ends)


def escalates_at(usual: int) -> int:
    """With how many failures in one hour a cause escalates, whose busiest hour of the day before had `usual`."""
    return max(LEAST_IN_AN_HOUR, TIMES_USUAL * usual + 1)


def is_newer(version: str, known: Collection[str]) -> bool:
    """Whether a version came after all that were known: an unknown one, and no lower number than the highest known.

    A service that does not say its version has no newer one. Numbers are compared where all are numbers, such as
    `2.10.1` or `v3`; of other names, such as those of commits, whatever was not known is newer.
    """
    if not version or version in known:
        return False
    mine, others = _numbers(version), [_numbers(one) for one in known]
    found = [one for one in others if one is not None]
    if mine is None or len(found) < len(others):
        return True
    return all(mine > one for one in found)


def _numbers(version: str) -> tuple[int, ...] | None:
    said = _NUMBERS.fullmatch(version)
    if said is None:
        return None
    numbers = [int(one) for one in said[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()  # 2.0 is 2
    return tuple(numbers)
