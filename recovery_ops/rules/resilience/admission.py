"""Whether the next attempt may be made, and when: stop → override → breaker → gate → deadline, and their waits."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, Refusal, State, StopReason
from recovery_ops.rules.events import Event
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import FAIL_CLOSED, Settings
from recovery_ops.rules.resilience import call_events as told
from recovery_ops.rules.resilience.call_context import Alternative, CallContext, OperationState
from recovery_ops.rules.resilience.circuit_breaker import Admission
from recovery_ops.rules.resilience.model_chain import Needs
from recovery_ops.rules.resilience.steps import Cause, Emit, Reply, Step, Wait, Woke
from recovery_ops.rules.spending import SpendRuling

FALLBACK_READY = "fallback_ready"
"""Why a retry is not made: a fallback or another model answers sooner."""

SHORTEST_WAIT_S = 0.1
"""For a breaker: another call's probe may be due this very moment, and nobody asks in a circle."""


@dataclass(slots=True)
class Tried:
    """How the attempts at one operation went."""

    now: float
    began: float
    level: int = 0
    attempts: int = 0
    attempts_before_switch: int = 0
    """Attempts at models that were asked before; each model has the retries of the policy."""
    model: str | None = None
    credential: str | None = None
    """The label of the key that the last attempt used."""
    used_up: frozenset[str] = frozenset()
    """Models that this call does not ask again."""
    needs: Needs | None = None
    """What the request needs of a model, where an overflow has shown more than the caller knew."""
    reserved_s: float = 0.0
    """What is kept of the time for fallbacks and models that were not tried."""
    waited_s: float = 0.0
    """How long was waited, since the last change of the model."""
    is_partial: bool = False
    """Whether the last failure is that of a stream of which the caller has a part."""
    has_part: bool = False
    """Whether the caller has a part of a stream that broke, in this attempt or before."""
    is_continued: bool = False
    """Whether the attempt under way, or the last one, was asked to continue that part."""
    is_prefill_refused: bool = False
    """Whether a model did not take the part of the broken stream: it is asked from the beginning."""
    is_switch_told: bool = False
    """Whether an event has named the model that is asked now."""
    elsewhere: int = 0
    """Attempts at fallbacks."""
    last: Failure | None = None
    """The failure of the last fallback that was called."""
    is_answered: bool = False
    is_cancelled: bool = False
    failure: Failure | None = None
    refusal: Admission | None = None
    refusal_kind: Refusal | None = None
    is_stepped_down: bool = False
    """Whether a cheaper model is asked because of a spend cap: the model before is not degraded."""
    over_cap: SpendRuling | None = None
    """The spend cap that the last attempt would have gone over."""
    reason: StopReason = StopReason.NOT_RETRYABLE
    no_retry: str = ""
    """The word of the last decision, where it was one against a retry."""
    retry_in_s: float | None = None
    suspended_s: float = 0.0
    """How long a person was waited for: deadlines stood still meanwhile."""
    is_person_asked: bool = False
    turned_aside: tuple[str, ...] = ()
    """The rungs that were asked in vain, before it was persisted with the operation itself."""


