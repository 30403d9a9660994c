"""What the ladder promises whatever the world answers: waits, attempts, partitions, overrides, ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.classification.context_overflow import overflow_of
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.policy.model import FAIL_CLOSED
from recovery_ops.rules.resilience import steps
from recovery_ops.rules.resilience.call_context import CallContext
from recovery_ops.rules.resilience.call_steps import call_steps

STATUS = {
    Category.RATE_LIMITED: 429,
    Category.OVERLOADED: 529,
    Category.SERVER_ERROR: 503,
    Category.CONFLICT: 409,
    Category.TIMEOUT: 408,
    Category.AUTH: 401,
}


@st.composite
def failures(draw: st.DrawFn) -> Failure:
    category = draw(st.sampled_from(list(Category)))
    counts = draw(st.none() | st.tuples(st.integers(0, 10_000), st.integers(0, 20_000)))
    return Failure(
        category=category,
        evidence=Evidence.HTTP_STATUS,
        status_code=STATUS.get(category),
        retry_after_s=draw(st.none() | st.floats(0, 4000)),
        server_says_retry=draw(st.sampled_from([None, None, True, False])),
        overflow=overflow_of(*counts) if counts and category is Category.CONTEXT_OVERFLOW else None,
        connection_was_lost=category is Category.NETWORK and draw(st.booleans()),
        nothing_was_done=draw(st.booleans()),
    )


@dataclass
class Played:
    """One guarded call, as a driver sees it."""

    ending: Any = None
    facts: list[events.Event] = field(default_factory=list)
    calls: list[tuple[float, steps.Call]] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    raised: list[tuple[float, str, Failure]] = field(default_factory=list)

    def of(self, operation: str) -> list[tuple[float, steps.Call]]:
        return [one for one in self.calls if one[1].operation == operation]


def play(call: CallContext, answers: list[Failure | None], *, takes_s: float, says_yes: bool = False) -> Played:
    """A driver on a virtual clock; the last answer repeats."""
    played, now, left = Played(), call.started_at, list(answers)
    climbing = call_steps(call)
    reply: steps.Reply = None
    while True:
        try:
            step = climbing.send(reply)
        except StopIteration as end:
            played.ending = end.value
            return played
        reply = None
        if isinstance(step, steps.Emit):
            played.facts.append(step.event)
        elif isinstance(step, steps.Wait):
            assert 0 < step.delay_s <= (FAIL_CLOSED.wait_chunk_s or 0.0)
            played.waits.append((now, step.delay_s))
            now += step.delay_s
            reply = steps.Woke(now)
        elif isinstance(step, steps.AskUser):
            now += 1000.0
            reply = steps.Decided(now, says_yes)
        elif isinstance(step, steps.Reserve):
            reply = steps.Reserved(now)
        else:
            played.calls.append((now, step))
            failure = left.pop(0) if len(left) > 1 else left[0]
            now += takes_s
            if failure is None:
                reply = steps.Returned(now, takes_s)
            else:
                played.raised.append((now, step.operation, failure))
                reply = steps.Raised(now, failure, takes_s)
