"""A reset of many breakers in steps: how large each step is, and whether what it did allows the next one.

What was reset has to stay closed, seen in events: through enough calls, or for long enough. The first that opens again
halts the ramp, and is named. Who cannot be reached is not waited for, and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.fleet_settings import NO_RAMP_SAID, RampBounds

_MOST_NAMED = 3


class Go(StrEnum):
    """What a ramp has to do now."""

    STEP = "step"
    WAIT = "wait"
    HALT = "halt"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One breaker of one instance that was reset, as it was seen last. Times are seconds."""

    name: str
    """`search_web on research/r-3`."""
    since_reset_s: float
    is_reachable: bool = True
    has_applied: bool = True
    """Whether its instance said that it obeys the revision of the reset."""
    is_closed: bool = True
    closed_for_s: float = 0.0
    """For how long it has been closed since the reset; 0 while it is not."""
    opened_after_s: float | None = None
    """How long after the reset it opened again; None: it did not."""
    calls: int = 0
    """Calls that went through it since the reset."""

    def stays_closed(self, bounds: RampBounds) -> bool:
        """Whether there is evidence enough that it stays closed."""
        is_obeying = self.is_reachable and self.has_applied and self.is_closed and self.opened_after_s is None
        return is_obeying and (self.calls >= bounds.least_calls or self.closed_for_s >= bounds.least_time_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What is to be done and why. `culprits`: the names of those that halted it."""

    go: Go
    sentence: str
    culprits: tuple[str, ...] = ()


def steps_of(total: int, bounds: RampBounds = NO_RAMP_SAID) -> tuple[int, ...]:
    """How many of `total` are reset after each step: rising, the last one is `total`; empty for none."""
    shares = (bounds.first_instances, *(_part(total, one) for one in (bounds.second_share, bounds.third_share)), total)
    found: list[int] = []
    for count in shares:
        if min(count, total) > (found[-1] if found else 0):
            found.append(min(count, total))
    return tuple(found)


def judge(
    members: Iterable[Member], *, step: int, steps: int, in_step_s: float, bounds: RampBounds = NO_RAMP_SAID
) -> Opinion:
    """Whether step `step` of `steps` (from 1 on) is enough to go on. `members` are all that were reset so far."""
    known = sorted(members, key=lambda one: one.name)
    opened = [one for one in known if one.opened_after_s is not None]
    if opened:
        return Opinion(go=Go.HALT, sentence=_opened(opened), culprits=tuple(one.name for one in opened))
    waiting = [one for one in known if one.is_reachable and not one.stays_closed(bounds)]
    settled = [one for one in known if one.stays_closed(bounds)]
    silent = [one for one in known if not one.is_reachable]
    if settled and not waiting:
        return _went_well(len(settled), len(silent), step, steps)
    if in_step_s > bounds.patience_s:
        blamed = waiting or silent
        sentence = f"No evidence in {_span(bounds.patience_s)}: {_missing(blamed, bounds)}."
        return Opinion(go=Go.HALT, sentence=sentence, culprits=tuple(one.name for one in blamed))
    if not waiting:
        return Opinion(go=Go.WAIT, sentence="All reset instances are unreachable.")
    sentence = f"{len(settled)} of {len(settled) + len(waiting)} stay closed; "
    return Opinion(go=Go.WAIT, sentence=f"{sentence}{_missing(waiting, bounds)}.")


def _part(total: int, share: float) -> int:
    return math.ceil(round(total * share, 6))


def _went_well(settled: int, silent: int, step: int, steps: int) -> Opinion:
    unseen = f"; {silent} unreachable, reset when they reconnect" if silent else ""
    if step >= steps:
        return Opinion(go=Go.DONE, sentence=f"All {settled} reporting breakers stay closed{unseen}.")
    who = f"All {settled} reset breakers stay" if settled > 1 else "The reset breaker stays"
    return Opinion(go=Go.STEP, sentence=f"{who} closed{unseen}.")


def _opened(opened: Sequence[Member]) -> str:
    first = min(opened, key=lambda one: (one.opened_after_s or 0.0, one.name))
    others = f", and {len(opened) - 1} more" if len(opened) > 1 else ""
    return f"{first.name} reopened {_span(first.opened_after_s or 0.0)} after its reset{others}."


def _missing(waiting: Sequence[Member], bounds: RampBounds) -> str:
    if not waiting:
        return "no reset breaker is left"
    names = ", ".join(one.name for one in waiting[:_MOST_NAMED])
    more = f" and {len(waiting) - _MOST_NAMED} more" if len(waiting) > _MOST_NAMED else ""
    first = waiting[0]
    if not first.is_reachable:
        return f"{names}{more} unreachable"
    if not first.has_applied:
        return f"{names}{more} pending"
    if not first.is_closed:
        return f"{names}{more} not closed yet"
    verb = "needs" if len(waiting) == 1 else "need"
    return f"{names}{more} {verb} {bounds.least_calls} calls or {_span(bounds.least_time_s)} closed"


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{max(0.0, seconds):.0f} s"
