"""What most of the fleet was in at each moment: one lane per breaker out of many instances' lanes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, pairwise

from events.rows import RANK, Lanes, MajoritySegment, Segment
from recovery_ops.rules.words import State

_Counts = Counter[State | None]


def majority(lanes: Lanes) -> dict[str, list[MajoritySegment]]:
    """Per breaker the state of most instances, from the window's start to its end without gaps.

    Only instances that can be asked have a say; the worse state wins a draw. Where none can be asked, or none lived
    yet, nobody knows.
    """
    return {
        breaker: list(_lane(breaker, list(instances.values()), lanes.start, lanes.end))
        for breaker, instances in lanes.items()
    }


def _lane(
    breaker: str, instances: Sequence[list[Segment]], start: datetime, end: datetime
) -> Iterator[MajoritySegment]:
    causes = {(one.start, one.state): one.cause for lane in instances for one in lane if one.cause is not None}
    runs = [list(run) for _, run in groupby(_standings(instances, start, end), key=lambda one: _winner(one[1]))]
    begins = [run[0][0] for run in runs]
    for run, (begin, until) in zip(runs, pairwise([*begins, end]), strict=True):
        state = _winner(run[0][1])
        last = run[-1][1]
        worst = max((one for one in last if one is not None), key=RANK.__getitem__, default=None)
        yield MajoritySegment(
            breaker=breaker,
            state=state,
            start=begin,
            end=until,
            most=max(counts[state] for _, counts in run),
            last=last[state],
            known=last.total() - last[None],
            unknown=last[None],
            worst=worst,
            worst_count=last[worst] if worst is not None else 0,
            cause=causes.get((begin, state)),
        )


def _standings(
    instances: Iterable[list[Segment]], start: datetime, end: datetime
) -> Iterator[tuple[datetime, _Counts]]:
    """How many instances are in each state, at the start and whenever that changes."""
    changes: list[tuple[datetime, State | None, int]] = [(start, None, 0)]
    for lane in instances:
        for segment in lane:
            changes.append((segment.start, segment.state, 1))
            changes.append((segment.until(end), segment.state, -1))
    changes.sort(key=lambda change: change[0])
    counts: _Counts = Counter()
    for at, group in groupby(changes, key=lambda change: change[0]):
        if at >= end:
            return
        for _, state, step in group:
            counts[state] += step
        yield at, Counter({state: count for state, count in counts.items() if count > 0})


def _winner(counts: _Counts) -> State | None:
    known = [state for state in counts if state is not None]
    return max(known, key=lambda state: (counts[state], RANK[state]), default=None)
