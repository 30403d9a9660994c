"""How long questions took, by one definition for every page: until somebody took one, until somebody resolved it.

Times are of what people did, from when a question was opened: what a deadline or the console itself closed was
resolved by nobody. The figure that pages show is the median; mean, one of ten and nine of ten stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from events.charts.boxes import Box
from recovery_ops.control.escalations.models import Escalation

BY_ITSELF = ("console", "deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long something took, over `count` of them; None where it never happened."""

    count: int
    mean_s: float | None
    p10_s: float | None
    median_s: float | None
    p90_s: float | None

    @staticmethod
    def of(seconds: Iterable[float]) -> Times:
        """The figures of some durations in seconds."""
        ordered = sorted(seconds)
        if not ordered:
            return Times(count=0, mean_s=None, p10_s=None, median_s=None, p90_s=None)
        # The nearest rank: the least duration that one of ten, and nine of ten, did not exceed.
        p10, p90 = (ordered[-(-tenths * len(ordered) // 10) - 1] for tenths in (1, 9))
        mean = sum(ordered) / len(ordered)
        return Times(count=len(ordered), mean_s=mean, p10_s=p10, median_s=median(ordered), p90_s=p90)

    @property
    def box(self) -> Box | None:
        """The same, to be drawn; None where it never happened."""
        if self.p10_s is None or self.median_s is None or self.p90_s is None:
            return None
        return Box(count=self.count, p10_s=self.p10_s, median_s=self.median_s, p90_s=self.p90_s)


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
