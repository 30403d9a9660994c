"""Reads from the store what moved in a window and what stood before it, breaker by breaker and instance by instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Exists, F, Max, Min, OuterRef, QuerySet, Subquery, Sum, TextField
from django.db.models.functions import Cast, JSONObject

from events.models import LANE_MINUTES, BreakerState, Fact, InstanceMoves
from events.moments import MINUTE_S, US_PER_S, Grid, bin_width_s, to_us
from events.queries.lives import Life
from events.queries.readings import MOVED, state_or_none
from events.queries.sum_rows import widest
from events.queries.transitions import Move, Standing, last_transition, moves_of, transition_of
from events.rows import RANK, WORST_FIRST, Transition
from events.store.partitions import is_partitioned
from events.store.stored_json import text_at
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerStateChanged
from recovery_ops.wire import names

MOVES_READ = 1_000
"""With more moves than this in a window, the sums of moves are drawn, in bins, instead of each move."""
LIGHT_MOVES_READ = 4 * MOVES_READ
"""Without their evidence moves are so much cheaper."""
_BINS = 96
_CELLS = 20_000
"""Bins are so wide that at most so many rows come out: finer for up to 200 instances, coarser for more."""

Pair = tuple[int, str]
"""An instance's id and a breaker's name."""
Left = tuple[int, State]
"""When a pair first moved in the window, and what state it left by that."""


class Point(NamedTuple):
    """From `at_us` (microseconds since the epoch) on the state is this, until the next point."""

    at_us: int
    state: State
    cause: Transition | None = None
    fact_id: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What is asked: one window of one environment, of all breakers or of one, for these instances and pairs."""

    environment: str
    start: datetime
    end: datetime
    breaker: str | None
    lives: Mapping[int, Life]
    standing: Mapping[Pair, Standing]

    def moved(self) -> QuerySet[Fact]:
        """The moves of the window."""
        moved = Fact.objects.filter(environment=self.environment, event=MOVED)
        moved = moved.filter(at_us__gte=to_us(self.start), at_us__lt=to_us(self.end))
        return moved if self.breaker is None else moved.filter(breaker=self.breaker)


def moves_within(environment: str, *, start: datetime, end: datetime, breaker: str) -> list[Move]:
    """The newest moves of one breaker in [start, end), newest first; one more than lanes are drawn of. One query."""
    reading = Reading(environment, start, end, breaker, {}, {})
    return list(moves_of(reading.moved().order_by("-at_us", "-sequence_number", "-id")[: MOVES_READ + 1]))


def points_of(reading: Reading, moves: Sequence[Move] | None = None) -> tuple[int, dict[Pair, list[Point]]]:
    """The width of the bins in seconds (0: exact), and each pair's points, what stood before the window first.

    `moves` are those of the window as `moves_within` has them, where they have been read already.
    """
    if moves is None:
        found = list(moves_of(_unless_many(reading, MOVES_READ).order_by("at_us", "sequence_number", "id")))
    else:
        found = [move for move in reversed(moves) if move.at_us < to_us(reading.end)]
    if (not found or len(found) > MOVES_READ) and (binned := _binned(reading, MOVES_READ)) is not None:
        return binned
    points: dict[Pair, list[Point]] = {}
    for move in found:
        if (pair := (move.agent_id, move.breaker)) in reading.standing:
            points.setdefault(pair, []).append(_point(move))
    left = {pair: (lane[0].at_us, _left_by(lane[0])) for pair, lane in points.items()}
    before = _before(reading, left, wants_causes=True)
    return 0, {pair: [before[pair], *points.get(pair, ())] for pair in reading.standing}


def light_points_of(reading: Reading) -> tuple[int, dict[Pair, list[Point]]]:
    """The same with the facts' ids instead of their evidence: for many breakers, of which little is shown."""
    columns = ("id", "agent_id", "breaker", "at_us", "state", "previous")
    moved = _unless_many(reading, LIGHT_MOVES_READ).annotate(previous=_PREVIOUS).values_list(*columns)
    rows = list(moved.order_by("at_us", "sequence_number", "id"))
    if not rows and (binned := _binned(reading, LIGHT_MOVES_READ)) is not None:
        return binned
    points: dict[Pair, list[Point]] = {}
    left: dict[Pair, Left] = {}
    for fact_id, agent_id, breaker, at_us, state, previous in rows:
        if (pair := (agent_id, breaker)) in reading.standing:
            left.setdefault(pair, (at_us, state_or_none(previous) or State.CLOSED))
            points.setdefault(pair, []).append(Point(at_us, state_or_none(state) or State.CLOSED, None, fact_id))
    before = _before(reading, left, wants_causes=False)
    return 0, {pair: [before[pair], *points.get(pair, ())] for pair in reading.standing}


