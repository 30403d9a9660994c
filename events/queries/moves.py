"""Reads from the store what moved in a window and what stood before it, breaker by breaker and instance by instance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import BigIntegerField, Case, F, Max, OuterRef, QuerySet, Subquery, Value, When

from events.models import BreakerState, Fact
from events.queries.lives import Life
from events.queries.moments import US_PER_S, Grid, bin_width_s, to_us
from events.queries.readings import MOVED
from events.queries.transitions import last_transition, transition_of
from events.rows import RANK, WORST_FIRST, Transition
from recovery_ops.rules.words import State

MOVES_READ = 5_000
"""With more moves than this in a window, the database sums them up in bins instead of handing them out."""
_CELLS = 20_000

Pair = tuple[int, str]
"""An instance's id and a breaker's name."""


@dataclass(frozen=True, slots=True)
class Point:
    """From `at_us` (microseconds since the epoch) on the state is this, until the next point."""

    at_us: int
    state: State
    cause: Transition | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What is asked: one window of one environment, of all breakers or of one, for these instances and pairs."""

    environment: str
    start: datetime
    end: datetime
    breaker: str | None
    lives: Mapping[int, Life]
    standing: Mapping[Pair, BreakerState]

    def moved(self) -> QuerySet[Fact]:
        """The moves of the window."""
        moved = Fact.objects.filter(environment=self.environment, event=MOVED)
        moved = moved.filter(at_us__gte=to_us(self.start), at_us__lt=to_us(self.end))
        return moved if self.breaker is None else moved.filter(breaker=self.breaker)

    def point(self, fact: Fact) -> Point:
        """What a move states."""
        life = self.lives[fact.agent_id]
        move = transition_of(fact, life.service, life.instance)
        return Point(fact.at_us, move.state, move)


def exact_points(reading: Reading) -> dict[Pair, list[Point]] | None:
    """Each move of the window in order; None if there are too many to read."""
    facts = list(reading.moved().order_by("at_us", "sequence_number", "id")[: MOVES_READ + 1])
    if len(facts) > MOVES_READ:
        return None
    points: dict[Pair, list[Point]] = {}
    for fact in facts:
        if (pair := (fact.agent_id, fact.breaker)) in reading.standing:
            points.setdefault(pair, []).append(reading.point(fact))
    return points


def points_before(reading: Reading, points: Mapping[Pair, list[Point]]) -> dict[Pair, Point]:
    """What stood when the window began: the newest move before it, or what the first move in it says it left."""
    found: dict[Pair, Point] = {}
    asked: set[Pair] = set()
    for pair, row in reading.standing.items():
        born_us = reading.lives[pair[0]].born_us
        first = points[pair][0] if pair in points else None
        if first is not None and first.cause is not None:
            found[pair] = Point(min(born_us, first.at_us), first.cause.previous_state or State.CLOSED)
            if reading.breaker is not None and found[pair].state is not State.CLOSED:
                asked.add(pair)  # the page of one breaker shows evidence; for all breakers it would cost too much
        elif row.at_us is None or row.at_us >= to_us(reading.start):
            found[pair] = Point(born_us, State.CLOSED)
            if row.at_us is not None:
                asked.add(pair)  # it moved after the window, or its moves were summed up
        else:
            life = reading.lives[pair[0]]
            move = last_transition(row, life.service, life.instance)
            found[pair] = Point(row.at_us, move.state if move is not None else State.CLOSED, move)
    for fact in _newest_before(reading, asked):
        pair, earlier = (fact.agent_id, fact.breaker), reading.point(fact)
        if pair not in points or earlier.state is found[pair].state:  # else a move between the two was lost
            found[pair] = earlier
    return found


def _newest_before(reading: Reading, pairs: Collection[Pair]) -> QuerySet[Fact]:
    """The last move before the window of each of these pairs; index `fact_by_breaker`, walked backwards."""
    earlier = Fact.objects.filter(
        environment=reading.environment,
        breaker=OuterRef("breaker"),
        event=MOVED,
        agent_id=OuterRef("agent_id"),
        at_us__lt=to_us(reading.start),
    )
    ids = [reading.standing[pair].pk for pair in pairs]
    newest = Subquery(earlier.order_by("-at_us", "-sequence_number").values("id")[:1])
    rows = BreakerState.objects.filter(id__in=ids).annotate(newest=newest)
    return Fact.objects.filter(id__in=list(rows.values_list("newest", flat=True)) if ids else [])


def binned_points(reading: Reading, before: Mapping[Pair, Point]) -> tuple[int, dict[Pair, list[Point]]]:
    """The width of the bins in seconds, and points that show for each bin the worst state in it.

    The database groups the moves, so the number of rows read is the number of bins in which something moved.
    """
    bins = max(12, min(288, _CELLS // max(1, len(reading.standing))))
    bin_s = bin_width_s(reading.end - reading.start, most_bins=bins)
    grid = Grid.over(reading.start, reading.end, bin_s)
    rank = Case(
        *(When(state=state.value, then=Value(RANK[state])) for state in WORST_FIRST),
        default=Value(RANK[State.CLOSED]),
        output_field=BigIntegerField(),
    )
    # The last move of a bin: the moment in the high bits, the state's rank in the low three.
    grouped = (
        reading.moved()
        .values("agent_id", "breaker", bin=(F("at_us") - grid.start_s * US_PER_S) / (bin_s * US_PER_S))
        .annotate(worst=Max(rank), last=Max(F("at_us") * 8 + rank, output_field=BigIntegerField()))
        .order_by("agent_id", "breaker", "bin")
    )
    states = {RANK[state]: state for state in WORST_FIRST}
    points: dict[Pair, list[Point]] = {}
    for row in grouped:
        pair = row["agent_id"], row["breaker"]
        if pair not in before:
            continue
        lane = points.setdefault(pair, [])
        left = lane[-1].state if lane else before[pair].state
        begin_us = (grid.start_s + row["bin"] * bin_s) * US_PER_S
        lane.append(Point(begin_us, max(left, states[row["worst"]], key=RANK.__getitem__)))
        lane.append(Point(begin_us + bin_s * US_PER_S, states[row["last"] % 8]))
    return bin_s, points