def admitted(
    call: CallContext, standing: OperationState, tried: Tried, *, level: int
) -> Generator[Step, Reply, Admission | None]:
    """Stop → override → breaker → gate → deadline; None (and why, in `tried`) when the call must not be made."""
    while True:
        if call.is_outside_of_runs and standing.is_stopped(tried.now):
            tried.refusal_kind, tried.reason = Refusal.STOPPED, StopReason.STOPPED
            yield Emit(told.rejected(standing, Refusal.STOPPED.value))
            return None
        if standing.sheds(call.source, tried.now):
            tried.refusal_kind, tried.reason = Refusal.SHED, StopReason.SHED
            yield Emit(told.rejected(standing, Refusal.SHED.value))
            return None
        if swept := standing.sweep(tried.now):
            yield from emitted(swept)
        # Nobody waits at a gate for a breaker that will not let him pass. A probe is taken only when all else is well.
        if (
            call.opens_in_s(standing, tried.now, level) > 0.0
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
        admission = standing.breaker.admit(tried.now, deadline_s=standing.policy.settings.call_deadline_s)
        if admission.events:
            yield from emitted(admission.events)
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


def _at_the_gate(
    call: CallContext, standing: OperationState, tried: Tried, *, level: int
) -> Generator[Step, Reply, bool]:
    """Foreground takes the fallback or waits; background is refused, unless it persists. True: ask again."""
    wait_s = call.opens_in_s(standing, tried.now, level)
    wait_s += (
        call.chance()
        * (standing.policy.settings.jitter or 0.0)
        * min(wait_s, standing.policy.settings.base_delay_s or 0.0)
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


def is_patient(call: CallContext, standing: OperationState, tried: Tried, *, level: int) -> bool:
    """Whether a refusal is waited out: in persistent mode, by the operation itself, after its fallbacks were asked."""
    return level == 0 and bool(standing.policy.settings.persistent) and not _turns_aside(call, tried, level=level)


def goes_on(call: CallContext, tried: Tried) -> bool:
    """Whether a call that turned aside in vain waits for its own breaker or gate after all."""
    if tried.turned_aside or not call.standing.policy.settings.persistent or tried.refusal_kind is Refusal.OVERRIDE:
        return False
    if tried.no_retry == FALLBACK_READY:
        return True
    return tried.reason in (StopReason.BREAKER_OPEN, StopReason.GATE_CLOSED)


def _turns_aside(call: CallContext, tried: Tried, *, level: int) -> bool:
    return level == 0 and not tried.turned_aside and bool(allowed_alternatives(call))


def _waited(standing: OperationState, tried: Tried, until: float) -> Generator[Step, Reply, bool]:
    """False when it was cancelled. Whatever else ended the wait, admission is asked again."""
    if (yield from wait(standing, tried, until)) is Cause.CANCELLED:
        tried.is_cancelled = True
    return not tried.is_cancelled


def chunk_s(settings: Settings) -> float:
    """A long wait is cut into parts of at most this, each followed by a heartbeat."""
    return settings.wait_chunk_s or FAIL_CLOSED.wait_chunk_s or 1.0


def wait(standing: OperationState, tried: Tried, until: float) -> Generator[Step, Reply, Cause]:
    """Wait for the next attempt; the cause of the end."""
    began, category = tried.now, tried.failure.category if tried.failure else None
    tried.now, cause = yield from elapse(standing.name, standing.policy.settings, began, until, category=category)
    tried.waited_s += tried.now - began
    return cause


def elapse(
    operation: str,
    settings: Settings,
    now: float,
    until: float,
    *,
    category: Category | None,
    began: float | None = None,
) -> Generator[Wait | Emit, Reply, tuple[float, Cause]]:
    """Wait in parts, each followed by a heartbeat; return the time and the cause of the end."""
    began = now if began is None else began
    while (left := until - now) > 0:
        reply = yield Wait(min(left, chunk_s(settings)), operation)
        cause = reply.cause if isinstance(reply, Woke) else Cause.CANCELLED
        now = reply.now if reply else now
        if cause is not Cause.ELAPSED:
            return now, cause
        if until - now > 0:
            yield Emit(
                events.WaitHeartbeat(
                    operation=operation,
                    waited_s=round(now - began, 3),
                    remaining_s=round(until - now, 3),
                    category=category,
                )
            )
    return now, Cause.ELAPSED


def allowed_alternatives(call: CallContext) -> tuple[Alternative, ...]:
    """The fallbacks that code declared, less what the live policy forbids, in the order it names."""
    policy = call.standing.policy
    if not call.alternatives or not policy.settings.fallback_allowed:
        return ()
    reduced = tuple(other for other in call.alternatives if other.feature)
    declared = {other.standing.name: other for other in call.alternatives if not other.feature}
    names = declared if policy.fallbacks is None else policy.fallbacks
    return (*(declared[name] for name in names if name in declared), *reduced)


def deadline_at(call: CallContext, standing: OperationState, tried: Tried) -> float:
    """Persistent mode replaces the deadlines of step and run by its own cap."""
    if standing.policy.settings.persistent:
        return call.started_at + (standing.policy.settings.persistent_cap_s or 0.0) - tried.reserved_s
    return call.deadline_at + tried.suspended_s - tried.reserved_s


def _is_overruled(standing: OperationState, mode: State) -> bool:
    return standing.breaker.override is not None and standing.breaker.override.mode is mode


def emitted(found: Iterable[Event]) -> Generator[Step, Reply, None]:
    for event in found:
        yield Emit(event)
