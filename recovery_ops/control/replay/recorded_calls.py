"""Makes calls again out of the facts of one instance: which attempts belong together, and how each call ended.

A fact tells of one attempt or decision, never of the whole call. Attempts of one operation in one run are put together
by their numbers; what began before the window, or cannot be put together, is counted and left out. Facts come from
outside: a number that is none is left out, and more calls that went well than any window remembers are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from events.queries.recordings import Speaker, Told
from recovery_ops.control.replay.agent_loop import Loop
from recovery_ops.control.replay.measures import Measures
from recovery_ops.control.replay.operation_traits import Traits
from recovery_ops.control.replay.recorded_failures import failure_of
from recovery_ops.control.replay.sanitizing import cleaned
from recovery_ops.rules.classification.classify import Failure, case_of
from recovery_ops.rules.enums import (
    FOUNDATIONAL_FAILED,
    TERMINAL,
    Adjustment,
    Category,
    OnBrokenStream,
    State,
)
from recovery_ops.rules.events import BreakerStateChanged, SpendCapReached
from recovery_ops.rules.policy.classification_rules import Case
from recovery_ops.rules.policy.failure_effects import BUILT_IN_EFFECTS, Effects
from recovery_ops.rules.policy.model import Policy
from recovery_ops.rules.run_limits import TOOL_FAILURES
from recovery_ops.wire import names

_A = names.ATTRIBUTES
_AT_CAP = names.attribute_of(SpendCapReached, "spent")
_WAIT = names.attribute_of(BreakerStateChanged, "wait_s")
_US = 1e-6
_OPERATOR = "operator_"
_IMPOSED = {State.FORCED_OPEN.value, State.DISABLED.value, State.METRICS_ONLY.value}
_CATEGORIES, _ADJUSTMENTS, _BROKEN_STREAM = frozenset(Category), frozenset(Adjustment), frozenset(OnBrokenStream)
_REFUSED = ("breaker", "override", "gate", "shed", "stopped_by_operator")
_SUCCESSES_MOST = 1_000_000
"""Between two facts of one breaker: they go through it one by one."""


@dataclass(slots=True)
class Attempt:
    """One attempt that failed. Times are seconds since the epoch; `was_retryable` is what the agent's rules said.

    `case` is what the classification rules of a policy see of it: before one of them named it.
    """

    failure: Failure
    case: Case
    at_s: float
    duration_s: float
    model: str
    was_retryable: bool
    is_partial: bool = False
    """Whether the caller had a part of its stream."""
    heard: tuple[Policy, Failure] | None = field(default=None, compare=False)
    """Under which policy it was asked what the agent had heard of the server beside, and the failure with that."""


@dataclass(slots=True)
class Call:
    """One logical call that did not go well at once. `ending` as in `deciding`; empty where no fact tells.

    A call without attempts is one that was refused, and answered by a fallback.
    """

    number: int
    operation: str
    source: str
    run: str
    started_s: float
    attempts: list[Attempt] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    ending: str = ""
    fallback: str = ""
    deadline_s: float | None = None
    answered_in_s: float = 0.0


@dataclass(slots=True)
class Successes:
    """Calls that went well at once, between two moments."""

    operation: str
    breaker: str
    count: int
    start_s: float
    end_s: float


@dataclass(slots=True)
class Refusals:
    """Calls that were refused, about this moment; what they would have come to is not known."""

    operation: str
    breaker: str
    count: int
    at_s: float
    reason: str


@dataclass(slots=True)
class Moved:
    """What a person did to a breaker: an override (`mode`), its end (None), or a reset."""

    breaker: str
    at_s: float
    mode: State | None
    lasts_s: float = 0.0
    is_reset: bool = False


@dataclass(slots=True)
class Spent:
    """What runs of an instance said of their cost, and the tokens of those that did."""

    cost_usd: float = 0.0
    tokens: int = 0

    @property
    def usd_each_token(self) -> float | None:
        """The price of a token on average; None where no run told both."""
        return self.cost_usd / self.tokens if self.tokens and self.cost_usd else None


@dataclass(slots=True)
class Recording:
    """One instance in the window."""

    speaker: Speaker
    calls: list[Call] = field(default_factory=list)
    successes: list[Successes] = field(default_factory=list)
    refusals: list[Refusals] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)
    traits: dict[str, Traits] = field(default_factory=dict)
    measures: Measures = field(default_factory=Measures)
    asked: list[str] = field(default_factory=list)
    """Operations of questions that code asked of people: a policy has no say in them."""
    loop: Loop = field(default_factory=Loop)
    spent: Spent = field(default_factory=Spent)
    facts: int = 0
    loose: int = 0
    """Facts of calls whose beginning is not in the window."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing in it would be decided differently: everything went well."""
        return not self.calls and not self.refusals and not self.asked