def _unless_many(reading: Reading, most: int) -> QuerySet[Fact]:
    """The moves of the window, or none where there are more than so many: that is found without reading them."""
    beyond = reading.moved().order_by("at_us").values("at_us")[most : most + 1]
    return reading.moved().filter(~Exists(beyond))


def _point(move: Move) -> Point:
    transition = transition_of(move)
    return Point(move.at_us, transition.state, transition, move.id)


def _left_by(point: Point) -> State:
    previous = point.cause.previous_state if point.cause is not None else None
    return previous or State.CLOSED


def _before(reading: Reading, left: Mapping[Pair, Left], *, wants_causes: bool) -> dict[Pair, Point]:
    """What stood when the window began: the newest move before it, or what the first move in it says it left."""
    found: dict[Pair, Point] = {}
    asked: list[int] = []
    for pair, row in reading.standing.items():
        life = reading.lives[pair[0]]
        if pair in left:
            first_us, state = left[pair]
            found[pair] = Point(min(life.born_us, first_us), state)
            if wants_causes and reading.breaker is not None and state is not State.CLOSED:
                asked.append(row.id)  # the page of one breaker shows evidence; for all breakers it would cost too much
        elif row.at_us is None:
            found[pair] = Point(life.born_us, State.CLOSED)
        elif row.at_us < to_us(reading.start):
            move = last_transition(row, life.service, life.instance) if wants_causes else None
            found[pair] = Point(row.at_us, state_or_none(row.state) or State.CLOSED, move)
        else:
            found[pair] = Point(life.born_us, State.CLOSED)
            asked.append(row.id)  # it moved after the window: the state that is kept is not the window's
    newest = _newest_before_of_days if is_partitioned() else _newest_before
    for pair, point in newest(reading, asked, wants_causes=wants_causes):
        if pair not in left or point.state is found[pair].state:  # else a move between the two was lost
            found[pair] = point
    return found


def _newest_before(
    reading: Reading, ids: list[int], *, wants_causes: bool, since_us: int | None = None
) -> Iterator[tuple[Pair, Point]]:
    """The last move before the window of each of these pairs; index `fact_by_breaker`, walked backwards. One query.

    The fact comes whole out of where it is found: to look for it by its number, PostgreSQL would go through every day.
    """
    earlier = Fact.objects.filter(
        environment=reading.environment,
        breaker=OuterRef("breaker"),
        event=MOVED,
        agent_id=OuterRef("agent_id"),
        at_us__lt=to_us(reading.start),
    )
    if since_us is not None:
        earlier = earlier.filter(at_us__gte=since_us)
    whole = JSONObject(id="id", at_us="at_us", state="state", written=Cast("attributes", TextField()))
    newest = earlier.order_by("-at_us", "-sequence_number").annotate(whole=whole).values("whole")[:1]
    rows = BreakerState.objects.filter(id__in=ids).annotate(newest=Subquery(newest))
    columns = ("agent_id", "agent__service", "agent__instance", "breaker", "newest")
    for agent_id, service, instance, breaker, found in rows.values_list(*columns):
        if found is not None:
            move = Move(agent_id=agent_id, service=service, instance=instance, breaker=breaker, **found)
            yield (agent_id, breaker), _point(move)


