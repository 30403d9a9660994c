"""What pages say of resets that go in steps: before one begins, while it goes on, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.core.wording import with_reason
from recovery_ops.rules.fleet.reset_ramp import steps_of
from recovery_ops.rules.policy.fleet_settings import RampBounds

MARKS = {"running": "half_open", "halted": "open", "cancelled": "unknown", "done": "closed"}
"""The mark of a state that fits each state of a reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One reset in the list."""

    ramp: ResetRamp
    mark: str
    names: str
    sentence: str


def steps_words(not_closed: int, bounds: RampBounds) -> str:
    """What a reset of so many would do, said before the click; empty for one that is done at once."""
    counts = steps_of(not_closed, bounds)
    if not_closed < 2:
        return ""
    steps = " → ".join(f"{count:,}" for count in counts)
    return (
        f"{not_closed} breakers are not closed. The reset runs in steps: {steps}. Each step waits until the reset "
        f"breakers stay closed for {bounds.least_calls} calls or {bounds.least_time_s:g} s. The first that reopens "
        "halts the reset."
    )


def sentence_of(found: ResetRamp) -> str:
    """How far it is, in one sentence."""
    of = f"{found.done_count:,} of {found.total:,}"
    if found.state == ResetRamp.HALTED:
        return f"Halted at {of}: {found.end_reason}"
    if found.state == ResetRamp.CANCELLED:
        return f"Cancelled at {of} by {with_reason(found.ended_by, found.end_reason)}"
    if found.state == ResetRamp.DONE:
        return f"Done. {found.end_reason}"
    return f"Step {len(found.steps)} of {len(found.plan)}: {of} reset."


def ramp_lines(environment: str, breaker: str) -> list[Line]:
    """The resets of one breaker that are not over, for its page. One query."""
    return [line_of(one) for one in ResetRamp.objects.about(environment, breaker)]


def line_of(one: ResetRamp) -> Line:
    """A reset as lists show it."""
    return Line(ramp=one, mark=MARKS[one.state], names=names_of(one.breakers), sentence=sentence_of(one))


def names_of(names: Sequence[str]) -> str:
    """The first three, and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"