class Listener:
    """Hears the facts of one instance in order, and puts them together.

    `effects` are those of the policy that the recording is taken to have run under.
    """

    def __init__(self, speaker: Speaker, start_s: float, effects: Effects = BUILT_IN_EFFECTS) -> None:
        self._effects = effects
        self.made = Recording(speaker)
        self._open: dict[tuple[str, str, str], list[Call]] = {}
        self._since: dict[str, float] = {}
        """By breaker: since when successes were not yet given to the recording …"""
        self._given: dict[str, int] = {}
        """… and how many of those since the last failure were."""
        self._retried: dict[str, int] = {}
        self._counted: list[tuple[float, str, str, int, float]] = []
        self._start_s = start_s
        self._hear = {
            "failure_classified": self._failed,
            "retry_scheduled": self._scheduled,
            "attempt_succeeded": self._succeeded,
            "exhausted": self._exhausted,
            "fallback_activated": self._fell_back,
            "breaker_rejected": self._rejected,
            "breaker_state_changed": self._moved,
            "calls_counted": self._counts,
            "model_fallback": self._switched,
            "degradation_started": self._degraded,
            "escalated": self._escalated,
            "run_stopped": self._stopped,
            "run_finished": self._run_ended,
            "guard_tripped": self._tripped,
            "permission_denied": self._denied,
            "compensation_finished": self._compensated,
            "spend_cap_reached": self._capped,
        }

    def listen(self, facts: Iterable[Told]) -> Recording:
        """The recording, whole."""
        for fact in map(cleaned, facts):
            self.made.facts += 1
            self._hear[fact.event](fact, fact.at_us * _US)
            if label := fact.attributes.get(_A["credential"]):
                self._traits(fact.operation).credentials.setdefault(str(label))
        self._close_all()
        self._add_tail()
        for operation, traits in self.made.traits.items():
            traits.name_breaker(operation)
        self.made.calls.sort(key=lambda call: call.started_s)
        return self.made

    # -- calls -------------------------------------------------------------------------------------------------------
    def _failed(self, fact: Told, at_s: float) -> None:
        said = fact.attributes
        number, duration_s = int(said.get(_A["attempt"], 1)), float(said.get(_A["duration_s"]) or 0.0)
        breaker = fact.breaker or fact.operation
        traits = self._traits(fact.operation, breaker)
        traits.provider = traits.provider or fact.provider
        traits.model_failed(fact.model, fact.breaker)
        traits.tool = traits.tool or said.get(_A["tool"]) or None
        if fact.provider or fact.model:
            traits.kind = "model"
        elif said.get(_A["tool"]) and traits.kind == "operation":
            traits.kind = "tool"
        self._give_successes(fact.operation, breaker, said, at_s - duration_s, fact.category)
        call = self._call_of(fact, number, at_s - duration_s)
        if call is None:
            self.made.loose += 1
            return
        retryable = bool(said.get(_A["retryable"], False))
        failure = failure_of(fact)
        case = case_of(failure, operation=fact.operation, provider=fact.provider)
        broken = said.get(_A["broken_stream"])
        if broken in _BROKEN_STREAM:
            traits.on_broken_stream = OnBrokenStream(broken)
        call.attempts.append(Attempt(failure, case, at_s, duration_s, fact.model, retryable, broken in _BROKEN_STREAM))
        self.made.measures.attempts += 1

    def _call_of(self, fact: Told, number: int, started_s: float) -> Call | None:
        key = (fact.run, fact.source, fact.operation)
        waiting = self._open.setdefault(key, [])
        if number == 1:
            if waiting and fact.run:  # in one run the next call begins when the last has ended, told or not
                self._end(waiting.pop(0), "")
            call = Call(len(self.made.calls), fact.operation, fact.source, fact.run, started_s)
            self.made.calls.append(call)
            waiting.append(call)
            return call
        return next((call for call in waiting if len(call.attempts) == number - 1), None)

    def _scheduled(self, fact: Told, at_s: float) -> None:
        said, traits = fact.attributes, self._traits(fact.operation)
        delay_s = float(said.get(_A["delay_s"]) or 0.0)
        self.made.measures.retries += 1
        self.made.measures.waiting_s += delay_s
        if (limit := said.get(_A["max_retries"])) is not None:
            traits.limits[fact.is_foreground] = int(limit)
        if (fix := said.get(_A["adjustment"])) in _ADJUSTMENTS:
            traits.fixes.add(Adjustment(fix))
        call = self._waiting(fact, int(said.get(_A["attempt"], 2)) - 1)
        if call is not None:
            call.waits_s.append(delay_s)

    def _succeeded(self, fact: Told, at_s: float) -> None:
        call = self._waiting(fact, int(fact.attributes.get(_A["attempt"], 2)) - 1)
        if call is None:
            self.made.loose += 1
            return
        call.answered_in_s = float(fact.attributes.get(_A["duration_s"]) or 0.0)
        self.made.measures.attempts += 1
        breaker = fact.breaker or self._traits(fact.operation).breaker
        self._retried[breaker] = self._retried.get(breaker, 0) + 1
        self._finish(fact, call, "answered")

    def _exhausted(self, fact: Told, at_s: float) -> None:
        said = fact.attributes
        attempts, reason = int(said.get(_A["attempts"], 0)), said.get(_A["reason"])
        self.made.measures.failed += 1
        if fact.run:
            self.made.loop.run(fact.run).given_up[fact.operation] += 1
        call = self._waiting(fact, attempts)
        if call is None:
            self.made.loose += 1
            return
        if fact.category in TERMINAL:
            self._traits(fact.operation).tells_model = True
        if reason == "attempts" and not call.waits_s:
            self._traits(fact.operation).limits.setdefault(fact.is_foreground, attempts - 1)
        if reason == "deadline":
            call.deadline_s = at_s
        self._finish(fact, call, "failed")

    def _fell_back(self, fact: Told, at_s: float) -> None:
        said, traits = fact.attributes, self._traits(fact.operation)
        name = str(said.get(_A["fallback"], ""))
        if name and name not in traits.fallbacks:
            traits.fallbacks.append(name)
        self.made.measures.fallbacks += 1
        waiting = self._open.get((fact.run, fact.source, fact.operation), [])
        if said.get(_A["reason"]) in ("breaker", "override", "gate") and not any(call.attempts for call in waiting):
            call = Call(len(self.made.calls), fact.operation, fact.source, fact.run, at_s, ending="fallback")
            call.fallback = name
            self.made.calls.append(call)
            return
        if waiting:
            waiting[0].fallback = name
            self._finish(fact, waiting[0], "fallback")

    def _stopped(self, fact: Told, at_s: float) -> None:
        self.made.measures.stopped += 1
        if fact.attributes.get(_A["reason"]) == FOUNDATIONAL_FAILED:
            self._traits(fact.operation).is_foundational = True
        waiting = self._open.get((fact.run, fact.source, fact.operation), [])
        if waiting:
            self._finish(fact, waiting[0], "stopped")

    def _waiting(self, fact: Told, attempts: int) -> Call | None:
        waiting = self._open.get((fact.run, fact.source, fact.operation), [])
        return next((call for call in waiting if len(call.attempts) == attempts), None)

    def _finish(self, fact: Told, call: Call, ending: str) -> None:
        self._open[fact.run, fact.source, fact.operation].remove(call)
        self._end(call, ending)

    def _end(self, call: Call, ending: str) -> None:
        call.ending = ending

    def _close_all(self) -> None:
        for waiting in self._open.values():
            for call in waiting:
                self._end(call, "withdrawn" if self._traits(call.operation).is_optional else "")

    # -- what else -----------------------------------------------------------------------------------------------------
    def _rejected(self, fact: Told, at_s: float) -> None:
        reason = str(fact.attributes.get(_A["reason"], "breaker"))
        if reason not in _REFUSED:
            return
        count = int(fact.attributes.get(_A["count"], 1))
        self.made.measures.refused += count
        breaker = fact.breaker or fact.operation
        self._traits(fact.operation, breaker)
        began_s = at_s - float(fact.attributes.get(_A["window_s"]) or 0.0)
        self.made.refusals.append(Refusals(fact.operation, breaker, count, began_s, reason))

    def _moved(self, fact: Told, at_s: float) -> None:
        trigger = str(fact.attributes.get(_A["trigger"], ""))
        if fact.state == State.OPEN.value:
            self.made.measures.openings += 1
        if fact.state in _IMPOSED and trigger.startswith(_OPERATOR):
            lasts_s = float(fact.attributes.get(_WAIT) or 3600.0)
            self.made.moves.append(Moved(fact.breaker, at_s, State(fact.state), lasts_s))
        elif trigger == "operator_release":
            self.made.moves.append(Moved(fact.breaker, at_s, None))
        elif trigger == "operator_reset":
            self.made.moves.append(Moved(fact.breaker, at_s, None, is_reset=True))
        if fact.state == State.CLOSED.value:
            # A fresh window: what is told of successes from here on happened after this.
            self._given[fact.breaker], self._since[fact.breaker] = 0, at_s
            if trigger == "probe_succeeded" and not self._retried.pop(fact.breaker, 0):
                self.made.successes.append(Successes(fact.operation, fact.breaker, 1, at_s, at_s))

    def _counts(self, fact: Told, at_s: float) -> None:
        said = fact.attributes
        breaker = fact.breaker or fact.operation
        traits = self._traits(fact.operation, breaker)
        self.made.loop.calls[fact.operation] += int(said.get(_A["calls"]) or 0)
        tokens = _tokens_of(said)
        if tokens:
            attempts = int(said.get(_A["attempts"]) or 0)
            for measure, amount in (("tokens", tokens), ("calls", attempts)):
                self.made.loop.spend.add(measure, amount, at_s=at_s, source=fact.source, is_of_run=False)
            traits.tokens += tokens
            traits.counted_attempts += int(said.get(_A["attempts"]) or 0)
        successes = int(said.get(_A["successes"]) or 0)
        if successes:
            interval_s = float(said.get(_A["interval_s"]) or 10.0)
            self._counted.append((at_s, fact.operation, breaker, min(successes, _SUCCESSES_MOST), interval_s))

    def _switched(self, fact: Told, at_s: float) -> None:
        self._traits(fact.operation).model_switched(str(fact.attributes.get(_A["from_model"], "")), fact.model)

    def _degraded(self, fact: Told, at_s: float) -> None:
        if fact.attributes.get(_A["kind"]) == "withdrawn":
            self._traits(fact.operation).is_optional = True
            self.made.measures.withdrawn += 1

    def _escalated(self, fact: Told, at_s: float) -> None:
        self.made.measures.escalations += 1
        # The ladder asks about a failure, and has no id to wait for; code that asks has one, or no failure.
        if not fact.category or fact.attributes.get(_A["escalation_id"]):
            self.made.asked.append(fact.operation)

    # -- the loop ------------------------------------------------------------------------------------------------------
    def _run_ended(self, fact: Told, at_s: float) -> None:
        run, tokens = self.made.loop.run(fact.run), _tokens_of(fact.attributes)
        cost_usd = fact.attributes.get(_A["cost_usd"])
        if cost_usd is not None and tokens:
            self.made.spent.cost_usd += float(cost_usd)
            self.made.spent.tokens += tokens
        for measure, amount in (("tokens", tokens), ("cost_usd", float(cost_usd or 0.0))):
            self.made.loop.spend.add(measure, amount, at_s=at_s, source=fact.source, run=fact.run, is_of_run=True)
        run.turns = int(fact.attributes.get(_A["turns"]) or 0)
        run.repeated_calls = int(fact.attributes.get(_A["repeated_calls"]) or 0)
        run.duration_s = float(fact.attributes.get(_A["duration_s"]) or 0.0)

    def _tripped(self, fact: Told, at_s: float) -> None:
        guard = str(fact.attributes.get(_A["guard"], ""))
        operation = fact.operation if guard == TOOL_FAILURES else ""
        self.made.loop.run(fact.run).tripped[guard, operation] = int(fact.attributes.get(_A["count"]) or 0)

    def _capped(self, fact: Told, at_s: float) -> None:
        account, measure, action = (str(fact.attributes.get(_A[name], "")) for name in ("account", "measure", "action"))
        self.made.loop.spend.cap_reached(account, measure, float(fact.attributes.get(_AT_CAP) or 0.0), action)

    def _denied(self, fact: Told, at_s: float) -> None:
        run, said = self.made.loop.run(fact.run), fact.attributes
        run.denials_in_a_row = max(run.denials_in_a_row, int(said.get(_A["consecutive"]) or 1))
        run.denials_in_all = max(run.denials_in_all, int(said.get(_A["total"]) or 1))

    def _compensated(self, fact: Told, at_s: float) -> None:
        verdict = str(fact.attributes.get(_A["verdict"]) or "")
        self.made.loop.compensations[verdict, str(fact.attributes.get(_A["compensation"], ""))] += 1

    # -- successes -----------------------------------------------------------------------------------------------------
    def _give_successes(
        self, operation: str, breaker: str, said: dict[str, Any], until_s: float, category: str
    ) -> None:
        """Those since the last failure that counted, as the failure tells, spread over the time since then."""
        since = int(said.get(_A["successes_since_failure"]) or 0)
        given = self._given.get(breaker, 0)
        count = since - given if since >= given else since
        count -= self._retried.pop(breaker, 0)  # those are attempts of calls that are decided again
        if count > 0:
            start_s = self._since.get(breaker, self._start_s)
            count = min(count, _SUCCESSES_MOST)
            self.made.successes.append(Successes(operation, breaker, count, start_s, max(start_s, until_s)))
        counts = category in self._effects.open_breakers
        self._given[breaker] = 0 if counts else since
        self._since[breaker] = until_s

    def _add_tail(self) -> None:
        """What was counted of each breaker after its last failure."""
        for at_s, operation, breaker, count, interval_s in self._counted:
            if breaker in self._since and at_s - interval_s >= self._since[breaker]:
                self.made.successes.append(Successes(operation, breaker, count, at_s - interval_s, at_s))

    def _traits(self, operation: str, breaker: str = "") -> Traits:
        found = self.made.traits.get(operation)
        if found is None:
            found = self.made.traits[operation] = Traits(breaker or operation)
        elif breaker and found.breaker == operation:
            found.breaker = breaker
        return found


def _tokens_of(said: dict[str, Any]) -> int:
    return int(said.get(_A["input_tokens"]) or 0) + int(said.get(_A["output_tokens"]) or 0)
