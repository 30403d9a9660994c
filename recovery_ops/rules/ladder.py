"""The ladder: retry, then fall back, then degrade, then ask a person or fail. One decision for every driver.

`climb` is a generator: it yields steps (`Call`, `Wait`, `Emit`) and is sent replies with the time they came. Agents
drive it with real calls and waits, sync and async; the console drives it with recorded ones. It knows no clock, and
chance is a function it is given, so equal replies give equal facts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from math import inf

from recovery_ops.rules import facts, told
from recovery_ops.rules.breaker import Admission
from recovery_ops.rules.facts import Fact
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.retry import FIXES, RetryDecision, decide_retry
from recovery_ops.rules.standing import Alternative, Climb, Standing
from recovery_ops.rules.steps import (
    Answered,
    Call,
    CalledOff,
    Cause,
    Emit,
    Ending,
    Failed,
    Raised,
    Refused,
    Reply,
    Returned,
    Step,
    Stopped,
    Wait,
    Withdrawn,
    Woke,
)
from recovery_ops.rules.words import BREAKER_COUNTS, Category, Refusal, Rung, State, StopReason

LONGEST_CHUNK_S = 30.0
"""A long wait is cut into chunks of at most this, each followed by a heartbeat."""

QUEUES: dict[Category, str] = {
    Category.PERMISSION: "policy_review",
    Category.POLICY_DENIED: "policy_review",
    Category.QUOTA_EXHAUSTED: "quota",
    Category.UNKNOWN: "unclassified",
}
"""Which failures ask for a person, and in which queue."""

NO_FALLBACK = frozenset(
    {Category.CANCELLED, Category.PERMISSION, Category.POLICY_DENIED, Category.IDEMPOTENCY_CONFLICT}
)
"""Another way to the same end would go around a refusal, or do what was already done."""

_GATED_STATUS = frozenset({429, 503, 529})


@dataclass(slots=True)
class _Tried:
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
    retry_in_s: float | None = None


Climbing = Generator[Step, Reply, Ending]
_Trying = Generator[Step, Reply, _Tried]


def climb(call: Climb, first: Raised | None = None) -> Climbing:
    """Drive one logical call to its end.

    `first` is the outcome of an attempt that was already made while everything was calm (the runtime's quick path).
    """
    tried = yield from _attempts(call, call.standing, level=0, is_repeatable=call.is_repeatable, first=first)
    if tried.is_answered:
        if call.standing.chain is None or call.standing.chain.is_calm:
            yield from _all(call.standing.degradation.end(tried.now))
        return Answered(call.standing.name, 0, tried.attempts)
    if tried.is_cancelled:
        return CalledOff()
    category = tried.failure.category if tried.failure else None
    yield from _ask(call, tried, category)
    if category is Category.PERMISSION and tried.failure is not None:
        yield Emit(told.stopped(call, tried.failure))
        return Stopped(tried.failure)
    rungs = [Rung.RETRY.value] if tried.attempts else []
    alternatives = _allowed_alternatives(call)
    if alternatives and category not in NO_FALLBACK:
        rungs.append(Rung.FALLBACK.value)
        fallen = yield from _fall_back(call, tried, alternatives)
        if fallen is not None:
            return fallen
    if call.is_optional and category not in NO_FALLBACK:
        reason = _why(tried)
        yield from _all(call.standing.degradation.begin(tried.now, kind="withdrawn", reason=reason, category=category))
        return Withdrawn(reason, category)
    return (yield from _fail(call, tried, rungs))


def _fall_back(
    call: Climb, tried: _Tried, alternatives: tuple[Alternative, ...]
) -> Generator[Step, Reply, Answered | CalledOff | None]:
    category = tried.failure.category if tried.failure else None
    for level, other in enumerate(alternatives, start=1):
        second = yield from _attempts(
            call, other.standing, level=level, is_repeatable=other.is_repeatable, begin=tried.now
        )
        tried.now = second.now
        if second.is_cancelled:
            return CalledOff()
        if second.is_answered:
            name = other.standing.name
            yield Emit(
                facts.FallbackActivated(
                    operation=call.standing.name,
                    fallback=name,
                    level=level,
                    category=category,
                    reason=_why(tried),
                    warning=other.warning,
                    data_age_s=other.data_age_s,
                    breaker=call.standing.breaker.name,
                )
            )
            yield from _all(
                call.standing.degradation.begin(
                    second.now, kind="fallback", reason=_why(tried), to_name=name, category=category
                )
            )
            return Answered(name, level, tried.attempts, other.warning, other.data_age_s)
    return None


def _fail(call: Climb, tried: _Tried, rungs: list[str]) -> Climbing:
    if tried.attempts == 0 and tried.refusal_kind is not None:
        # Refused calls are counted by the second, not one by one: an open breaker must stay cheap.
        state = tried.refusal.state if tried.refusal else call.standing.breaker.state
        return Refused(tried.refusal_kind, state, tried.retry_in_s)
    rungs.append(Rung.FAIL.value)
    failure = tried.failure
    yield Emit(
        facts.Exhausted(
            operation=call.standing.name,
            reason=tried.reason,
            attempts=tried.attempts,
            rungs=tuple(rungs),
            category=failure.category if failure else None,
            duration_s=round(tried.now - call.started_at, 4),
            retry_in_s=tried.retry_in_s,
            message=failure.message if failure else "",
        )
    )
    return Failed(tried.reason, tried.attempts, tuple(rungs), failure, tried.retry_in_s)


def _attempts(
    call: Climb,
    standing: Standing,
    *,
    level: int,
    is_repeatable: bool,
    first: Raised | None = None,
    begin: float | None = None,
) -> _Trying:
    """Admission, attempt, retry, until an answer or until the rules say no."""
    tried = _Tried(now=call.started_at if begin is None else begin)
    unfixable = {category for category, fix in FIXES.items() if fix not in call.fixes}
    next_call = Call(standing.name, 1, level)
    while True:
        ticket = 0
        if first is not None:
            reply: Reply = first
            first = None
        else:
            admission = yield from _admission(call, standing, tried, may_turn_aside=level == 0)
            if admission is None:
                return tried
            ticket = admission.ticket
            next_call = _aimed(next_call, call, standing, tried)
            reply = yield next_call
        tried.attempts += 1
        tried.model = next_call.model or (standing.chain.primary if standing.chain else call.model)
        if isinstance(reply, Returned):
            tried.now, tried.is_answered = reply.now, True
            yield from _all(_succeeded(standing, tried, reply, ticket))
            return tried
        if not isinstance(reply, Raised) or reply.failure.category is Category.CANCELLED:
            standing.breaker.ignore(ticket)
            tried.now = reply.now if reply else tried.now
            tried.is_cancelled = True
            return tried
        tried.now, tried.failure = reply.now, reply.failure
        yield from _all(_failed(call, standing, tried, reply, ticket, is_repeatable))
        if (yield from _switched(call, standing, tried)):
            next_call = Call(standing.name, tried.attempts + 1, level)
            continue
        decision = yield from _again(
            call, standing, tried, reply.failure, is_repeatable, unfixable, is_probe=ticket > 0
        )
        if decision is None:
            return tried
        if decision.adjustment in FIXES.values():
            unfixable.add(reply.failure.category)
        next_call = Call(standing.name, tried.attempts + 1, level, decision.adjustment, decision.max_tokens)


def _admission(
    call: Climb, standing: Standing, tried: _Tried, *, may_turn_aside: bool
) -> Generator[Step, Reply, Admission | None]:
    """Override → breaker → gate → deadline; None (and why, in `tried`) when the call must not be made."""
    while True:
        yield from _all(standing.gate.sweep(tried.now))
        if not standing.gate.is_open and not _is_overruled(standing, State.DISABLED):
            waits = yield from _at_the_gate(call, standing, tried, may_turn_aside=may_turn_aside)
            if not waits:
                return None
            continue
        if tried.now >= _deadline_at(call, standing):
            tried.refusal_kind, tried.reason = Refusal.DEADLINE, StopReason.DEADLINE
            return None
        admission = standing.breaker.admit(tried.now)
        yield from _all(admission.facts)
        if admission.would_reject:
            yield Emit(told.rejected(standing, "not_enforced"))
        if admission.is_allowed:
            return admission
        is_forced = admission.state is State.FORCED_OPEN
        tried.refusal, tried.refusal_kind = admission, Refusal.OVERRIDE if is_forced else Refusal.BREAKER
        tried.reason, tried.retry_in_s = StopReason.BREAKER_OPEN, admission.retry_in_s
        yield Emit(told.rejected(standing, tried.refusal_kind.value))
        return None


def _at_the_gate(
    call: Climb, standing: Standing, tried: _Tried, *, may_turn_aside: bool
) -> Generator[Step, Reply, bool]:
    """Foreground takes the fallback or waits for the gate; background is refused at once. True: it opened."""
    breaker = standing.breaker.state
    wait_s = standing.gate.opens_in_s(tried.now)
    wait_s += (
        call.chance() * (standing.policy.knobs.jitter or 0.0) * min(wait_s, standing.policy.knobs.base_delay_s or 0.0)
    )
    turns_aside = may_turn_aside and bool(_allowed_alternatives(call))
    is_too_late = tried.now + wait_s > _deadline_at(call, standing)
    if breaker is State.FORCED_OPEN or not call.is_foreground or turns_aside or is_too_late:
        tried.refusal_kind, tried.reason, tried.retry_in_s = Refusal.GATE, StopReason.GATE_CLOSED, wait_s
        if breaker is State.FORCED_OPEN:
            tried.refusal_kind, tried.reason = Refusal.OVERRIDE, StopReason.BREAKER_OPEN
        yield Emit(told.rejected(standing, tried.refusal_kind.value))
        return False
    cause = yield from _wait(standing, tried, tried.now + wait_s)
    if cause is Cause.CANCELLED:
        tried.is_cancelled = True
    return cause is not Cause.CANCELLED


def _switched(call: Climb, standing: Standing, tried: _Tried) -> Generator[Step, Reply, bool]:
    """Count an overload of the model; True where the request is made again, at once, with another model.

    A signal, not an error: each model of the chain has the retries of the policy. Background work fails fast all the
    same, but the next call will ask the other model.
    """
    chain, failure = standing.chain, tried.failure
    if chain is None or tried.model is None or failure is None or failure.category is not Category.OVERLOADED:
        return False
    fact = chain.overloaded(tried.model, tried.now, call.needs)
    if fact is None:
        return False
    yield Emit(replace(fact, operation=standing.name, provider=standing.provider))
    yield from _all(
        standing.degradation.begin(
            tried.now, kind="model", reason=fact.category.value, to_name=fact.to_model, category=fact.category
        )
    )
    tried.attempts_before_switch = tried.attempts
    return standing.policy.is_foreground(call.source)


def _again(
    call: Climb,
    standing: Standing,
    tried: _Tried,
    failure: Failure,
    is_repeatable: bool,
    unfixable: set[Category],
    *,
    is_probe: bool,
) -> Generator[Step, Reply, RetryDecision | None]:
    """Decide on a retry and wait for it; None (and why, in `tried`) when there is none."""
    failed_at, is_announced = tried.now, False
    while True:
        limit = _retry_limit(call, standing)
        decision = decide_retry(
            failure,
            attempt=tried.attempts - tried.attempts_before_switch,
            max_retries=limit,
            is_foreground=standing.policy.is_foreground(call.source),
            policy=standing.policy,
            chance=call.chance,
            is_repeatable=is_repeatable,
            already=unfixable,
        )
        until = failed_at + decision.delay_s
        if is_probe:
            retry_at = standing.breaker.retry_at
            tried.reason = StopReason.BREAKER_OPEN
            tried.retry_in_s = max(0.0, retry_at - tried.now) if retry_at is not None else None
            return None
        if not decision.retry:
            tried.reason = StopReason.ATTEMPTS if decision.reason == "attempts" else StopReason.NOT_RETRYABLE
            tried.retry_in_s = failure.retry_after_s
            return None
        if until > _deadline_at(call, standing):
            tried.reason, tried.retry_in_s = StopReason.DEADLINE, max(0.0, until - tried.now)
            return None
        if not is_announced:
            yield Emit(told.scheduled(standing, failure, decision, attempt=tried.attempts + 1, limit=limit))
            is_announced = True
        cause = yield from _wait(standing, tried, until)
        if cause is Cause.CANCELLED:
            tried.is_cancelled = True
            return None
        if cause is Cause.ELAPSED or standing.breaker.state is State.FORCED_OPEN:
            return decision  # an override is met by the admission that follows
        # A new desired state ended the wait: the rest of it is decided under the new policy.


def _wait(standing: Standing, tried: _Tried, until: float) -> Generator[Step, Reply, Cause]:
    began = tried.now
    while (left := until - tried.now) > 0:
        reply = yield Wait(min(left, LONGEST_CHUNK_S), standing.name)
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


def _retry_limit(call: Climb, standing: Standing) -> int | None:
    """None is persistent mode: no limit of attempts."""
    if standing.policy.knobs.persistent:
        return None
    return standing.policy.max_retries(is_foreground=standing.policy.is_foreground(call.source))


def _succeeded(standing: Standing, tried: _Tried, reply: Returned, ticket: int) -> Iterable[Fact]:
    if tried.attempts > 1:
        yield facts.AttemptSucceeded(
            operation=standing.name,
            attempt=tried.attempts,
            duration_s=round(reply.duration_s, 4),
            breaker=standing.breaker.name,
        )
    yield from standing.breaker.succeed(reply.now, duration_s=reply.duration_s, ticket=ticket)
    if standing.chain is not None and tried.model is not None and standing.chain.succeeded(tried.model):
        yield from standing.degradation.end(reply.now)


def _failed(
    call: Climb, standing: Standing, tried: _Tried, reply: Raised, ticket: int, is_repeatable: bool
) -> Iterable[Fact]:
    failure, breaker = reply.failure, standing.breaker
    yield told.classified(call, standing, reply, attempt=tried.attempts, model=tried.model, is_repeatable=is_repeatable)
    if failure.category in BREAKER_COUNTS:
        yield from breaker.fail(
            reply.now, failure.category, operation=standing.name, duration_s=reply.duration_s, ticket=ticket
        )
    else:
        breaker.ignore(ticket)
    if failure.retry_after_s and failure.status_code in _GATED_STATUS:
        yield from standing.gate.close(reply.now, failure.retry_after_s, failure.category)


def _ask(call: Climb, tried: _Tried, category: Category | None) -> Generator[Step, Reply, None]:
    queue = QUEUES.get(category) if category else None
    if category is None or queue is None or not call.standing.may_ask(category, tried.now):
        return
    yield Emit(
        facts.Escalated(
            operation=call.standing.name,
            queue=queue,
            reason=category.value,
            category=category,
            message=tried.failure.message if tried.failure else "",
        )
    )


def _allowed_alternatives(call: Climb) -> tuple[Alternative, ...]:
    """The fallbacks that code declared, less what the live policy forbids, in the order it names."""
    policy = call.standing.policy
    if not policy.knobs.fallback_allowed:
        return ()
    if policy.fallbacks is None:
        return call.alternatives
    declared = {other.standing.name: other for other in call.alternatives}
    return tuple(declared[name] for name in policy.fallbacks if name in declared)


def _why(tried: _Tried) -> str:
    if tried.refusal_kind is not None:
        return tried.refusal_kind.value
    return tried.failure.category.value if tried.failure else tried.reason.value


def _deadline_at(call: Climb, standing: Standing) -> float:
    """Persistent mode replaces the deadlines of step and run by its own cap."""
    if standing.policy.knobs.persistent:
        return call.started_at + (standing.policy.knobs.persistent_cap_s or 0.0)
    return call.deadline_at


def _aimed(next_call: Call, call: Climb, standing: Standing, tried: _Tried) -> Call:
    """The call with what holds at this moment: the time that is left, and the model to ask."""
    left_s = _deadline_at(call, standing) - tried.now
    deadline_s = min(left_s, standing.policy.knobs.call_deadline_s or inf)
    chain = standing.chain
    return replace(
        next_call,
        deadline_s=None if deadline_s == inf else deadline_s,
        model=chain.current(tried.now, call.needs) if chain else None,
    )


def _is_overruled(standing: Standing, mode: State) -> bool:
    return standing.breaker.override is not None and standing.breaker.override.mode is mode


def _all(found: Iterable[Fact]) -> Generator[Step, Reply, None]:
    for fact in found:
        yield Emit(fact)
