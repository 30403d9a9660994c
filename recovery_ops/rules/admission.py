"""Whether the next attempt may be made, and when: override → breaker → gate → deadline, and the waits for them."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from recovery_ops.rules import facts, told
from recovery_ops.rules.breaker import Admission
from recovery_ops.rules.facts import Fact
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.policy import FAIL_CLOSED, Knobs
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.standing import Alternative, Climb, Standing
from recovery_ops.rules.steps import Cause, Emit, Reply, Step, Wait, Woke
from recovery_ops.rules.words import Refusal, State, StopReason

SHORTEST_WAIT_S = 0.1
"""For a breaker: another call's probe may be due this very moment, and nobody asks in a circle."""


@dataclass(slots=True)
class Tried:
    """How the attempts at one operation went."""

    now: float
    attempts: int = 0
    attempts_before_switch: int = 0
    """Attempts at models that were asked before; each model has the retries of the policy."""
    model: str | None = None
    is_answered: bool = False
    is_cancelled: bool = False
    failure: Failure | None = None
    refusal: Admission | None = None
    refusal_kind: Refusal | None = None
    reason: StopReason = StopReason.NOT_RETRYABLE
    no_retry: str = ""
    """The word of the last decision, where it was one against a retry."""
    retry_in_s: float | None = None
    suspended_s: float = 0.0
    """How long a person was waited for: deadlines stood still meanwhile."""
    is_person_asked: bool = False
    turned_aside: tuple[str, ...] = ()
    """The rungs that were asked in vain, before it was persisted with the operation itself."""


def admitted(call: Climb, standing: Standing, tried: Tried, *, level: int) -> Generator[Step, Reply, Admission | None]:
    """Override → breaker → gate → deadline; None (and why, in `tried`) when the call must not be made."""
    while True:
        if standing.sheds(call.source, tried.now):
            tried.refusal_kind, tried.reason = Refusal.SHED, StopReason.SHED
            yield Emit(told.rejected(standing, Refusal.SHED.value))
            return None
        if swept := standing.sweep(tried.now):
            yield from emitted(swept)
        # Nobody waits at a gate for a breaker that will not let him pass. A probe is taken only when all else is well.
        if (
            not standing.gate.is_open
            and not standing.breaker.refuses(tried.now)
            and not _is_overruled(standing, State.DISABLED)
        ):
            waits = yield from _at_the_gate(call, standing, tried, level=level)
            if not waits:
                return None
            continue
        if tried.now >= deadline_at(call, standing, tried) and not standing.breaker.refuses(tried.now):
            tried.refusal_kind, tried.reason = Refusal.DEADLINE, StopReason.DEADLINE
            return None
        admission = standing.breaker.admit(tried.now)
        if admission.facts:
            yield from emitted(admission.facts)
        if admission.would_reject:
            yield Emit(told.rejected(standing, "not_enforced"))
        if admission.is_allowed:
            return admission
        is_forced = admission.state is State.FORCED_OPEN
        if not is_forced and is_patient(call, standing, tried, level=level):
            until = tried.now + max(admission.retry_in_s or 0.0, SHORTEST_WAIT_S)
            if until < deadline_at(call, standing, tried):
                if not (yield from _waited(standing, tried, until)):
                    return None
                continue
        tried.refusal, tried.refusal_kind = admission, Refusal.OVERRIDE if is_forced else Refusal.BREAKER
        tried.reason, tried.retry_in_s = StopReason.BREAKER_OPEN, admission.retry_in_s
        yield Emit(told.rejected(standing, tried.refusal_kind.value))
        return None


