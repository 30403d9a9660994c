"""What most of the fleet was in at each moment: one lane per breaker out of many instances' lanes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby, pairwise
from operator import itemgetter

from events.moments import US_PER_S, Grid, bin_width_s, from_us, to_us
from events.rows import RANK, Fleet, Lanes, MajoritySegment
from recovery_ops.rules.enums import State

Change = tuple[int, State | None, int]
"""At this moment (microseconds since the epoch) so many more instances, or fewer, are in this state."""
_Counts = dict[State | None, int]
MOST_SEGMENTS = 2_000
"""More cannot be told apart in a figure, and a browser takes seconds to draw them."""
_LEAST_BINS = 24


def majority(lanes: Lanes) -> Fleet:
    """Per breaker the state of most instances, from the window's start to its end without gaps.

    Only instances that can be asked have a say; the worse state wins a draw. Where none can be asked, or none lived
    yet, nobody knows.
    """
    fleet = Fleet(start=lanes.start, end=lanes.end, bin_s=lanes.bin_s)
    for breaker, instances in lanes.items():
        changes: list[Change] = []
        causes = {}
        for lane in instances.values():
            for one in lane:
                begin_us = to_us(one.start)
                changes.append((begin_us, one.state, 1))
                changes.append((to_us(one.until(lanes.end)), one.state, -1))
                causes[begin_us, one.state] = one.cause
        found = majority_of(breaker, changes, start_us=to_us(lanes.start), end_us=to_us(lanes.end))
        fleet[breaker] = [replace(one, cause=causes.get((to_us(one.start), one.state))) for one in found]
    return fleet


def in_bins(fleet: Fleet) -> Fleet:
    """The same, in bins where it has more segments than a figure can show; each bin by the worst state in it.

    Moves are summed before so many are read, but instances that fall silent and speak again change who has a say, too.
    """
    if sum(map(len, fleet.values())) <= MOST_SEGMENTS:
        return fleet
    most_bins = max(_LEAST_BINS, MOST_SEGMENTS // len(fleet))
    bin_s = max(fleet.bin_s, bin_width_s(fleet.end - fleet.start, most_bins=most_bins))
    binned = Fleet(start=fleet.start, end=fleet.end, bin_s=bin_s)
    binned.presences = fleet.presences
    grid = Grid.over(fleet.start, fleet.end, bin_s)
    for name, lane in fleet.items():
        binned[name] = list(_lane_in_bins(lane, grid, fleet.end))
    return binned


def _lane_in_bins(lane: Sequence[MajoritySegment], grid: Grid, end: datetime) -> Iterator[MajoritySegment]:
    worst: dict[int, MajoritySegment] = {}
    for one in lane:
        last = (to_us(one.end) - 1) // US_PER_S // grid.bin_s
        for place in range(to_us(one.start) // US_PER_S // grid.bin_s, last + 1):
            worst[place] = max(worst.get(place, one), one, key=_badness)
    begin = lane[0].start
    for _, group in groupby(sorted(worst.items()), key=lambda item: (item[1].state, item[1].is_there)):
        run = list(group)
        first, newest = run[0][1], run[-1][1]
        until = min(end, from_us((run[-1][0] + 1) * grid.bin_s * US_PER_S))
        yield replace(newest, start=begin, end=until, most=max(one.most for _, one in run), cause=first.cause)
        begin = until


def _badness(segment: MajoritySegment) -> int:
    """What is known before what is not, and that before nobody being there."""
    return RANK[segment.state] if segment.is_there else -1


def majority_of(
    breaker: str, changes: Iterable[Change], *, start_us: int, end_us: int, steady: Counter[State | None] | None = None
) -> Iterator[MajoritySegment]:
    """The lane of one breaker out of what changed; `steady` instances are in their state from start to end."""
    standings = _standings(changes, start_us, end_us, Counter() if steady is None else steady)
    runs = [list(run) for _, run in groupby(standings, key=lambda one: _winner(one[1]))]
    begins = [run[0][0] for run in runs]
    for run, (begin_us, until_us) in zip(runs, pairwise([*begins, end_us]), strict=True):
        state, last = _winner(run[0][1]), run[-1][1]
        worst = max((one for one in last if one is not None), key=RANK.__getitem__, default=None)
        yield MajoritySegment(
            breaker=breaker,
            state=state,
            start=from_us(begin_us),
            end=from_us(until_us),
            most=max(counts.get(state, 0) for _, counts in run),
            last=last.get(state, 0),
            known=sum(last.values()) - last.get(None, 0),
            unknown=last.get(None, 0),
            worst=worst,
            worst_count=last[worst] if worst is not None else 0,
        )


def _standings(
    changes: Iterable[Change], start_us: int, end_us: int, steady: Counter[State | None]
) -> Iterator[tuple[int, _Counts]]:
    """How many instances are in each state, at the start and whenever that changes."""
    counts: _Counts = dict(steady)
    ordered = sorted([(start_us, None, 0), *changes], key=_moment)
    for at_us, group in groupby(ordered, key=_moment):
        if at_us >= end_us:
            return
        for _, state, step in group:
            counts[state] = counts.get(state, 0) + step
        yield at_us, {state: count for state, count in counts.items() if count > 0}


_moment = itemgetter(0)


def _winner(counts: _Counts) -> State | None:
    best, most = None, (0, 0)
    for state, count in counts.items():
        if state is not None and (count, RANK[state]) > most:
            best, most = state, (count, RANK[state])
    return best


def worst_first(lanes: Mapping[str, Sequence[MajoritySegment]]) -> list[str]:
    """The names of breakers by their trouble: the worst at the end first, then the longest not closed, then by name."""
    return sorted(lanes, key=lambda name: (*_trouble(lanes[name]), name))


def _trouble(segments: Sequence[MajoritySegment]) -> tuple[int, float]:
    there = (one for one in segments if one.is_there and one.state is not State.CLOSED)
    hurt_s = sum((one.end - one.start).total_seconds() for one in there)
    return (-RANK[segments[-1].worst], -hurt_s)
