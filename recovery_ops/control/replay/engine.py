"""The third driver of the ladder: recorded outcomes on a clock of events, one instance under one policy.

Calls of an instance run side by side, as they did: each step of each is an event with its time, so that a breaker that
one call opens refuses the next. What was not recorded is not made up: an attempt that nobody made ends the call there,
and is counted among what cannot be known. Chance is its mean.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from recovery_ops.control.replay.breaker_state import imposed, passing
from recovery_ops.control.replay.classification import classified
from recovery_ops.control.replay.measures import Measures
from recovery_ops.control.replay.operation_traits import Traits
from recovery_ops.control.replay.recorded_calls import Attempt, Call, Moved, Recording, Refusals, Successes
from recovery_ops.rules import events as facts
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Adjustment, State
from recovery_ops.rules.policy.model import OperationPolicy, Policy, Settings
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience import call_steps as ladder
from recovery_ops.rules.resilience import steps
from recovery_ops.rules.resilience.breaker_settings import Member, shared_thresholds
from recovery_ops.rules.resilience.call_context import Alternative, CallContext, OperationState
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.credentials import Credential
from recovery_ops.rules.resilience.model_chain import ModelChain
from recovery_ops.rules.resilience.retry import is_retryable

MEAN = 0.5
RUN_S = 300.0
"""A run's deadline where the recording does not tell one."""
MOST_STEPS = 40
"""Steps that are kept of one call, for people to read."""

ANSWERED, FALLBACK, WITHDRAWN, REFUSED, FAILED, STOPPED, UNKNOWN = (
    "answered",
    "fallback",
    "withdrawn",
    "refused",
    "failed",
    "stopped",
    "unknown",
)
NOT_MADE, NOT_ASKED, NOT_ADMITTED, OTHER_MODEL = "not_made", "not_asked", "not_admitted", "other_model"
_BY_OTHERS = ("gate", "override", "shed", "stopped_by_operator")
"""Reasons of rejected calls that no policy of a breaker changes."""
NO_COST = "no_cost"
"""What cannot be known: an attempt beyond the recorded ones, a fallback that never answered this call, a call that was
refused then and would be made, a model that was not asked, what an attempt at a model cost."""


@dataclass(slots=True)
class Decided:
    """One call under one policy."""

    ending: str = UNKNOWN
    attempts: int = 0
    waited_s: float = 0.0
    noted: list[tuple[float, str, tuple[object, ...]]] = field(default_factory=list)
    """Seconds since the call began, what happened then, and to what: put in words for the few that are shown."""

    @property
    def steps(self) -> list[tuple[float, str]]:
        """Seconds since the call began, and what happened then."""
        return [(after_s, what.format(*about)) for after_s, what, about in self.noted]


@dataclass(slots=True)
class Replayed:
    """One instance under one policy: each call by its number, and what was counted."""

    calls: dict[int, Decided] = field(default_factory=dict)
    refused_successes: int = 0
    """Calls that went well, and would be refused."""
    refused_retries: dict[str, int] = field(default_factory=dict)
    """By operation: attempts that were not the first, and were refused. The recording counts them with all others."""
    unknown: dict[str, int] = field(default_factory=dict)
    by_operation: dict[str, Measures] = field(default_factory=dict)


def replay(recording: Recording, policy: Policy, base: Policy) -> Replayed:
    """Decide one instance's recording again. `base` is the policy that the recording is taken to have run under."""
    return _Instance(recording, policy, base).run()


@dataclass(slots=True)
class _Running:
    """A call on its way up the ladder."""

    call: Call
    climbing: ladder.CallSteps
    decided: Decided
    measures: Measures
    began_s: float
    taken: int = 0
    now: float = 0.0


