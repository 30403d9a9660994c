"""The ladder: retry, then fall back, then degrade, then ask a person or fail. One decision for every driver.

`call_steps` is a generator: it yields steps (`Call`, `Wait`, `Emit`) and is sent replies with the
time they came. Agents
drive it with real calls and waits, sync and async; the console drives it with recorded ones. It knows no clock, and
chance is a function it is given, so equal replies give equal events.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from math import inf

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import (
    FOUNDATIONAL_FAILED,
    TERMINAL,
    UNAVAILABLE,
    Category,
    Family,
    Refusal,
    Rung,
    StopReason,
)
from recovery_ops.rules.policy.escalation_rules import ASKED_FIRST
from recovery_ops.rules.policy.spend_settings import CHEAPER_MODEL
from recovery_ops.rules.resilience import call_events as told
from recovery_ops.rules.resilience.admission import (
    Tried,
    allowed_alternatives,
    deadline_at,
    emitted,
    goes_on,
)
from recovery_ops.rules.resilience.attempts import attempts, reserve
from recovery_ops.rules.resilience.call_context import Alternative, CallContext
from recovery_ops.rules.resilience.model_chain import SPENT
from recovery_ops.rules.resilience.spend_steps import parked
from recovery_ops.rules.resilience.steps import (
    Answered,
    AskUser,
    Call,
    CalledOff,
    Decided,
    Emit,
    Ending,
    Failed,
    LeftOut,
    Parked,
    Raised,
    Refused,
    Reply,
    Returned,
    Step,
    Stopped,
    Withdrawn,
)
from recovery_ops.rules.resilience.stream_limits import HANDED_ON

NO_FALLBACK = frozenset(
    {Category.CANCELLED, Category.POLICY_DENIED, Category.CONTENT_REFUSED, Category.IDEMPOTENCY_CONFLICT}
)
"""Another way to the same end would go around a refusal, or do what was already done."""

CallSteps = Generator[Step, Reply, Ending]


def call_steps(call: CallContext, first: Raised | None = None) -> CallSteps:
    """Drive one logical call to its end.

    `first` is the outcome of an attempt that was already made while everything was calm (the runtime's fast path).
    """
    tried = yield from attempts(call, call.standing, level=0, is_repeatable=call.is_repeatable, first=first)
    return (yield from _after(call, tried))


def _after(call: CallContext, tried: Tried) -> CallSteps:
    """What becomes of the call, now that the attempts at the operation itself are over."""
    if tried.is_answered:
        is_whole = call.standing.chain is None or tried.model == call.standing.chain.primary
        if is_whole and (ended := call.standing.degradation.end(tried.now)):
            yield from emitted(ended)
        return Answered(call.standing.name, 0, tried.attempts + tried.elsewhere)
    if tried.is_cancelled:
        return CalledOff()
    if tried.no_retry == HANDED_ON:
        return (yield from _broken(call, tried, [Rung.RETRY.value]))
    if tried.refusal_kind is Refusal.STOPPED:  # a stop ends the call: no fallback, no question
        return (yield from _fail(call, tried, [Rung.RETRY.value] if tried.attempts else []))
    category = tried.failure.category if tried.failure else None
    is_yes = category in ASKED_FIRST and (yield from _persuaded(call, tried))
    if is_yes or tried.is_cancelled:
        return (yield from _once_more(call, tried))
    rungs = [Rung.RETRY.value] if tried.attempts else []
    rungs.extend(tried.turned_aside)
    if category not in NO_FALLBACK and not tried.turned_aside and not _is_parked(call, tried):
        fallen = yield from _fall_back(call, tried, rungs)
        if fallen is not None:
            return fallen
        if tried.no_retry == HANDED_ON:
            return (yield from _broken(call, tried, rungs))
        if goes_on(call, tried) and len(rungs) > bool(tried.attempts):
            return (yield from _persist(call, tried, rungs[bool(tried.attempts) :]))
    if call.is_optional and category not in NO_FALLBACK and _may_be_left_out(call, tried):
        reason = _why(tried)
        yield from emitted(
            call.standing.degradation.begin(tried.now, kind="withdrawn", reason=reason, category=category)
        )
        return Withdrawn(reason, category)
    if tried.over_cap is not None:
        yield from parked(call.standing.name, tried.over_cap)
        return Parked(tried.over_cap, tried.attempts + tried.elsewhere)
    is_yes = category not in ASKED_FIRST and (yield from _persuaded(call, tried))
    if is_yes or tried.is_cancelled:
        return (yield from _once_more(call, tried))
    return (yield from _fail(call, tried, rungs))


def _is_parked(call: CallContext, tried: Tried) -> bool:
    """Whether a spend cap is reached and the policy wants no other answer."""
    return tried.over_cap is not None and call.standing.policy.spend_caps.action != CHEAPER_MODEL


def _may_be_left_out(call: CallContext, tried: Tried) -> bool:
    """Whether an optional operation is left out: of a tool, only where it is unavailable. Its model fixes the rest."""
    failure = tried.failure
    if call.tool is None or failure is None or tried.refusal_kind is not None:
        return True
    return failure.category in UNAVAILABLE and not _is_the_models(call, failure)


def _is_the_models(call: CallContext, failure: Failure) -> bool:
    """Whether a 401 or 403 is an answer like a 404: the operation reads the open web."""
    return call.tells_model and failure.category in TERMINAL


def _persist(call: CallContext, tried: Tried, aside: list[str]) -> CallSteps:
    """No fallback held: wait for the operation itself, under the cap. The fallbacks are asked once in a call."""
    turned = replace(
        tried,
        refusal=None,
        refusal_kind=None,
        retry_in_s=None,
        turned_aside=tuple(aside),
        used_up=frozenset(),
        last=None,
        reserved_s=0.0,
    )
    again = yield from attempts(call, call.standing, level=0, is_repeatable=call.is_repeatable, turned=turned)
    return (yield from _after(call, again))


def _broken(call: CallContext, tried: Tried, rungs: list[str]) -> CallSteps:
    """A stream broke of which the caller has a part, and allows no other: at most a queue learns of it."""
    yield from _persuaded(replace(call, can_ask_user=False), tried)
    return (yield from _fail(call, tried, rungs))


def _once_more(call: CallContext, tried: Tried) -> CallSteps:
    """A person said yes: one attempt, whatever the table says, and no retry of it. Nothing after a cancel."""
    asked = tried
    if asked.is_cancelled:
        return CalledOff()
    if asked.failure is not None and asked.failure.category in SPENT:
        yield from emitted(call.standing.gate.open(asked.now))  # a person has renewed the allowance, or wants to see
        yield from emitted(call.standing.open_keys(asked.now))
    tried = yield from attempts(
        replace(call, can_ask_user=False), call.standing, level=0, is_repeatable=False, begin=asked.now, last=asked
    )
    if tried.is_answered:
        yield from emitted(call.standing.degradation.end(tried.now))
        return Answered(call.standing.name, 0, tried.attempts + tried.elsewhere)
    if tried.is_cancelled:
        return CalledOff()
    return (yield from _fail(call, tried, [Rung.RETRY.value]))


def _fall_back(
    call: CallContext, tried: Tried, rungs: list[str]
) -> Generator[Step, Reply, Answered | CalledOff | None]:
    """The fallbacks in order, then the forms of the operation that do less; each is asked once."""
    category = tried.failure.category if tried.failure else None
    alternatives = allowed_alternatives(call)
    for level, other in enumerate(alternatives, start=1):
        rung = Rung.DEGRADE.value if other.feature else Rung.FALLBACK.value
        second = yield from _asked(call, other, tried, level=level)
        tried.now, tried.last = second.now, second.failure or tried.last
        tried.elsewhere += second.attempts
        if rung not in rungs and second.refusal_kind is not Refusal.DEADLINE:
            rungs.append(rung)
        if second.is_cancelled:
            return CalledOff()
        if second.no_retry == HANDED_ON:
            tried.reason, tried.no_retry = second.reason, second.no_retry
            return None
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
            return Answered(name, level, tried.attempts + tried.elsewhere, other.warning, other.data_age_s)
    return None


def _asked(call: CallContext, other: Alternative, tried: Tried, *, level: int) -> Generator[Step, Reply, Tried]:
    """One fallback: by its own policy here, or by the guard that it has itself."""
    if not other.is_guarded:
        return (
            yield from attempts(call, other.standing, level=level, is_repeatable=other.is_repeatable, begin=tried.now)
        )
    second = Tried(now=tried.now, began=tried.now, level=level)
    reserve(call, call.standing, second)
    left_s = deadline_at(call, call.standing, second) + tried.suspended_s - tried.now
    if left_s <= 0.0:
        second.refusal_kind, second.reason = Refusal.DEADLINE, StopReason.DEADLINE
        return second
    reply = yield Call(other.standing.name, 1, level, deadline_s=None if left_s == inf else left_s)
    second.attempts, second.is_answered = 1, isinstance(reply, Returned)
    second.failure = reply.failure if isinstance(reply, Raised) else None
    is_failure = second.failure is not None and second.failure.category is not Category.CANCELLED
    second.is_cancelled = not (second.is_answered or is_failure or isinstance(reply, LeftOut))
    second.now = reply.now if reply else tried.now
    return second


def _fail(call: CallContext, tried: Tried, rungs: list[str]) -> CallSteps:
    if tried.retry_in_s is None and call.standing.chain is not None:
        tried.retry_in_s = call.standing.chain.back_in_s(tried.now)
    if tried.attempts == 0 and tried.refusal_kind is not None:
        # Refused calls are counted by the second, not one by one: an open breaker must stay cheap.
        state = tried.refusal.state if tried.refusal else call.standing.breaker.state
        return Refused(tried.refusal_kind, state, tried.retry_in_s)
    failure, made = tried.failure, tried.attempts + tried.elsewhere
    rungs = [*rungs, *([Rung.ASK.value] if tried.is_person_asked else []), Rung.FAIL.value]
    if failure is not None and failure.category in TERMINAL and not tried.refusal_kind and not call.tells_model:
        yield Emit(told.stopped(call, failure))
        return Stopped(failure, made, tuple(rungs), tried.no_retry)
    if failure is not None and _is_foundation_gone(call, tried, failure):
        yield Emit(told.stopped(call, failure, FOUNDATIONAL_FAILED))
        return Stopped(failure, made, tuple(rungs), tried.no_retry, FOUNDATIONAL_FAILED)
    yield Emit(
        events.Exhausted(
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
    return Failed(tried.reason, made, tuple(rungs), tried.last or failure, tried.retry_in_s, tried.no_retry)


def _is_foundation_gone(call: CallContext, tried: Tried, failure: Failure) -> bool:
    """Whether the run ends with this transient failure: a foundational operation has used up its retries.

    An operator's trip must not end every run.
    """
    is_required_tool = call.tool is not None and not call.is_optional
    is_foundational = call.is_foundational or (
        is_required_tool and bool(call.standing.policy.settings.stop_on_exhausted)
    )
    is_used_up = tried.reason is not StopReason.NOT_RETRYABLE or failure.is_exhausted
    by_operator = tried.refusal_kind in (Refusal.OVERRIDE, Refusal.SHED, Refusal.STOPPED)
    return is_foundational and is_used_up and not by_operator and failure.family is Family.TRANSIENT


def _persuaded(call: CallContext, tried: Tried) -> Generator[Step, Reply, bool]:
    """Ask a person where the policy names a queue: the user who is there, else the queue. True: make the call again.

    What an upstream forbids is not the user's to allow.
    """
    failure = tried.failure
    asking = call.standing.policy.escalations.get(failure.category) if failure is not None else None
    if failure is None or asking is None or _is_the_models(call, failure):
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
