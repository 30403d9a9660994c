"""Why a breaker is open: the rule that opened it, with the numbers that it had at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from events.rows import InstanceState, Transition
from events.wording import cause_sentence
from recovery_ops.rules.enums import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The newest opening that still holds, and how many `others` hold beside it."""

    instance: str
    at: datetime
    words: str
    others: int
    wait_s: float | None


def opened_of(found: Sequence[InstanceState]) -> Opened | None:
    """What opened it; None where no rule holds it open, or nobody said when."""
    held = [(one.since, one) for one in found if one.state is State.OPEN and one.since is not None]
    if not held:
        return None
    at, newest = max(held, key=lambda pair: (pair[0], pair[1].agent.instance))
    words = cause_sentence(_moved(newest, at), state=State.OPEN)
    return Opened(
        instance=newest.agent.instance,
        at=at,
        words=words[:1].upper() + words[1:],
        others=len(held) - 1,
        wait_s=newest.wait_s,
    )


def _moved(one: InstanceState, at: datetime) -> Transition:
    return Transition(
        fact_id=None,
        at=at,
        service=one.agent.service,
        instance=one.agent.instance,
        breaker=one.breaker,
        state=State.OPEN,
        previous_state=None,
        trigger=one.trigger,
        calls=one.calls,
        failures=one.failures,
        failure_rate=one.failure_rate,
        threshold=one.threshold,
        last_category=one.last_category,
        override_id=one.override_id,
        revision=one.revision,
    )
