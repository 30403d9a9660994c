"""What most of the fleet was in at each moment: one lane per breaker out of many instances' lanes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter

from events.moments import from_us, to_us
from events.rows import RANK, Fleet, Lanes, MajoritySegment
from recovery_ops.rules.words import State

Change = tuple[int, State | None, int]
"""At this moment (microseconds since the epoch) so many more instances, or fewer, are in this state."""
_Counts = dict[State | None, int]


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
