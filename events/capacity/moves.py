"""What the breakers of an outage did in its course: opened, tried, closed; counted, so that flapping costs no more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, QuerySet

from events.capacity.hits import Subject
from events.capacity.models import CapacityEvent
from events.models import Fact
from events.moments import US_PER_S, from_us
from events.queries.readings import MOVED
from recovery_ops.rules.enums import State

BREAKERS_MOST = 20
"""Those that opened most often; every instance has its own of each."""
_REFUSES = (State.OPEN.value, State.HALF_OPEN.value, State.FORCED_OPEN.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerMoves:
    """One breaker, over the instances in which it opened. `closed_at` is None while it is not closed in all of them.

    Counts are of moves; `not_closed` of instances whose last word was open, half-open or forced open.
    """

    breaker: str
    opened_at: datetime
    openings: int
    half_openings: int
    closings: int
    instances: int
    not_closed: int
    closed_at: datetime | None


def moves_of(event: CapacityEvent, names: Iterable[str], *, followed_s: int) -> dict[str, Any]:
    """What these breakers did from its beginning to its end and so long after it, as the event keeps it. Two queries.

    Only those that opened; counted anew from the facts each time, so that late and doubled looks end in the same. Where
    another outage of the same backend began meanwhile, what follows is that one's.
    """
    breakers = sorted(names)
    if not breakers:
        return {}
    moved = _moved(event, breakers, _until_us(event, followed_s))
    grouped = moved.order_by().values_list("breaker", "agent", "state")
    rows: dict[str, list[tuple[int, str, int, int, int, int]]] = defaultdict(list)
    for breaker, *row in grouped.annotate(Count("pk"), Min("at_us"), Max("at_us"), Max("pk")):
        rows[breaker].append(tuple(row))
    kept = {breaker: told for breaker, some in rows.items() if (told := _told(some))}
    most = sorted(kept, key=lambda breaker: (-kept[breaker]["openings"], breaker))[:BREAKERS_MOST]
    return {breaker: kept[breaker] for breaker in sorted(most)}


def opened_in(event: CapacityEvent, names: Iterable[str], *, within_s: float) -> Counter[str]:
    """How often each of these breakers opened from its beginning to its last failure, or so soon after it. Two queries.

    The failure that opens a breaker is often the last there is: the opening comes behind it.
    """
    breakers = sorted(names)
    if not breakers:
        return Counter()
    moved = _moved(event, breakers, _until_us(event, within_s))
    return Counter(moved.filter(state=State.OPEN.value).values_list("breaker", flat=True))


def _until_us(event: CapacityEvent, after_s: float) -> int:
    """So long after its last failure, or until the next outage of the same backend begins."""
    same = CapacityEvent.objects.filter(
        environment=event.environment, merged_into=None, **Subject.of_event(event).columns
    )
    next_us = same.filter(started_us__gt=event.last_us).aggregate(at=Min("started_us"))["at"]
    return min(event.last_us + int(after_s * US_PER_S), next_us - 1 if next_us else 1 << 62)


def _moved(event: CapacityEvent, breakers: list[str], until_us: int) -> QuerySet[Fact]:
    """Index `fact_by_breaker`."""
    return Fact.objects.filter(
        environment=event.environment,
        breaker__in=breakers,
        event=MOVED,
        at_us__gte=event.started_us,
        at_us__lte=until_us,
    )


def _told(rows: Sequence[tuple[int, str, int, int, int, int]]) -> dict[str, Any]:
    """Agent, state, how often, first, last and its number; of the agents in which it opened."""
    opened = [row for row in rows if row[1] == State.OPEN.value]
    if not opened:
        return {}
    agents = {row[0] for row in opened}
    ours = [row for row in rows if row[0] in agents]
    last = {row[0]: row for row in sorted(ours, key=lambda row: row[4:])}
    not_closed = sum(row[1] in _REFUSES for row in last.values())
    return {
        "opened_us": min(row[3] for row in opened),
        "openings": sum(row[2] for row in opened),
        "half_openings": sum(row[2] for row in ours if row[1] == State.HALF_OPEN.value),
        "closings": sum(row[2] for row in ours if row[1] == State.CLOSED.value),
        "instances": len(agents),
        "not_closed": not_closed,
        "closed_us": None if not_closed else max(row[4] for row in last.values()),
    }


def moves_in(stored: Mapping[str, Mapping[str, Any]]) -> int:
    """How many moves an event keeps."""
    return sum(told[kind] for told in stored.values() for kind in ("openings", "half_openings", "closings"))


def moves_from(stored: Mapping[str, Mapping[str, Any]]) -> tuple[BreakerMoves, ...]:
    """The rows of what an event keeps, the first that opened first."""
    rows = [
        BreakerMoves(
            breaker=breaker,
            opened_at=from_us(told["opened_us"]),
            openings=told["openings"],
            half_openings=told["half_openings"],
            closings=told["closings"],
            instances=told["instances"],
            not_closed=told["not_closed"],
            closed_at=None if told["closed_us"] is None else from_us(told["closed_us"]),
        )
        for breaker, told in stored.items()
    ]
    return tuple(sorted(rows, key=lambda one: (one.opened_at, one.breaker)))


def united_moves(parts: Iterable[Sequence[BreakerMoves]]) -> tuple[BreakerMoves, ...]:
    """Those of several events that are one, in their order: how a breaker ended is what the last of them says.

    A breaker that two of them name may have made the same moves in both: counts are at least those of one.
    """
    found: dict[str, BreakerMoves] = {}
    for one in (one for part in parts for one in part):
        held = found.get(one.breaker)
        found[one.breaker] = (
            one
            if held is None
            else replace(
                one,
                opened_at=min(held.opened_at, one.opened_at),
                openings=max(held.openings, one.openings),
                half_openings=max(held.half_openings, one.half_openings),
                closings=max(held.closings, one.closings),
                instances=max(held.instances, one.instances),
            )
        )
    return tuple(sorted(found.values(), key=lambda one: (one.opened_at, one.breaker)))
