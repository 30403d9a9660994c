"""The attempts at one operation: admission, call, retry, and the next model of its chain."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from functools import lru_cache
from math import inf

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.classification.retry_after import meant_s
from recovery_ops.rules.enums import (
    CAPACITY,
    Adjustment,
    Category,
    DelaySource,
    State,
    StopReason,
)
from recovery_ops.rules.events import Event
from recovery_ops.rules.resilience import call_events as told
from recovery_ops.rules.resilience.admission import (
    FALLBACK_READY,
    Tried,
    admitted,
    allowed_alternatives,
    deadline_at,
    emitted,
    is_patient,
    wait,
)
from recovery_ops.rules.resilience.call_context import CallContext, OperationState
from recovery_ops.rules.resilience.credentials import with_next_key
from recovery_ops.rules.resilience.model_chain import SPENT, ModelChain, is_not_there
from recovery_ops.rules.resilience.retry import FIXES, RetryDecision, decide_retry
from recovery_ops.rules.resilience.spend_steps import MaySpend, may_spend
from recovery_ops.rules.resilience.steps import (
    Call,
    Cause,
    Emit,
    Raised,
    Reply,
    Returned,
    Step,
)
from recovery_ops.rules.resilience.stream_limits import begins_anew, continues, is_over, silence_limits
from recovery_ops.rules.resilience.untried_fallbacks import reserve_s, untried, untried_models

_Trying = Generator[Step, Reply, Tried]


def attempts(
    call: CallContext,
    standing: OperationState,
    *,
    level: int,
    is_repeatable: bool,
    first: Raised | None = None,
    begin: float | None = None,
    last: Tried | None = None,
    turned: Tried | None = None,
) -> _Trying:
    """Admission, attempt, retry, until an answer or a no. After `last` one attempt more; `turned` is gone on with."""
    began = call.started_at if begin is None else begin
    tried = turned or Tried(now=began, began=began, level=level)
    if last is not None:
        tried.attempts, tried.elsewhere, tried.suspended_s = last.attempts, last.elsewhere, last.suspended_s
        tried.is_person_asked = True
    if level or not standing.retries.is_counted:
        standing.retries.calls.add()
    unfixable = _unfixable(call.fixes)
    next_call = Call(standing.name, tried.attempts + 1, level)
    failure = turned.failure if turned is not None and turned.no_retry == FALLBACK_READY else None
    is_last_word = False
    while True:
        if failure is None:
            failure, is_last_word = yield from _attempt(call, standing, tried, next_call, is_repeatable, first)
            first = None
            if failure is None or last is not None:
                tried.reason = tried.reason if last is None or failure is None else StopReason.ATTEMPTS
                return tried
            if is_over(call, tried):
                return tried
            if begins_anew(tried, failure) or (yield from _switched(call, standing, tried)):
                next_call, failure = Call(standing.name, tried.attempts + 1, level), None
                continue
        decision = yield from _again(call, standing, tried, failure, is_repeatable, unfixable, is_probe=is_last_word)
        if decision is None:
            if tried.is_cancelled or not (yield from _next_model(call, standing, tried, failure)):
                return tried
            next_call = Call(standing.name, tried.attempts + 1, level)
        else:
            if decision.adjustment in FIXES.values():
                unfixable |= {failure.category}
            next_call = Call(standing.name, tried.attempts + 1, level, decision.adjustment, decision.max_tokens)
        failure = None


def _attempt(
    call: CallContext,
    standing: OperationState,
    tried: Tried,
    next_call: Call,
    is_repeatable: bool,
    first: Raised | None,
) -> Generator[Step, Reply, tuple[Failure | None, bool]]:
    """One attempt, if it may be made: its failure (None: no attempt follows), and whether a probe has failed."""
    model = standing.chain.primary if standing.chain is not None else call.model
    ticket, at = 0, standing
    if first is not None:
        reply: Reply = first
    else:
        while True:
            if standing.chain is not None:
                model = tried.model = _model(call, standing, standing.chain, tried)
                at = standing.of_model(model)
            others = reserve(call, standing, tried)
            admission = yield from admitted(call, at, tried, level=tried.level)
            if admission is None:
                return None, False
            ticket = admission.ticket
            spends = yield from may_spend(call, standing, tried)
            if spends is MaySpend.YES:
                break
            at.breaker.ignore(ticket)
            if spends is MaySpend.NO:
                return None, False
        if (keys := call.keys(at, tried.level)) is not None:
            tried.credential = keys.take(tried.now)
        tried.is_continued = continues(call, standing, tried)
        aimed_at = model if standing.chain is not None else None
        reply = yield _aimed(next_call, call, at, tried, aimed_at, is_other_ready=bool(others))
    tried.attempts += 1
    tried.model = model
    failure = yield from _heard(call, standing, tried, reply, ticket, is_repeatable)
    # Where a refusal is waited out, or an override lets everything through, the probe's failure is not the last word:
    # admission is asked again.
    is_binding = ticket > 0 and at.breaker.override is None
    return failure, is_binding and not is_patient(call, at, tried, level=tried.level)


def reserve(call: CallContext, standing: OperationState, tried: Tried) -> list[OperationState]:
    """Keep time for what the call has not tried, and is ready; returns that. Nothing is left for whoever comes last."""
    tried.reserved_s = 0.0
    if not call.alternatives and standing.chain is None:
        return []
    others = untried(call, standing, tried)
    tried.reserved_s = reserve_s(standing, others, deadline_at(call, standing, tried) - tried.began)
    return others


def _model(call: CallContext, standing: OperationState, chain: ModelChain, tried: Tried) -> str:
    """The model to ask now: the first that its breaker and gate let through, else the first at all."""
    needs, order = tried.needs or call.needs, standing.policy.models
    ready = chain.first_free(
        tried.now,
        needs,
        order,
        but=tried.used_up,
        is_ready=lambda name: call.is_model_ready(standing.of_model(name), tried.now),
    )
    model = ready or chain.first_free(tried.now, needs, order, but=tried.used_up) or chain.primary
    if tried.model is not None and model != tried.model:
        tried.used_up |= {tried.model}  # one pass: a model that was left, because its breaker opened, stays left
        tried.attempts_before_switch, tried.waited_s = tried.attempts, 0.0
    return model


@lru_cache(maxsize=64)  # a climb asks for every operation that it tries
def _unfixable(fixes: frozenset[Adjustment]) -> frozenset[Category]:
    """The categories whose one permitted fix the caller cannot make."""
    return frozenset(category for category, fix in FIXES.items() if fix not in fixes)


def _heard(
    call: CallContext, standing: OperationState, tried: Tried, reply: Reply, ticket: int, is_repeatable: bool
) -> Generator[Step, Reply, Failure | None]:
    """Note how an attempt went; its failure, None where that ends the attempts."""
    at = standing.of_model(tried.model)
    if isinstance(reply, Returned):
        tried.now, tried.is_answered = reply.now, True
        for event in _succeeded(standing, at, tried, reply, ticket):
            yield Emit(event)
        if tried.credential is not None and (keys := call.keys(at, tried.level)) is not None:
            keys.answered(tried.credential)
        return None
    if not isinstance(reply, Raised) or reply.failure.category is Category.CANCELLED:
        at.breaker.ignore(ticket)
        if tried.credential is not None and (keys := call.keys(at, tried.level)) is not None:
            keys.given_back(tried.credential)
        tried.now = reply.now if reply else tried.now
        tried.is_cancelled = True
        return None
    tried.now, tried.failure, tried.is_partial = reply.now, reply.failure, reply.is_partial
    tried.has_part |= reply.is_partial
    has_fallback = bool(untried(call, standing, tried))
    for event in _failed(call, at, tried, reply, ticket, is_repeatable, has_fallback=has_fallback):
        yield Emit(event)
    if (of_key := _key_rested(call, at, tried, reply.failure)) is not None:
        yield from emitted(of_key)
        return reply.failure
    for event in _gate_closed(at, tried, reply.failure):
        yield Emit(event)
    for event in _rested(call, standing, at, tried, reply.failure):
        yield Emit(event)
    return reply.failure


def _key_rested(call: CallContext, at: OperationState, tried: Tried, failure: Failure) -> tuple[Event, ...] | None:
    """Rest the key of a failed attempt; None where the failure is not that of one key among others."""
    keys = call.keys(at, tried.level)
    if keys is None or tried.credential is None:
        return None
    return keys.fail(tried.credential, tried.now, failure, at.policy.settings)


def _gate_closed(at: OperationState, tried: Tried, failure: Failure) -> tuple[Event, ...]:
    """Close the gate until the time that the server named."""
    named_s = meant_s(failure.retry_after_s)
    is_closing = named_s > 0 and at.policy.failures.closes(failure.status_code)
    return at.gate.close(tried.now, named_s, failure.category) if is_closing else ()


def _switched(call: CallContext, standing: OperationState, tried: Tried) -> Generator[Step, Reply, bool]:
    """Count an overload of the model; True where the request is made again, at once, with another model.

    A signal, not an error: each model of the chain has the retries of the policy.
    """
    chain, failure = standing.chain, tried.failure
    if chain is None or tried.model is None or failure is None or failure.category is not Category.OVERLOADED:
        return False
    needs, order = tried.needs or call.needs, standing.policy.models
    event = chain.overloaded(tried.model, tried.now, needs, order, but=tried.used_up)
    if event is None:
        return False
    yield Emit(replace(event, operation=standing.name, provider=standing.provider))
    yield from emitted(
        standing.degradation.begin(
            tried.now, kind="model", reason=event.category.value, to_name=event.to_model, category=event.category
        )
    )
    tried.used_up |= {tried.model}
    tried.attempts_before_switch, tried.waited_s = tried.attempts, 0.0
    return True


def _next_model(
    call: CallContext, standing: OperationState, tried: Tried, failure: Failure
) -> Generator[Step, Reply, bool]:
    """The model is used up for this call: True where another may answer the request, and is asked at once."""
    chain = standing.chain
    if chain is None or tried.model is None:
        return False
    needs = chain.needs_after(tried.model, failure, tried.needs or call.needs)
    if needs is None:
        return False
    tried.needs, tried.used_up = needs, tried.used_up | {tried.model}
    others = untried_models(call, standing, tried)
    if not others:
        return False
    count = tried.attempts - tried.attempts_before_switch
    yield Emit(told.model_fallback(standing, tried.model, others[0], failure.category, count))
    tried.is_switch_told = True
    yield from _asked_to_renew(call, standing, tried, failure)
    tried.attempts_before_switch, tried.waited_s = tried.attempts, 0.0
    return True


def _asked_to_renew(
    call: CallContext, standing: OperationState, tried: Tried, failure: Failure
) -> Generator[Step, Reply, None]:
    """Ask a person about a spent allowance: another model or key answers, and it is spent all the same."""
    asking = standing.policy.escalations.get(failure.category) if failure.category in SPENT else None
    if asking is not None and standing.may_ask(failure.category, tried.now):
        yield Emit(told.question(call, failure, asking))


def _again(
    call: CallContext,
    standing: OperationState,
    tried: Tried,
    failure: Failure,
    is_repeatable: bool,
    unfixable: frozenset[Category],
    *,
    is_probe: bool,
) -> Generator[Step, Reply, RetryDecision | None]:
    """Decide on a retry and wait for it; None (and why, in `tried`) when there is none."""
    failed_at, is_announced, at = tried.now, False, standing.of_model(tried.model)
    while True:
        limit = _retry_limit(call, standing)
        decision = _decided(call, standing, at, tried, failure, is_repeatable, unfixable, limit)
        until = failed_at + decision.delay_s
        if is_probe:
            retry_at = at.breaker.retry_at
            tried.reason = StopReason.BREAKER_OPEN
            tried.retry_in_s = max(0.0, retry_at - tried.now) if retry_at is not None else None
            return None
        if not decision.retry:
            tried.reason = StopReason.ATTEMPTS if decision.reason == "attempts" else StopReason.NOT_RETRYABLE
            tried.no_retry, tried.retry_in_s = decision.reason, failure.retry_after_s
            return None
        wait_s = until - tried.now
        if not is_announced and (why := _why_not(call, standing, tried, failure, decision, wait_s)):
            tried.reason = StopReason.RETRY_BUDGET if why == StopReason.RETRY_BUDGET else StopReason.ATTEMPTS
            tried.no_retry, tried.retry_in_s = str(why), failure.retry_after_s
            return None
        if until >= deadline_at(call, standing, tried):  # at that moment nothing is called any more
            tried.reason, tried.retry_in_s = StopReason.DEADLINE, max(0.0, until - tried.now)
            tried.no_retry = StopReason.DEADLINE.value
            return None
        if not is_announced:
            keys = call.keys(at, tried.level)
            key = keys.next(tried.now).label if keys is not None else None
            yield Emit(
                told.scheduled(standing, failure, decision, attempt=tried.attempts + 1, limit=limit, credential=key)
            )
            if decision.delay_source is DelaySource.IMMEDIATE:
                yield from _asked_to_renew(call, standing, tried, failure)
            is_announced = True
            standing.retries.spend(tried.now)
        cause = yield from wait(standing, tried, until)
        if cause is Cause.CANCELLED:
            tried.is_cancelled = True
            return None
        if decision.adjustment is Adjustment.REFRESH_CREDENTIALS and (keys := call.keys(at, tried.level)) is not None:
            yield from emitted(keys.renew(tried.now))
        if cause is Cause.ELAPSED or at.breaker.state is State.FORCED_OPEN:
            return decision  # an override is met by the admission that follows
        # A new desired state ended the wait: the rest of it is decided under the new policy.


def _decided(
    call: CallContext,
    standing: OperationState,
    at: OperationState,
    tried: Tried,
    failure: Failure,
    is_repeatable: bool,
    unfixable: frozenset[Category],
    limit: int | None,
) -> RetryDecision:
    attempt = tried.attempts - tried.attempts_before_switch
    decision = decide_retry(
        failure,
        attempt=attempt,
        max_retries=limit,
        is_foreground=standing.policy.is_foreground(call.source),
        policy=standing.policy,
        chance=call.chance,
        is_repeatable=is_repeatable,
        already=unfixable,
        is_full_jitter=call.is_full_jitter,
    )
    keys = call.keys(at, tried.level)
    if keys is None or tried.credential is None or not keys.is_next_ready(tried.credential, failure, tried.now):
        return decision
    return with_next_key(decision, failure, attempt=attempt, max_retries=limit, is_repeatable=is_repeatable)


def _why_not(
    call: CallContext, standing: OperationState, tried: Tried, failure: Failure, decision: RetryDecision, wait_s: float
) -> str:
    """Why a permitted retry is not made: another way is ready, or the budget of retries is spent. Empty: it is made."""
    settings = standing.policy.settings
    is_fix = decision.adjustment in FIXES.values()
    is_long = tried.waited_s + wait_s > (settings.max_wait_before_fallback_s or 0.0) and call.is_foreground
    is_silent = failure.category is Category.TIMEOUT
    if not is_fix and (is_silent or is_long or tried.is_partial) and untried(call, standing, tried):
        return FALLBACK_READY
    if not settings.persistent and not standing.retries.allows(tried.now, settings):
        return StopReason.RETRY_BUDGET.value
    return ""


def _retry_limit(call: CallContext, standing: OperationState) -> int | None:
    """None is persistent mode: no limit of attempts."""
    if call.is_single:
        return 0
    if standing.policy.settings.persistent:
        return None
    return standing.policy.max_retries(is_foreground=standing.policy.is_foreground(call.source))


def _succeeded(
    standing: OperationState, at: OperationState, tried: Tried, reply: Returned, ticket: int
) -> Iterable[Event]:
    if tried.attempts > 1:
        yield events.AttemptSucceeded(
            operation=standing.name,
            attempt=tried.attempts,
            duration_s=round(reply.duration_s, 4),
            breaker=at.breaker.name,
            credential=tried.credential,
        )
    yield from at.breaker.succeed(reply.now, duration_s=reply.duration_s, ticket=ticket)
    chain, model = standing.chain, tried.model
    if chain is None or model is None:
        return
    chain.succeeded(model)
    if model == chain.primary:
        yield from standing.degradation.end(reply.now)
    elif not tried.is_stepped_down and not standing.degradation.is_of("model", model):
        category = tried.failure.category if tried.failure else standing.breaker.last_category or Category.RATE_LIMITED
        if not tried.is_switch_told:
            yield told.model_fallback(standing, chain.primary, model, category, 0)
        yield from standing.degradation.begin(
            reply.now, kind="model", reason=category.value, to_name=model, category=category
        )


def _failed(
    call: CallContext,
    standing: OperationState,
    tried: Tried,
    reply: Raised,
    ticket: int,
    is_repeatable: bool,
    *,
    has_fallback: bool,
) -> Iterable[Event]:
    failure, breaker, effects = reply.failure, standing.breaker, standing.policy.failures
    yield told.classified(
        call,
        standing,
        reply,
        attempt=tried.attempts,
        model=tried.model,
        credential=tried.credential,
        is_repeatable=is_repeatable,
    )
    if effects.opens(failure.category) and failure.concerns_service:
        yield from breaker.fail(
            reply.now,
            failure.category,
            operation=standing.name,
            duration_s=reply.duration_s,
            ticket=ticket,
            has_fallback=has_fallback,
        )
    else:
        breaker.ignore(ticket)


def _rested(
    call: CallContext, standing: OperationState, at: OperationState, tried: Tried, failure: Failure
) -> Iterable[Event]:
    """What is known to fail until a certain time is left alone until then, where something else answers meanwhile."""
    settings, rest_s = standing.policy.settings, 0.0
    chain = standing.chain
    others = len(chain.asked(standing.policy.models)) - 1 if chain is not None else 0
    if failure.category in SPENT and (others or allowed_alternatives(call)[tried.level :]):
        rest_s = meant_s(failure.retry_after_s) or settings.quota_rest_s or 0.0
    elif others and failure.category in CAPACITY:
        rest_s = meant_s(failure.retry_after_s)  # whatever the status, if another model answers meanwhile
    elif others and is_not_there(failure):
        rest_s = settings.model_cooldown_s or 0.0
    if rest_s:
        yield from at.gate.close(tried.now, rest_s, failure.category)


def _aimed(
    next_call: Call,
    call: CallContext,
    standing: OperationState,
    tried: Tried,
    model: str | None,
    *,
    is_other_ready: bool,
) -> Call:
    """The call with what holds at this moment: the time that is left, the model, and how long it may be silent."""
    left_s = deadline_at(call, standing, tried) - tried.now
    deadline_s = min(left_s, standing.policy.settings.call_deadline_s or inf)
    # Not by `replace`: every attempt of every call comes by here, and a replay makes millions of them.
    return Call(
        next_call.operation,
        next_call.attempt,
        next_call.level,
        next_call.adjustment,
        next_call.max_tokens,
        None if deadline_s == inf else deadline_s,
        model,
        silence_limits(standing.policy.settings, is_other_ready=is_other_ready),
        tried.is_continued,
        tried.credential,
    )
