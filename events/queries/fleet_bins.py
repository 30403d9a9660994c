"""What most of the fleet was in when breakers moved too often to read each move: from the sums of moves, in bins.

Exact at the edges of the bins. Within one, whoever got worse got so at its beginning and whoever got better did at its
end: an outage of a minute is drawn as wide as its bin instead of being lost. Sums of moves know no instances, so one
that is silent is taken to be in the state that it last reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from events.models import SpanSum
from events.moments import MINUTE_S, US_PER_S, Grid, bin_width_s, to_us
from events.projections.sum_views import VIEWS, View
from events.queries.moves import Reading
from events.queries.readings import state_or_none
from events.queries.sum_rows import widest
from events.rows import RANK, Fleet
from events.timelines.majority import Change, majority_of
from recovery_ops.rules.enums import State

EXACT_MOVES = 1_000
"""So many moves are read one by one, with their moments and their evidence."""
REACH = timedelta(days=63)
"""A window that ended longer ago cannot be told from what stands now."""
_BINS = 96


class _Move(NamedTuple):
    """So many instances went from one state to another in a bin."""

    bin: int
    left: State
    entered: State
    times: int


def fleet_in_bins(reading: Reading, now: datetime) -> Fleet | None:
    """The fleet's lanes in bins; None where there are so few moves that each can be read. One query."""
    minutes = bin_width_s(reading.end - reading.start, most_bins=_BINS) // MINUTE_S
    if minutes < min(VIEWS[View.MOVE]) or now - reading.end > REACH:
        return None
    grid = Grid.over(reading.start, reading.end, minutes * MINUTE_S)
    moves = _moves(reading, grid, now)
    if sum(move.times for found in moves.values() for move in found if move.bin < grid.length) <= EXACT_MOVES:
        return None
    fleet = Fleet(start=reading.start, end=reading.end, bin_s=grid.bin_s)
    start_us, end_us = to_us(reading.start), to_us(reading.end)
    pairs: dict[str, list[tuple[int, State]]] = {}
    for (agent_id, breaker), row in reading.standing.items():
        pairs.setdefault(breaker, []).append((agent_id, state_or_none(row.state) or State.CLOSED))
    for breaker in sorted(pairs):
        first, changes = _changes(reading, pairs[breaker], moves.get(breaker, []), grid)
        fleet[breaker] = list(majority_of(breaker, changes, start_us=start_us, end_us=end_us, steady=first))
    return fleet


def _moves(reading: Reading, grid: Grid, now: datetime) -> Mapping[str, list[_Move]]:
    """The moves from the window's start until now, by breaker."""
    minutes = widest(VIEWS[View.MOVE], grid.bin_s // MINUTE_S)
    first, per_bin = grid.start_s // MINUTE_S // minutes, grid.bin_s // MINUTE_S // minutes
    stored = SpanSum.objects.filter(environment=reading.environment, view=View.MOVE, minutes=minutes)
    stored = stored.filter(span__gte=first, span__lte=to_us(now) // US_PER_S // MINUTE_S // minutes)
    if reading.breaker is not None:
        stored = stored.filter(subject=reading.breaker)
    found: dict[str, list[_Move]] = {}
    for breaker, span, which, count in stored.order_by("span").values_list("breaker", "span", "category", "facts"):
        left, entered = _states_of(which)
        found.setdefault(breaker, []).append(_Move((span - first) // per_bin, left, entered, count))
    return found


@lru_cache(maxsize=64)
def _states_of(which: str) -> tuple[State, State]:
    left, _, entered = which.partition(">")
    return State(left), State(entered)


def _changes(
    reading: Reading, pairs: list[tuple[int, State]], moves: list[_Move], grid: Grid
) -> tuple[Counter[State | None], list[Change]]:
    """How many instances were in which state when the window began, and what changed from then on."""
    start_us, end_us = to_us(reading.start), to_us(reading.end)
    standing: Counter[State] = Counter(state for _, state in pairs)
    for move in moves:
        standing[move.entered] -= move.times
        standing[move.left] += move.times
    changes: list[Change] = []
    lived: list[Change] = []
    for agent_id, state in pairs:
        life = reading.lives[agent_id]
        if life.born_us > start_us:
            standing[State.CLOSED] -= 1  # each begins so
            lived.append((life.born_us, State.CLOSED, 1))
        if life.ended_us is not None and life.ended_us < end_us:
            lived.append((life.ended_us, state, -1))
        for quiet_us, heard_us in life.silences:
            changes += ((quiet_us, state, -1), (quiet_us, None, 1), (heard_us, state, 1), (heard_us, None, -1))
    first: Counter[State | None] = Counter({state: count for state, count in standing.items() if count > 0})
    counts: dict[State | None, int] = {state: first[state] for state in State}
    return first, [*changes, *lived, *_steps(counts, moves, lived, grid, start_us)]


def _steps(
    counts: dict[State | None, int], moves: list[_Move], lived: list[Change], grid: Grid, start_us: int
) -> Iterator[Change]:
    """Bin by bin: what got worse at its beginning, and at its end whatever is needed to be exact again.

    `lived` says who was born and who ended; these changes are told already, but have to be counted here, too.
    """
    by_bin: dict[int, list[_Move]] = {}
    for move in moves:
        if move.bin < grid.length:
            by_bin.setdefault(move.bin, []).append(move)
    coming = sorted(lived, key=lambda change: -change[0])
    for index, found in by_bin.items():
        begin_us = max(start_us, (grid.start_s + index * grid.bin_s) * US_PER_S)
        end_us = (grid.start_s + (index + 1) * grid.bin_s) * US_PER_S
        while coming and coming[-1][0] < end_us:
            _, state, step = coming.pop()
            counts[state] += step
        after = counts.copy()
        shown = counts.copy()
        for move in sorted(found, key=lambda one: RANK[one.left]):
            after[move.left] -= move.times
            after[move.entered] += move.times
            worse = min(move.times, shown[move.left]) if RANK[move.entered] > RANK[move.left] else 0
            if worse > 0:
                shown[move.left] -= worse
                shown[move.entered] += worse
                yield begin_us, move.left, -worse
                yield begin_us, move.entered, worse
        for state, count in after.items():
            if count != shown[state]:
                yield end_us, state, count - shown[state]
        counts = after