def _newest_before_of_days(reading: Reading, ids: list[int], *, wants_causes: bool) -> Iterator[tuple[Pair, Point]]:
    """The same where facts lie in days: when each pair moved last, the sums of moves know, but for the part of a span
    before the window. Up to three queries; index `instance_moves_once`.
    """
    if not ids:
        return
    span_us = max(LANE_MINUTES) * MINUTE_S * US_PER_S
    border_us = to_us(reading.start) // span_us * span_us
    last = _last_before(reading, ids, border_us // span_us)
    if border_us < to_us(reading.start):
        for pair, point in _newest_before(reading, ids, wants_causes=wants_causes, since_us=border_us):
            last.pop(pair, None)
            yield pair, point
    if not wants_causes:
        for pair, one in last.items():
            yield pair, Point(one >> 3, _STATES[one & 7])
        return
    moments = {(*pair, one >> 3) for pair, one in last.items()}
    moved = Fact.objects.filter(
        environment=reading.environment,
        event=MOVED,
        breaker__in={breaker for _, breaker in last},
        at_us__in=sorted({at_us for *_, at_us in moments}),
    )
    moves = moves_of(moved.order_by("at_us", "sequence_number", "id")) if last else ()
    newest = {  # the last of one moment stays
        (move.agent_id, move.breaker): move for move in moves if (move.agent_id, move.breaker, move.at_us) in moments
    }
    for pair, one in last.items():  # a fact may be gone of which the sum stands
        yield pair, _point(newest[pair]) if pair in newest else Point(one >> 3, _STATES[one & 7])


def _last_before(reading: Reading, ids: list[int], span: int) -> dict[Pair, int]:
    """The last move of each of these pairs before a span, as `InstanceMoves` has it. One query."""
    summed = InstanceMoves.objects.filter(
        environment=reading.environment,
        breaker=OuterRef("breaker"),
        minutes=max(LANE_MINUTES),
        span__lt=span,
        agent_id=OuterRef("agent_id"),
    )
    newest = Subquery(summed.order_by("-span").values("last")[:1])
    rows = BreakerState.objects.filter(id__in=ids).annotate(last=newest)
    found = rows.values_list("agent_id", "breaker", "last")
    return {(agent_id, breaker): last for agent_id, breaker, last in found if last is not None}


def _binned(reading: Reading, most: int) -> tuple[int, dict[Pair, list[Point]]] | None:
    """Points that show for each bin the worst state in it, from the sums; None where so many moves are each drawn."""
    most_bins = max(12, min(_BINS, _CELLS // max(1, len(reading.standing))))
    bin_s = bin_width_s(reading.end - reading.start, most_bins=most_bins)
    grid = Grid.over(reading.start, reading.end, bin_s)
    rows = [row for row in _summed(reading, grid) if (row.agent_id, row.breaker) in reading.standing]
    if sum(row.moves for row in rows) <= most:
        return None
    left: dict[Pair, Left] = {}
    for row in rows:
        left.setdefault((row.agent_id, row.breaker), (row.first >> 3, _STATES[row.first & 7]))
    before = _before(reading, left, wants_causes=False)
    points = {pair: [before[pair]] for pair in reading.standing}
    for row in rows:
        lane = points[row.agent_id, row.breaker]
        begin_us = (grid.start_s + row.bin * bin_s) * US_PER_S
        worst = max(lane[-1].state, _STATES[row.worst], key=RANK.__getitem__)
        lane.append(Point(max(begin_us, to_us(reading.start)), worst))
        lane.append(Point(begin_us + bin_s * US_PER_S, _STATES[row.last & 7]))
    return bin_s, points


class _Bin(NamedTuple):
    """A lane's moves in one bin; see `InstanceMoves`."""

    agent_id: int
    breaker: str
    bin: int
    moves: int
    worst: int
    first: int
    last: int


def _summed(reading: Reading, grid: Grid) -> Iterator[_Bin]:
    """By pair and bin, in order. A bin at an edge is whole, though the window is not. Index `instance_moves_once`."""
    minutes = widest(LANE_MINUTES, grid.bin_s // MINUTE_S)
    first, per_bin = grid.start_s // MINUTE_S // minutes, grid.bin_s // MINUTE_S // minutes
    breakers = {breaker for _, breaker in reading.standing} if reading.breaker is None else {reading.breaker}
    found = InstanceMoves.objects.filter(
        environment=reading.environment, breaker__in=breakers, minutes=minutes, span__gte=first
    ).filter(span__lt=first + per_bin * grid.length)
    keys = ("agent_id", "breaker", "bin")
    sums = {"all": Sum("moves"), "worst_of": Max("worst"), "first_of": Min("first"), "last_of": Max("last")}
    grouped = found.values("agent_id", "breaker", bin=(F("span") - first) / per_bin).annotate(**sums)
    return map(_Bin._make, grouped.order_by(*keys).values_list(*keys, *sums))


# Cast, or a comparison would be one of JSON values.
_PREVIOUS = text_at(names.attribute_of(BreakerStateChanged, "previous_state"))
_STATES = {RANK[state]: state for state in WORST_FIRST}