class _Instance:
    def __init__(self, recording: Recording, policy: Policy, base: Policy) -> None:
        self.recording, self.policy, self.base = recording, policy, base
        self.found = Replayed()
        self.breakers: dict[str, Breaker] = {}
        self.standings: dict[str, OperationState] = {}
        self._heap: list[tuple[float, int, _Running, steps.Reply]] = []
        self._ticket = count()
        self._overrides = count(1)
        self._credentials: dict[str, Credential] = {}
        self._base_policies: dict[str, OperationPolicy] = {}
        self._declared: dict[str, tuple[tuple[Alternative, ...], frozenset[Adjustment]]] = {}
        self._hear: dict[type[facts.Event], Callable[[_Running, Any], None]] = {
            facts.RetryScheduled: self._retried,
            facts.BreakerStateChanged: self._moved,
            facts.FallbackActivated: self._fell_back,
            facts.DegradationStarted: self._reduced,
            facts.Escalated: self._asked,
            facts.BreakerRejected: self._rejected,
        }
        for name in recording.traits:
            self._standing(name)

    # -- the clock -----------------------------------------------------------------------------------------------------
    def run(self) -> Replayed:
        """Let everything happen in its time."""
        recording = self.recording
        items: list[tuple[float, int, Any]] = [(one.started_s, 2, one) for one in recording.calls]
        items += [(one.end_s, 1, one) for one in recording.successes]
        items += [(one.at_s, 3, one) for one in recording.refusals]
        items += [(one.at_s, 0, one) for one in recording.moves]
        items.sort(key=lambda item: item[:2])
        act: dict[type, Callable[[Any], None]] = {
            Call: self._begin,
            Successes: self._succeed,
            Refusals: self._refuse,
            Moved: self._impose,
        }
        heap = self._heap
        for at_s, _, item in items:
            while heap and heap[0][0] <= at_s:
                _, _, running, reply = heapq.heappop(heap)
                self._climb(running, reply)
            act[type(item)](item)
        while heap:
            _, _, running, reply = heapq.heappop(heap)
            self._climb(running, reply)
        for operation in recording.asked:
            self._operation(operation).escalations += 1
        return self.found

    def _later(self, at_s: float, running: _Running, reply: steps.Reply) -> None:
        heapq.heappush(self._heap, (at_s, next(self._ticket), running, reply))

    # -- calls ---------------------------------------------------------------------------------------------------------
    def _begin(self, call: Call) -> None:
        traits, standing = self.recording.traits[call.operation], self.standings[call.operation]
        alternatives, fixes = self._declared_of(call.operation, traits)
        climb = CallContext(
            standing=standing,
            source=call.source,
            started_at=call.started_s,
            deadline_at=call.deadline_s or call.started_s + RUN_S,
            chance=_mean,
            alternatives=alternatives,
            is_optional=traits.is_optional,
            is_foundational=traits.is_foundational,
            tool=traits.tool,
            tells_model=traits.tells_model,
            on_broken_stream=traits.on_broken_stream,
            is_repeatable=True,
            credentials=tuple(standing.credentials.values()),
            fixes=fixes,
        )
        decided = self.found.calls[call.number] = Decided()
        measures = self._operation(call.operation)
        running = _Running(call, ladder.call_steps(climb), decided, measures, call.started_s, now=call.started_s)
        self._climb(running, None)

    def _declared_of(self, name: str, traits: Traits) -> tuple[tuple[Alternative, ...], frozenset[Adjustment]]:
        """Fallbacks and fixes, the same for every call: the recording is whole before the first of them begins."""
        found = self._declared.get(name)
        if found is None:
            alternatives = tuple(Alternative(standing=self._standing(one)) for one in traits.fallbacks)
            found = self._declared[name] = alternatives, frozenset(traits.fixes)
        return found

    def _climb(self, running: _Running, reply: steps.Reply) -> None:
        """Go on until the call has to wait for something, or ends."""
        if reply is not None:
            running.now = reply.now
        while True:
            try:
                step = running.climbing.send(reply)
            except StopIteration as end:
                self._end(running, end.value)
                return
            reply = None
            if isinstance(step, steps.Emit):
                fact = step.event
                if (hear := self._hear.get(type(fact))) is not None:
                    hear(running, fact)
            elif isinstance(step, steps.Wait):
                running.decided.waited_s += step.delay_s
                running.measures.waiting_s += step.delay_s
                self._note(running, "waits {:.1f} s", step.delay_s)
                self._later(running.now + step.delay_s, running, steps.Woke(running.now + step.delay_s))
                return
            elif isinstance(step, steps.Call):
                reply = self._outcome(running, step)
                if reply.now > running.now:
                    self._later(reply.now, running, reply)
                    return
            else:  # a user who would have been asked: what they would have said is not known
                self._unknown(running, NOT_MADE)
                reply = steps.Cancelled(running.now)

    def _outcome(self, running: _Running, step: steps.Call) -> steps.Returned | steps.Raised | steps.Cancelled:
        """What was recorded of this attempt."""
        call, now = running.call, running.now
        if step.level:
            if call.fallback != step.operation:
                self._unknown(running, NOT_ASKED)
            self._note(running, "asks {}", step.operation)
            return steps.Returned(now, 0.0)
        running.decided.attempts += 1
        running.measures.attempts += 1
        taken, running.taken = running.taken, running.taken + 1
        if taken < len(call.attempts):
            attempt = call.attempts[taken]
            if step.model and attempt.model and step.model != attempt.model:
                self._count(OTHER_MODEL)
            failure = self._failure(call, attempt)
            self._note(running, "attempt {}: {}", step.attempt, failure.category)
            return steps.Raised(now + attempt.duration_s, failure, attempt.duration_s, attempt.is_partial)
        if call.ending == ANSWERED and taken == len(call.attempts):
            self._note(running, "attempt {}: answered", step.attempt)
            return steps.Returned(now + call.answered_in_s, call.answered_in_s)
        self._unknown(running, NOT_MADE if call.attempts else NOT_ADMITTED)
        return steps.Cancelled(now)

    def _failure(self, call: Call, attempt: Attempt) -> Failure:
        """The failure with what its fact does not tell and its verdict betrays: a word of server or guard, or harm."""
        failure = classified(attempt, self.policy.classification)
        if failure.category is not attempt.failure.category:
            return failure  # what the agent's rules said was about another category
        known = attempt.heard
        if known is not None and known[0] is self.base:
            return known[1]
        base = self._base_policy(call.operation)
        would = is_retryable(attempt.failure, is_foreground=base.is_foreground(call.source), policy=base)
        heard = attempt.failure
        if would != attempt.was_retryable and not attempt.is_partial:
            is_guards = attempt.was_retryable and not base.failures.insists(attempt.failure.status_code)
            heard = (
                replace(attempt.failure, is_declared_transient=True)
                if is_guards
                else replace(attempt.failure, server_says_retry=attempt.was_retryable)
            )
        attempt.heard = (self.base, heard)  # the other policy is asked about the same
        return heard

    def _end(self, running: _Running, ending: steps.Ending) -> None:
        decided, measures = running.decided, running.measures
        if isinstance(ending, steps.Answered):
            decided.ending = FALLBACK if ending.level else ANSWERED
        elif isinstance(ending, steps.Failed):
            decided.ending = FAILED
            measures.failed += 1
        elif isinstance(ending, steps.Withdrawn):
            decided.ending = WITHDRAWN
        elif isinstance(ending, steps.Refused):
            decided.ending = REFUSED
        elif isinstance(ending, steps.Stopped):
            decided.ending = STOPPED
            measures.stopped += 1
        self._note(running, decided.ending)
        self._spend(self.recording.traits[running.call.operation], decided.attempts, measures)

    def _spend(self, traits: Traits, attempts: int, measures: Measures) -> None:
        """What the attempts took: the average tokens of the operation, at the average price of the instance's runs."""
        each, usd_each = traits.tokens_each, self.recording.spent.usd_each_token
        if each is not None:
            measures.tokens += each * attempts
            measures.cost_usd += each * attempts * (usd_each or 0.0)
        if attempts and traits.kind == "model" and (each is None or usd_each is None):
            self._count(NO_COST, attempts)

    def _retried(self, running: _Running, fact: facts.RetryScheduled) -> None:
        running.measures.retries += 1

    def _moved(self, running: _Running, fact: facts.BreakerStateChanged) -> None:
        self._move_told(running.call.operation, fact)
        self._note(running, "breaker {}", fact.state)

    def _fell_back(self, running: _Running, fact: facts.FallbackActivated) -> None:
        running.measures.fallbacks += 1

    def _reduced(self, running: _Running, fact: facts.DegradationStarted) -> None:
        running.measures.withdrawn += fact.kind == "withdrawn"

    def _asked(self, running: _Running, fact: facts.Escalated) -> None:
        running.measures.escalations += 1
        self._note(running, "asks the queue {}", fact.queue)

    def _rejected(self, running: _Running, fact: facts.BreakerRejected) -> None:
        self._note(running, "refused by the {}", fact.reason)
        if running.call.attempts and fact.reason != "not_enforced":
            name = running.call.operation
            self.found.refused_retries[name] = self.found.refused_retries.get(name, 0) + fact.count

    # -- what happened around them -------------------------------------------------------------------------------------
    def _succeed(self, some: Successes) -> None:
        """Let calls through that went well, as far as the breaker does."""
        standing = self._standing(some.operation)
        standing.retries.more += some.count
        for one in passing(self._breaker(some.breaker, standing.policy), some):
            for fact in one.facts:
                self._move_told(some.operation, fact)
            if one.refused:
                self.found.refused_successes += one.refused
                self._operation(some.operation).refused += one.refused
            else:
                self._well(some, one.at_s)

    def _well(self, some: Successes, at_s: float) -> None:
        """A call of an operation went well; the first model of its chain answered, or the one with that breaker."""
        standing = self._standing(some.operation)
        models = (name for name, one in standing.models.items() if one.breaker.name == some.breaker)
        if (model := next(models, None)) is None:
            standing.degradation.end(at_s)
        if standing.chain is not None and not standing.chain.is_on_fast_path:
            standing.chain.succeeded(model or standing.chain.primary)

    def _refuse(self, some: Refusals) -> None:
        """Calls that were refused: refused again, or made with an outcome that nobody knows."""
        breaker = self._breaker(some.breaker, self._standing(some.operation).policy)
        is_open = breaker.computed is State.OPEN and (breaker.retry_at or 0.0) > some.at_s
        is_held = breaker.override is not None and breaker.override.mode is State.FORCED_OPEN
        if is_open or is_held or some.reason in _BY_OTHERS or breaker.computed is State.HALF_OPEN:
            self._operation(some.operation).refused += some.count
        else:
            self._count(NOT_ADMITTED, some.count)

    def _impose(self, move: Moved) -> None:
        """What a person did to a breaker holds under any policy."""
        breaker = self.breakers.get(move.breaker)
        if breaker is not None:
            imposed(breaker, move, f"recorded {next(self._overrides)}")

    def _move_told(self, operation: str, fact: facts.Event) -> None:
        if isinstance(fact, facts.BreakerStateChanged) and fact.state is State.OPEN:
            self._operation(operation).openings += 1

    # -- counting ------------------------------------------------------------------------------------------------------
    def _operation(self, name: str) -> Measures:
        found = self.found.by_operation.get(name)
        if found is None:
            found = self.found.by_operation[name] = Measures()
        return found

    def _unknown(self, running: _Running, what: str) -> None:
        self._count(what)
        self._note(running, "not recorded")

    def _count(self, what: str, number: int = 1) -> None:
        self.found.unknown[what] = self.found.unknown.get(what, 0) + number

    def _note(self, running: _Running, what: str, *about: object) -> None:
        noted = running.decided.noted
        if len(noted) < MOST_STEPS:
            noted.append((running.now - running.began_s, what, about))

    # -- the policy ----------------------------------------------------------------------------------------------------
    def _standing(self, name: str) -> OperationState:
        found = self.standings.get(name)
        if found is not None:
            return found
        traits = self.recording.traits.get(name) or Traits(name)
        policy = policy_at(self.recording, name, self.policy, self.base)
        breaker = self._breaker(traits.breaker, policy)
        chain = ModelChain(*traits.models) if len(traits.models) > 1 else None
        if chain is not None:
            chain.configure(policy.settings)
        found = self.standings[name] = OperationState(
            name,
            policy,
            breaker,
            provider=traits.provider or None,
            chain=chain,
            breaker_of=lambda model: self._breaker(model, policy),
        )
        for label in traits.credentials:
            found.credentials[label] = self._credentials.setdefault(label, Credential(label))
        return found

    def _breaker(self, name: str, policy: OperationPolicy) -> Breaker:
        """A breaker by its name: that of an operation, or of a model after the first of its chain."""
        found = self.breakers.get(name)
        if found is None:
            found = self.breakers[name] = Breaker(name, policy.settings)
        return found

    def _base_policy(self, name: str) -> OperationPolicy:
        if self.policy is self.base:
            return self.standings[name].policy
        found = self._base_policies.get(name)
        if found is None:
            found = self._base_policies[name] = policy_at(self.recording, name, self.base, self.base)
        return found


def policy_at(recording: Recording, name: str, policy: Policy, base: Policy) -> OperationPolicy:
    """What a policy says of an operation of that instance, with what its code is seen to say."""
    own = _member(recording, name, base)
    names = [other for other, one in recording.traits.items() if one.breaker == own.place.breaker and other != name]
    return own.policy(policy, shared_thresholds(policy, [own, *(_member(recording, one, base) for one in names)]))


def _member(recording: Recording, name: str, base: Policy) -> Member:
    traits = recording.traits.get(name) or Traits(name)
    speaker = recording.speaker
    place = Place(
        service=speaker.service,
        instance=speaker.instance,
        group=speaker.group,
        operation=name,
        breaker=traits.breaker,
    )
    kind = traits.kind if name in recording.traits else "undeclared"
    usual = base.for_operation(place, kind=kind)
    said: dict[str, Any] = {}
    for is_foreground, limit in traits.limits.items():
        if limit != usual.max_retries(is_foreground=is_foreground):
            said["max_retries" if is_foreground else "max_retries_background"] = limit
    return Member(place=place, kind=kind, code=Settings(**said))


def _mean() -> float:
    return MEAN
