"""How long lanes were in each state: what the legend says and the table has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from events.rows import WORST_FIRST, MajoritySegment, Segment
from recovery_ops.rules.enums import State

_NONE = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeInState:
    """Time by state, the worst first, and the time in which nobody knew. Of several lanes: theirs added up."""

    by_state: Mapping[State, timedelta] = field(default_factory=dict)
    unknown: timedelta = _NONE

    @property
    def known(self) -> timedelta:
        """The time in which the state is known."""
        return sum(self.by_state.values(), _NONE)

    def share(self, state: State) -> float:
        """0 to 1, of the known time: all shares add up to 1 where anything is known, and are 0 where nothing is."""
        known = self.known
        return self.by_state.get(state, _NONE) / known if known else 0.0

    def __add__(self, other: TimeInState) -> TimeInState:
        both = {
            state: self.by_state.get(state, _NONE) + other.by_state.get(state, _NONE)
            for state in WORST_FIRST
            if state in self.by_state or state in other.by_state
        }
        return TimeInState(by_state=both, unknown=self.unknown + other.unknown)


def time_in_state(lane: Iterable[Segment | MajoritySegment], *, end: datetime) -> TimeInState:
    """How long one lane was in each state until `end`; where nobody lived, there is nothing to know and to count."""
    by_state: dict[State | None, timedelta] = {}
    for one in lane:
        if isinstance(one, MajoritySegment) and not one.is_there:
            continue
        until = end if one.end is None else min(one.end, end)
        by_state[one.state] = by_state.get(one.state, _NONE) + max(_NONE, until - one.start)
    return TimeInState(
        by_state={state: by_state[state] for state in WORST_FIRST if by_state.get(state)},
        unknown=by_state.get(None, _NONE),
    )
