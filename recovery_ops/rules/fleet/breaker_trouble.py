"""Whether the calls of a breaker fail or are rejected, in one word, whatever state the breaker is in."""

from __future__ import annotations

from enum import StrEnum

from recovery_ops.rules.lazy_dataclass import dataclass

FAILING_SHARE = 0.5
"""From this share of failed attempts on, an operation is failing."""
REJECTING_SHARE = 0.1
"""From this share of rejected calls on, an operation rejects calls. Load shedding and waits reject while closed."""
LEAST_CALLS = 5
"""Fewer attempts or calls than this say nothing."""


class Trouble(StrEnum):
    """What is wrong with the calls. The value is the word that screens show."""

    FAILING = "failing"
    REJECTING = "rejecting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of one breaker's operations: in the last minute and the one that runs, and in the quarter."""

    calls: int = 0
    rejections: int = 0
    attempts: int = 0
    failures: int = 0
    quarter_attempts: int = 0
    quarter_failures: int = 0


def trouble_of(counted: Counted) -> Trouble | None:
    """The larger trouble; None where calls succeed or too few were made.

    Where the last minutes have too few attempts, the quarter of an hour decides.
    """
    rejected = _share(counted.rejections, counted.calls)
    failed = _share(counted.failures, counted.attempts)
    if failed is None:
        failed = _share(counted.quarter_failures, counted.quarter_attempts)
    is_rejecting = rejected is not None and rejected >= REJECTING_SHARE
    is_failing = failed is not None and failed >= FAILING_SHARE
    if is_rejecting and not (is_failing and (failed or 0.0) > (rejected or 0.0)):
        return Trouble.REJECTING
    return Trouble.FAILING if is_failing else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole >= LEAST_CALLS else None