def _at_the_gate(call: Climb, standing: Standing, tried: Tried, *, level: int) -> Generator[Step, Reply, bool]:
    """Foreground takes the fallback or waits; background is refused, unless it persists. True: ask again."""
    wait_s = standing.gate.opens_in_s(tried.now)
    wait_s += (
        call.chance() * (standing.policy.knobs.jitter or 0.0) * min(wait_s, standing.policy.knobs.base_delay_s or 0.0)
    )
    waits = is_patient(call, standing, tried, level=level) or (
        call.is_foreground and not _turns_aside(call, tried, level=level)
    )
    is_too_late = tried.now + wait_s >= deadline_at(call, standing, tried)
    if not waits or is_too_late:
        tried.refusal_kind, tried.reason, tried.retry_in_s = Refusal.GATE, StopReason.GATE_CLOSED, wait_s
        yield Emit(told.rejected(standing, tried.refusal_kind.value))
        return False
    return (yield from _waited(standing, tried, tried.now + wait_s))


def is_patient(call: Climb, standing: Standing, tried: Tried, *, level: int) -> bool:
    """Whether a refusal is waited out: in persistent mode, by the operation itself, after its fallbacks were asked."""
    return level == 0 and bool(standing.policy.knobs.persistent) and not _turns_aside(call, tried, level=level)


def goes_on(call: Climb, tried: Tried) -> bool:
    """Whether a call that turned aside in vain waits for its own breaker or gate after all."""
    if tried.turned_aside or not call.standing.policy.knobs.persistent or tried.refusal_kind is Refusal.OVERRIDE:
        return False
    return tried.reason in (StopReason.BREAKER_OPEN, StopReason.GATE_CLOSED)


def _turns_aside(call: Climb, tried: Tried, *, level: int) -> bool:
    return level == 0 and not tried.turned_aside and bool(allowed_alternatives(call))


def _waited(standing: Standing, tried: Tried, until: float) -> Generator[Step, Reply, bool]:
    """False when it was cancelled. Whatever else ended the wait, admission is asked again."""
    if (yield from wait(standing, tried, until)) is Cause.CANCELLED:
        tried.is_cancelled = True
    return not tried.is_cancelled


def chunk_s(knobs: Knobs) -> float:
    """A long wait is cut into parts of at most this, each followed by a heartbeat."""
    return knobs.wait_chunk_s or FAIL_CLOSED.wait_chunk_s or 1.0


def wait(standing: Standing, tried: Tried, until: float) -> Generator[Step, Reply, Cause]:
    began, longest_s = tried.now, chunk_s(standing.policy.knobs)
    while (left := until - tried.now) > 0:
        reply = yield Wait(min(left, longest_s), standing.name)
        cause = reply.cause if isinstance(reply, Woke) else Cause.CANCELLED
        tried.now = reply.now if reply else tried.now
        if cause is not Cause.ELAPSED:
            return cause
        if until - tried.now > 0:
            yield Emit(
                facts.WaitHeartbeat(
                    operation=standing.name,
                    waited_s=round(tried.now - began, 3),
                    remaining_s=round(until - tried.now, 3),
                    category=tried.failure.category if tried.failure else None,
                )
            )
    return Cause.ELAPSED


def allowed_alternatives(call: Climb) -> tuple[Alternative, ...]:
    """The fallbacks that code declared, less what the live policy forbids, in the order it names."""
    policy = call.standing.policy
    if not call.alternatives or not policy.knobs.fallback_allowed:
        return ()
    reduced = tuple(other for other in call.alternatives if other.feature)
    declared = {other.standing.name: other for other in call.alternatives if not other.feature}
    names = declared if policy.fallbacks is None else policy.fallbacks
    return (*(declared[name] for name in names if name in declared), *reduced)


def deadline_at(call: Climb, standing: Standing, tried: Tried) -> float:
    """Persistent mode replaces the deadlines of step and run by its own cap."""
    if standing.policy.knobs.persistent:
        return call.started_at + (standing.policy.knobs.persistent_cap_s or 0.0)
    return call.deadline_at + tried.suspended_s


def _is_overruled(standing: Standing, mode: State) -> bool:
    return standing.breaker.override is not None and standing.breaker.override.mode is mode


def emitted(found: Iterable[Fact]) -> Generator[Step, Reply, None]:
    for fact in found:
        yield Emit(fact)
