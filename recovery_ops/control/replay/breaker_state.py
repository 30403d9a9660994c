"""What a breaker makes of recorded calls that went well, and of what people did to it, for all who decide again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from recovery_ops.control.replay.recorded_calls import Moved, Successes
from recovery_ops.rules.events import Event
from recovery_ops.rules.resilience.circuit_breaker import Breaker, Imposed


class Passed(NamedTuple):
    """Some of them came to the breaker: `refused` of them together, or where that is 0 they went well."""

    at_s: float
    facts: tuple[Event, ...]
    refused: int


def passing(breaker: Breaker, some: Successes) -> Iterator[Passed]:
    """Let calls through that went well, spread over their time, as far as the breaker does."""
    left, pause_s = some.count, (some.end_s - some.start_s) / (some.count + 1)
    at_s = some.start_s
    while left:
        if breaker.is_on_fast_path:
            deque(islice(breaker.successes.steps, left), maxlen=0)  # each step of the counter is one success
            yield Passed(some.end_s, (), 0)
            return
        at_s += pause_s
        admission = breaker.admit(at_s)
        if admission.is_allowed:
            left -= 1
            yield Passed(at_s, (*admission.events, *breaker.succeed(at_s, ticket=admission.ticket)), 0)
            continue
        # Those before the breaker would let one through are refused together.
        wait_s = admission.retry_in_s or 0.0
        refused = left if not pause_s else min(left, max(1, int(wait_s / pause_s)))
        left -= refused
        yield Passed(at_s, admission.events, refused)
        at_s += (refused - 1) * pause_s


def imposed(breaker: Breaker, move: Moved, name: str) -> tuple[Event, ...]:
    """What a person did to a breaker holds under any policy. `name` stands for the override."""
    if move.is_reset:
        return breaker.reset(move.at_s)
    if move.mode is None:
        return breaker.impose(None, move.at_s)
    return breaker.impose(Imposed(id=name, mode=move.mode, ends_at=move.at_s + move.lasts_s), move.at_s)
