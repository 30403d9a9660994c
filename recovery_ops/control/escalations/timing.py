"""How long questions took, by one definition for every page: until somebody took one, until somebody resolved it.

Times are of what people did, from when a question was opened: what a deadline or the console itself closed was
resolved by nobody. The figure that pages show is the median; mean and nine of ten stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from recovery_ops.control.models import Escalation

BY_ITSELF = ("console", "deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long something took, over `count` of them; None where it never happened."""

    count: int
    mean_s: float | None
    median_s: float | None
    p90_s: float | None

    @staticmethod
    def of(seconds: Iterable[float]) -> Times:
        """The figures of some durations in seconds."""
        ordered = sorted(seconds)
        if not ordered:
            return Times(count=0, mean_s=None, median_s=None, p90_s=None)
        # The nearest rank: the least duration that nine of ten did not exceed.
        p90 = ordered[-(-9 * len(ordered) // 10) - 1]
        return Times(count=len(ordered), mean_s=sum(ordered) / len(ordered), median_s=median(ordered), p90_s=p90)


def is_by_person(one: Escalation) -> bool:
    """Whether somebody resolved it."""
    return one.resolved_at is not None and one.resolved_by not in BY_ITSELF


def until_taken(asked: Iterable[Escalation]) -> Times:
    """From opened to first taken, of those that somebody took."""
    return Times.of(
        (one.first_acknowledged_at - one.opened_at).total_seconds() for one in asked if one.first_acknowledged_at
    )


def until_resolved(asked: Iterable[Escalation]) -> Times:
    """From opened to resolved, of those that somebody resolved."""
    return Times.of(
        (one.resolved_at - one.opened_at).total_seconds() for one in asked if one.resolved_at and is_by_person(one)
    )


def held_for(asked: Iterable[Escalation]) -> timedelta:
    """From first taken to resolved by somebody, all together: the time in which somebody had one in hand."""
    return sum(
        (
            one.resolved_at - one.first_acknowledged_at
            for one in asked
            if one.resolved_at and one.first_acknowledged_at and is_by_person(one)
        ),
        timedelta(),
    )
