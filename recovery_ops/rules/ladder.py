"""The ladder: retry, then fall back, then degrade, then ask a person or fail. One decision for every driver.

`climb` is a generator: it yields steps (`Call`, `Wait`, `Emit`) and is sent replies with the time they came. Agents
drive it with real calls and waits, sync and async; the console drives it with recorded ones. It knows no clock, and
chance is a function it is given, so equal replies give equal facts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from functools import lru_cache
from math import inf

from recovery_ops.rules import facts, told
from recovery_ops.rules.admission import (
    Tried,
    admitted,
    allowed_alternatives,
    deadline_at,
    emitted,
    goes_on,
    is_patient,
    wait,
)
from recovery_ops.rules.escalations import ASKED_FIRST
from recovery_ops.rules.facts import Fact
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.retry import FIXES, RetryDecision, decide_retry
from recovery_ops.rules.standing import Climb, Standing
from recovery_ops.rules.steps import (
    Answered,
    AskUser,
    Call,
    CalledOff,
    Cause,
    Decided,
    Emit,
    Ending,
    Failed,
    Raised,
    Refused,
    Reply,
    Returned,
    Step,
    Stopped,
    Withdrawn,
)
from recovery_ops.rules.words import Adjustment, Category, Rung, State, StopReason

NO_FALLBACK = frozenset(
    {Category.CANCELLED, Category.PERMISSION, Category.POLICY_DENIED, Category.IDEMPOTENCY_CONFLICT}
)
"""Another way to the same end would go around a refusal, or do what was already done."""

Climbing = Generator[Step, Reply, Ending]
_Trying = Generator[Step, Reply, Tried]


def climb(call: Climb, first: Raised | None = None) -> Climbing:
    """Drive one logical call to its end.

    `first` is the outcome of an attempt that was already made while everything was calm (the runtime's quick path).
    """
    tried = yield from _attempts(call, call.standing, level=0, is_repeatable=call.is_repeatable, first=first)
    return (yield from _after(call, tried))


def _after(call: Climb, tried: Tried) -> Climbing:
    """What becomes of the call, now that the attempts at the operation itself are over."""
    if tried.is_answered:
        is_whole = call.standing.chain is None or call.standing.chain.is_calm
        if is_whole and (ended := call.standing.degradation.end(tried.now)):
            yield from emitted(ended)
        return Answered(call.standing.name, 0, tried.attempts)
    if tried.is_cancelled:
        return CalledOff()
    category = tried.failure.category if tried.failure else None
    is_yes = category in ASKED_FIRST and (yield from _persuaded(call, tried))
    if is_yes or tried.is_cancelled:
        return (yield from _once_more(call, tried))
    if category is Category.PERMISSION and tried.failure is not None:
        yield Emit(told.stopped(call, tried.failure))
        return Stopped(tried.failure, tried.no_retry)
    rungs = [Rung.RETRY.value] if tried.attempts else []
    rungs.extend(tried.turned_aside)
    if category not in NO_FALLBACK and not tried.turned_aside:
        fallen = yield from _fall_back(call, tried, rungs)
        if fallen is not None:
            return fallen
        if goes_on(call, tried) and len(rungs) > bool(tried.attempts):
            return (yield from _persist(call, tried, rungs[bool(tried.attempts) :]))
    if call.is_optional and category not in NO_FALLBACK:
        reason = _why(tried)
        yield from emitted(
            call.standing.degradation.begin(tried.now, kind="withdrawn", reason=reason, category=category)
        )
        return Withdrawn(reason, category)
    is_yes = category not in ASKED_FIRST and (yield from _persuaded(call, tried))
    if is_yes or tried.is_cancelled:
        return (yield from _once_more(call, tried))
    return (yield from _fail(call, tried, rungs))


def _persist(call: Climb, tried: Tried, aside: list[str]) -> Climbing:
    """No fallback held: wait for the operation itself, under the cap. The fallbacks are asked once in a call."""
    turned = replace(tried, refusal=None, refusal_kind=None, retry_in_s=None, turned_aside=tuple(aside))
    again = yield from _attempts(call, call.standing, level=0, is_repeatable=call.is_repeatable, turned=turned)
    return (yield from _after(call, again))


def _once_more(call: Climb, tried: Tried) -> Climbing:
    """A person said yes: one attempt, whatever the table says, and no retry of it. Nothing after a cancel."""
    asked = tried
    if asked.is_cancelled:
        return CalledOff()
    tried = yield from _attempts(
        replace(call, can_ask_user=False), call.standing, level=0, is_repeatable=False, begin=asked.now, last=asked
    )
    if tried.is_answered:
        yield from emitted(call.standing.degradation.end(tried.now))
        return Answered(call.standing.name, 0, tried.attempts)
    if tried.is_cancelled:
        return CalledOff()
    return (yield from _fail(call, tried, [Rung.RETRY.value]))


def _fall_back(call: Climb, tried: Tried, rungs: list[str]) -> Generator[Step, Reply, Answered | CalledOff | None]:
    """The fallbacks in order, then the forms of the operation that do less; each is asked once."""
    category = tried.failure.category if tried.failure else None
    alternatives = allowed_alternatives(call)
    for level, other in enumerate(alternatives, start=1):
        rung = Rung.DEGRADE.value if other.feature else Rung.FALLBACK.value
        rungs.extend([rung] if rung not in rungs else [])
        second = yield from _attempts(
            call, other.standing, level=level, is_repeatable=other.is_repeatable, begin=tried.now
        )
        tried.now = second.now
        if second.is_cancelled:
            return CalledOff()
        if second.is_answered:
            name, reason = other.standing.name, _why(tried)
            yield Emit(told.fallen_back(call, other, level=level, category=category, reason=reason))
            yield from emitted(
                call.standing.degradation.begin(
                    second.now,
                    kind="feature" if other.feature else "fallback",
                    reason=reason,
                    to_name=other.feature or name,
                    category=category,
                )
            )
            return Answered(name, level, tried.attempts, other.warning, other.data_age_s)
    return None


def _fail(call: Climb, tried: Tried, rungs: list[str]) -> Climbing:
    if tried.attempts == 0 and tried.refusal_kind is not None:
        # Refused calls are counted by the second, not one by one: an open breaker must stay cheap.
        state = tried.refusal.state if tried.refusal else call.standing.breaker.state
        return Refused(tried.refusal_kind, state, tried.retry_in_s)
    rungs = [*rungs, *([Rung.ASK.value] if tried.is_person_asked else []), Rung.FAIL.value]
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
    return Failed(tried.reason, tried.attempts, tuple(rungs), failure, tried.retry_in_s, tried.no_retry)


def _attempts(
    call: Climb,
    standing: Standing,
    *,
    level: int,
    is_repeatable: bool,
    first: Raised | None = None,
    begin: float | None = None,
    last: Tried | None = None,
    turned: Tried | None = None,
) -> _Trying:
    """Admission, attempt, retry, until an answer or a no. After `last` one attempt more; `turned` is gone on with."""
    tried = turned or Tried(now=call.started_at if begin is None else begin)
    if last is not None:
        tried.attempts, tried.suspended_s, tried.is_person_asked = last.attempts, last.suspended_s, True
    unfixable = _unfixable(call.fixes)
    next_call = Call(standing.name, tried.attempts + 1, level)
    while True:
        ticket = 0
        if first is not None:
            reply: Reply = first
            first = None
        else:
            admission = yield from admitted(call, standing, tried, level=level)
            if admission is None:
                return tried
            ticket = admission.ticket
            next_call = _aimed(next_call, call, standing, tried)
            reply = yield next_call
        tried.attempts += 1
        tried.model = next_call.model or (standing.chain.primary if standing.chain else call.model)
        failure = yield from _heard(call, standing, tried, reply, ticket, is_repeatable)
        if failure is None:
            return tried
        if last is not None:
            tried.reason = StopReason.ATTEMPTS
            return tried
        if (yield from _switched(call, standing, tried)):
            next_call = Call(standing.name, tried.attempts + 1, level)
            continue
        # Where a refusal is waited out, or an override lets everything through, the probe's failure is not the last
        # word: admission is asked again.
        is_binding = ticket > 0 and standing.breaker.override is None
        is_last_word = is_binding and not is_patient(call, standing, tried, level=level)
        decision = yield from _again(call, standing, tried, failure, is_repeatable, unfixable, is_probe=is_last_word)
        if decision is None:
            return tried
        if decision.adjustment in FIXES.values():
            unfixable |= {failure.category}
        next_call = Call(standing.name, tried.attempts + 1, level, decision.adjustment, decision.max_tokens)


@lru_cache(maxsize=64)  # a climb asks for every operation that it tries
def _unfixable(fixes: frozenset[Adjustment]) -> frozenset[Category]:
    """The categories whose one permitted fix the caller cannot make."""
    return frozenset(category for category, fix in FIXES.items() if fix not in fixes)


def _heard(
    call: Climb, standing: Standing, tried: Tried, reply: Reply, ticket: int, is_repeatable: bool
) -> Generator[Step, Reply, Failure | None]:
    """Note how an attempt went; its failure, None where that ends the attempts."""
    if isinstance(reply, Returned):
        tried.now, tried.is_answered = reply.now, True
        for fact in _succeeded(standing, tried, reply, ticket):
            yield Emit(fact)
        return None
    if not isinstance(reply, Raised) or reply.failure.category is Category.CANCELLED:
        standing.breaker.ignore(ticket)
        tried.now = reply.now if reply else tried.now
        tried.is_cancelled = True
        return None
    tried.now, tried.failure = reply.now, reply.failure
    for fact in _failed(call, standing, tried, reply, ticket, is_repeatable):
        yield Emit(fact)
    return reply.failure


def _switched(call: Climb, standing: Standing, tried: Tried) -> Generator[Step, Reply, bool]:
    """Count an overload of the model; True where the request is made again, at once, with another model.

    A signal, not an error: each model of the chain has the retries of the policy. Background work fails fast all the
    same, but the next call will ask the other model.
    """
    chain, failure = standing.chain, tried.failure
    if chain is None or tried.model is None or failure is None or failure.category is not Category.OVERLOADED:
        return False
    fact = chain.overloaded(tried.model, tried.now, call.needs, standing.policy.models)
    if fact is None:
        return False
    yield Emit(replace(fact, operation=standing.name, provider=standing.provider))
    yield from emitted(
        standing.degradation.begin(
            tried.now, kind="model", reason=fact.category.value, to_name=fact.to_model, category=fact.category
        )
    )
    tried.attempts_before_switch = tried.attempts
    return standing.policy.is_foreground(call.source)


def _again(
    call: Climb,
    standing: Standing,
    tried: Tried,
    failure: Failure,
    is_repeatable: bool,
    unfixable: frozenset[Category],
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
            tried.no_retry, tried.retry_in_s = decision.reason, failure.retry_after_s
            return None
        if until >= deadline_at(call, standing, tried):  # at that moment nothing is called any more
            tried.reason, tried.retry_in_s = StopReason.DEADLINE, max(0.0, until - tried.now)
            tried.no_retry = StopReason.DEADLINE.value
            return None
        if not is_announced:
            yield Emit(told.scheduled(standing, failure, decision, attempt=tried.attempts + 1, limit=limit))
            is_announced = True
        cause = yield from wait(standing, tried, until)
        if cause is Cause.CANCELLED:
            tried.is_cancelled = True
            return None
        if cause is Cause.ELAPSED or standing.breaker.state is State.FORCED_OPEN:
            return decision  # an override is met by the admission that follows
        # A new desired state ended the wait: the rest of it is decided under the new policy.


def _retry_limit(call: Climb, standing: Standing) -> int | None:
    """None is persistent mode: no limit of attempts."""
    if standing.policy.knobs.persistent:
        return None
    return standing.policy.max_retries(is_foreground=standing.policy.is_foreground(call.source))


def _succeeded(standing: Standing, tried: Tried, reply: Returned, ticket: int) -> Iterable[Fact]:
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
    call: Climb, standing: Standing, tried: Tried, reply: Raised, ticket: int, is_repeatable: bool
) -> Iterable[Fact]:
    failure, breaker, effects = reply.failure, standing.breaker, standing.policy.failures
    yield told.classified(call, standing, reply, attempt=tried.attempts, model=tried.model, is_repeatable=is_repeatable)
    if effects.opens(failure.category):
        yield from breaker.fail(
            reply.now, failure.category, operation=standing.name, duration_s=reply.duration_s, ticket=ticket
        )
    else:
        breaker.ignore(ticket)
    if failure.retry_after_s and effects.closes(failure.status_code):
        yield from standing.gate.close(reply.now, failure.retry_after_s, failure.category)


def _persuaded(call: Climb, tried: Tried) -> Generator[Step, Reply, bool]:
    """Ask a person where the policy names a queue: the user who is there, else the queue. True: make the call again.

    What an upstream forbids is not the user's to allow.
    """
    failure = tried.failure
    asking = call.standing.policy.escalations.get(failure.category) if failure is not None else None
    if failure is None or asking is None:
        return False
    question = told.question(call, failure, asking)
    if call.can_ask_user and call.is_foreground and failure.category is not Category.PERMISSION:
        began, tried.is_person_asked = tried.now, True
        reply = yield AskUser(question)
        tried.now = reply.now if reply else tried.now
        tried.suspended_s += tried.now - began
        tried.is_cancelled = not isinstance(reply, Decided)
        return isinstance(reply, Decided) and reply.is_yes
    if call.standing.may_ask(failure.category, tried.now):
        tried.is_person_asked = True
        yield Emit(question)
    return False


def _why(tried: Tried) -> str:
    if tried.refusal_kind is not None:
        return tried.refusal_kind.value
    return tried.failure.category.value if tried.failure else tried.reason.value


def _aimed(next_call: Call, call: Climb, standing: Standing, tried: Tried) -> Call:
    """The call with what holds at this moment: the time that is left, and the model to ask."""
    left_s = deadline_at(call, standing, tried) - tried.now
    deadline_s = min(left_s, standing.policy.knobs.call_deadline_s or inf)
    chain = standing.chain
    # Not by `replace`: every attempt of every call comes by here, and a replay makes millions of them.
    return Call(
        next_call.operation,
        next_call.attempt,
        next_call.level,
        next_call.adjustment,
        next_call.max_tokens,
        None if deadline_s == inf else deadline_s,
        chain.current(tried.now, call.needs, standing.policy.models) if chain else None,
    )
