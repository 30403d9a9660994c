"""How people answered in a span of time: how many questions came, how soon they were taken and resolved, by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from recovery_ops.control.escalations.durations import Times, held_for, is_by_person, until_resolved, until_taken
from recovery_ops.control.escalations.models import Escalation

READ_MOST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The questions that were opened in a span. Times are medians, as in the report; None where there is none."""

    opened: int
    taken: int
    resolved: int
    late: int
    """How many were, or are, not resolved by their deadline."""
    unanswered: int
    """How many ended as silence says."""
    to_take: timedelta | None
    to_resolve: timedelta | None
    held: timedelta
    """From taken to resolved, all together: the time in which somebody had one in hand."""
    people: Mapping[str, int]
    """Who resolved how many, the busiest first."""
    is_partial: bool


def answering(environment: str, *, start: datetime, end: datetime, now: datetime) -> Answering:
    """The questions opened in [start, end), the newest 5,000 of them. One query."""
    found = Escalation.objects.filter(
        environment=environment, opened_at__gte=start, opened_at__lt=end, merged_into=None
    ).order_by("-opened_at")
    rows = list(
        found.only(
            *("opened_at", "first_acknowledged_at", "resolved_at", "resolved_by", "resolution", "resolve_by"),
            "default_done_at",
        )[:READ_MOST]
    )
    taken, resolved = until_taken(rows), until_resolved(rows)
    return Answering(
        opened=len(rows),
        taken=taken.count,
        resolved=resolved.count,
        late=sum((one.resolved_at or now) > one.resolve_by for one in rows),
        unanswered=sum(_is_silence(one) for one in rows),
        to_take=_median(taken),
        to_resolve=_median(resolved),
        held=held_for(rows),
        people=dict(Counter(one.resolved_by for one in rows if is_by_person(one)).most_common()),
        is_partial=len(rows) == READ_MOST,
    )


def _is_silence(one: Escalation) -> bool:
    """Whether it ended as silence says. What was withdrawn was to be answered by nobody."""
    return one.default_done_at is not None and one.resolution != Escalation.WITHDRAWN and not is_by_person(one)


def _median(times: Times) -> timedelta | None:
    return None if times.median_s is None else timedelta(seconds=times.median_s)
