"""Which state each breaker was in and when, instance by instance.

Unknown is a state of its own: of an instance that is silent nobody knows whether it lets calls through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter

from events.models import BreakerState
from events.moments import US_PER_S, Grid, bin_width_s, from_us, to_us
from events.queries.lives import Life, lives, lives_among
from events.queries.moves import Pair, Point, Reading, points_of
from events.queries.transitions import Move, Standing
from events.rows import RANK, Lanes, Segment, Transition
from recovery_ops.rules.enums import State

SEGMENTS_MOST = 2_000
"""A browser draws this many bars in 0.15 s, and four times as many in a whole one."""

_Span = tuple[int, int, State | None, Transition | None]


def segments(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    breaker: str | None = None,
    now: datetime,
    limit: int | None = SEGMENTS_MOST,
    standing: Sequence[BreakerState] | None = None,
    moves: Sequence[Move] | None = None,
) -> Lanes:
    """The lanes of all breakers, or of one, in [start, end) and never past `now`. At most six queries; of one breaker
    three less with `standing` (see `standing_of`) and `moves` (see `moves_within`).

    An instance that never reported a move of a breaker that it named is closed since it began. More than `limit`
    segments are rounded out to bins (see `Lanes.bin_s`); None leaves them exact, for `majority`, which draws fewer.
    Indexes: `agent_once`, `breaker_state_once`, `fact_by_event` or `fact_by_breaker`.
    """
    reading = reading_of(environment, start=start, end=end, breaker=breaker, now=now, standing=standing)
    lanes = _lanes(reading, moves, is_open_ended=end >= now)
    return lanes if limit is None or lanes.count <= limit else rounded_out(lanes, limit)


def reading_of(
    environment: str,
    *,
    start: datetime,
    end: datetime,
    breaker: str | None,
    now: datetime,
    standing: Sequence[BreakerState] | None = None,
    service: str = "",
) -> Reading:
    """Who lived in the window (of one `service`) and which breakers they have. Two queries and one for silences; only
    that one with what is `standing` of one breaker.
    """
    end = max(start, min(end, now))
    if standing is not None:
        alive = lives_among(environment, (row.agent for row in standing), start=start, end=end)
        there = (row for row in standing if row.agent_id in alive)
        kept = (Standing._make(getattr(row, name) for name in Standing._fields) for row in there)
    else:
        alive = lives(environment, start=start, end=end, service=service)
        rows = BreakerState.objects.filter(environment=environment, agent__in=list(alive)).order_by("breaker")
        if breaker is not None:
            rows = rows.filter(breaker=breaker)
        kept = (Standing._make(row) for row in rows.values_list(*Standing._fields))
    return Reading(environment, start, end, breaker, alive, {(row.agent_id, row.breaker): row for row in kept})


def _lanes(reading: Reading, moves: Sequence[Move] | None, *, is_open_ended: bool) -> Lanes:
    bin_s, points = points_of(reading, moves)
    lanes = Lanes(start=reading.start, end=reading.end, bin_s=bin_s)
    names = _names(reading)
    by_name = sorted(reading.standing, key=lambda pair: (pair[1], names[pair[0]]))
    for pair in by_name:
        life = reading.lives[pair[0]]
        spans = spans_of(points[pair], life, to_us(reading.start), to_us(reading.end))
        if spans:
            goes_on = is_open_ended and life.ended_us is None
            lanes.setdefault(pair[1], {})[names[pair[0]]] = list(_segments(spans, pair, life, goes_on))
    return lanes


def _names(reading: Reading) -> dict[int, str]:
    """What to call each instance: its name, with its service in front where two services use the same."""
    uses = Counter(life.instance for life in reading.lives.values())
    return {
        agent_id: life.instance if uses[life.instance] == 1 else f"{life.service}/{life.instance}"
        for agent_id, life in reading.lives.items()
    }


def spans_of(points: Sequence[Point], life: Life, start_us: int, end_us: int) -> list[_Span]:
    """The points as spans that tile the part of the window in which the instance lived; equal neighbours are one."""
    # Of two points at the same moment the later one in order holds.
    lane = sorted(points, key=_moment) if len(points) > 1 else points
    at = max(start_us, lane[0].at_us)
    end = end_us if life.ended_us is None else min(end_us, life.ended_us)
    spans: list[_Span] = []
    for place, point in enumerate(lane, 1):
        until = min(end, lane[place].at_us) if place < len(lane) else end
        for quiet, heard in life.silences:
            if at < until and quiet < until and heard > at:
                if at < quiet:
                    _append(spans, (at, quiet, point.state, point.cause))
                _append(spans, (max(at, quiet), min(heard, until), None, None))
                at = min(heard, until)
        if at < until:
            _append(spans, (at, until, point.state, point.cause))
            at = until
    return spans


_moment = attrgetter("at_us")


def _append(spans: list[_Span], span: _Span) -> None:
    if spans and spans[-1][2] is span[2]:
        spans[-1] = (spans[-1][0], span[1], span[2], spans[-1][3])
    else:
        spans.append(span)


def _segments(spans: list[_Span], pair: Pair, life: Life, goes_on: bool) -> Iterator[Segment]:
    for place, (begin, end, state, cause) in enumerate(spans):
        is_last = place == len(spans) - 1
        yield Segment(
            service=life.service,
            instance=life.instance,
            breaker=pair[1],
            state=state,
            start=from_us(begin),
            end=None if is_last and goes_on else from_us(end),
            cause=cause,
        )


def rounded_out(lanes: Lanes, limit: int) -> Lanes:
    """The same lanes in bins, each as the worst state in it, with at most `limit` segments (or one per lane)."""
    for most_bins in (288, 144, 96, 48, 24, 12, 6, 3, 1):
        bin_s = max(lanes.bin_s, bin_width_s(lanes.end - lanes.start, most_bins=most_bins))
        grid = Grid.over(lanes.start, lanes.end, bin_s)
        coarse = Lanes(start=lanes.start, end=lanes.end, bin_s=bin_s)
        for breaker, instances in lanes.items():
            coarse[breaker] = {name: _coarse(lane, grid, lanes.end) for name, lane in instances.items()}
        if coarse.count <= limit or most_bins == 1:
            return coarse
    raise AssertionError("the last width always returns")


def _coarse(lane: list[Segment], grid: Grid, end: datetime) -> list[Segment]:
    worst: dict[int, Segment] = {}
    for segment in lane:
        first = (to_us(segment.start) // US_PER_S - grid.start_s) // grid.bin_s
        last = ((to_us(segment.until(end)) - 1) // US_PER_S - grid.start_s) // grid.bin_s
        for index in range(first, last + 1):
            if index not in worst or RANK[segment.state] > RANK[worst[index].state]:
                worst[index] = segment
    spans: list[_Span] = []
    for index in sorted(worst):
        begin = max(to_us(lane[0].start), (grid.start_s + index * grid.bin_s) * US_PER_S)
        until = min(to_us(lane[-1].until(end)), (grid.start_s + (index + 1) * grid.bin_s) * US_PER_S)
        _append(spans, (begin, until, worst[index].state, worst[index].cause))
    return list(_like(lane, spans))


def _like(lane: list[Segment], spans: Iterable[_Span]) -> Iterator[Segment]:
    """Segments of the same instance, the last one ending as the lane does."""
    pattern, spans = lane[-1], list(spans)
    for place, (begin, end, state, cause) in enumerate(spans):
        yield Segment(
            service=pattern.service,
            instance=pattern.instance,
            breaker=pattern.breaker,
            state=state,
            start=from_us(begin),
            end=pattern.end if place == len(spans) - 1 else from_us(end),
            cause=cause,
        )
