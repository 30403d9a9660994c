"""Simulation of the demonstration's agents in virtual time: an hour of their calls in about a second.

The recovery steps are those that agents run (`rules/resilience`), driven by a script of troubles instead of a provider.
One instance is simulated after the other. Times are seconds since the start of the simulation.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from recovery_ops.rules import events
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Category, Evidence, RunStatus, State
from recovery_ops.rules.events import Event
from recovery_ops.rules.policy.escalation_rules import QUESTION
from recovery_ops.rules.policy.model import Policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.call_context import Alternative, CallContext, OperationState
from recovery_ops.rules.resilience.call_steps import call_steps
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.steps import (
    Answered,
    Call,
    Emit,
    Ending,
    Raised,
    Reply,
    Returned,
    Step,
    Stopped,
    Wait,
    Withdrawn,
    Woke,
)

HOUR_S = 3600.0
COUNTED_EVERY_S, HEARTBEAT_EVERY_S = 60.0, 30.0
CALM_S = 900.0
"""The last minutes, in which nothing but the odd failure of a single attempt happens."""
_REJECTED_EVERY_S = 10.0
_PAUSE_S = 8.0
_RUN_TIMEOUT_S = 60.0
_ASKED_EVERY_S = 420.0
_LATENCY_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_USD_PER_TOKEN = (3e-6, 15e-6)
BEFORE, NOW = "2.8.0", "2.8.1"
"""The versions before and after the deployment."""
DEPLOYED_AT_S = 1500.0


def _status(category: Category, code: int, message: str, retry_after_s: float | None = None) -> Failure:
    return Failure(
        category,
        Evidence.HTTP_STATUS,
        status_code=code,
        error_type=str(code),
        message=message,
        retry_after_s=retry_after_s,
    )


_FAILURES: Mapping[str, Failure] = {
    "429": _status(Category.RATE_LIMITED, 429, "Too many requests for this key; slow down.", 2.0),
    "529": _status(Category.OVERLOADED, 529, "Overloaded: too many requests for all customers."),
    "503": _status(Category.OVERLOADED, 503, "The region has no capacity."),
    "500": _status(Category.SERVER_ERROR, 500, "Internal server error."),
    "409": _status(Category.CONFLICT, 409, "The row was changed by another request."),
    "timeout": Failure(
        Category.TIMEOUT, Evidence.EXCEPTION_TYPE, error_type="TimeoutError", exception_type="builtins.TimeoutError",
        message="No answer within 10 s.",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    name: str
    kind: str
    latency_s: float
    provider: str | None = None
    model: str | None = None
    region: str | None = None
    source: str = ""
    fallback: str = ""
    warning: str | None = None
    is_optional: bool = False


_LARGE = _Operation(
    name="model:large", kind="model", provider="helios", model="helios-large", latency_s=0.9,
    fallback="model:small", warning="written by the smaller model",
)  # fmt: skip
_SMALL = _Operation(name="model:small", kind="model", provider="helios", model="helios-small", latency_s=0.3)


def _embed(region: str) -> _Operation:
    return _Operation(
        name="embed", kind="model", provider="selene", model="selene-embed", region=region, latency_s=0.05,
        is_optional=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """One service: its instances, what a run of it is called, and the operations of a run in their order."""

    name: str
    instances: int
    run: str
    source: str
    operations: Sequence[_Operation]
    asks: str = ""
    """The queue that it asks for decisions now and then; empty for none."""


SERVICES: Sequence[_Service] = (
    _Service(
        name="research-agent", instances=5, run="due diligence", source="main_agent",
        operations=(
            _Operation(
                name="search_web", kind="tool", provider="helios", latency_s=0.2,
                fallback="search_cache", warning="search results are up to 1 h old",
            ),
            _embed("eu-central-1"),
            _Operation(name="fetch_prices", kind="tool", latency_s=0.1, is_optional=True),
            _LARGE,
        ),
    ),
    _Service(
        name="support-agent", instances=4, run="answer a ticket", source="user_request", asks="refunds",
        operations=(
            _Operation(name="sentiment", kind="tool", latency_s=0.1, is_optional=True),
            _embed("us-east-1"),
            _LARGE,
            _Operation(name="crm.update", kind="tool", latency_s=0.08),
            _Operation(name="ledger.book", kind="tool", latency_s=0.05),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Trouble:
    """From when until when the attempts at an operation fail, and the share that fails in each way."""

    start_s: float
    end_s: float
    shares: Mapping[str, Mapping[str, float]]


_DAILY: Mapping[str, Mapping[str, float]] = {
    "search_web": {"500": 0.006, "timeout": 0.002},
    "model:large": {"500": 0.004},
    "crm.update": {"409": 0.01},
    "ledger.book": {"409": 0.05},
}
_TROUBLES = (
    _Trouble(540.0, 720.0, {"model:large": {"429": 0.6}, "search_web": {"429": 0.4}}),
    _Trouble(
        1620.0, 1920.0,
        {"model:large": {"529": 0.92}, "search_web": {"529": 0.8}, "embed eu-central-1": {"503": 0.9}},
    ),
    _Trouble(1920.0, 2010.0, {"model:large": {"529": 0.15}}),
    _Trouble(2340.0, 2520.0, {"crm.update": {"500": 0.7}, "sentiment": {"timeout": 0.5}}),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One event of one instance."""

    at_s: float
    service: str
    instance: str
    version: str
    event: Event
    source: str = ""
    is_foreground: bool = False
    run: str = ""


def simulated(policy: Policy, *, seed: int = 1) -> list[Recorded]:
    """All events of all instances, oldest first. The same policy and seed give the same events."""
    found: list[Recorded] = []
    for service in SERVICES:
        for number in range(1, service.instances + 1):
            found += _Instance(service, f"{service.name}-{number:02}", policy, seed).lived()
    return sorted(found, key=lambda one: (one.at_s, one.instance))


_COUNTED: Mapping[type[Event], str] = {
    events.RetryScheduled: "retries",
    events.FallbackActivated: "fallbacks",
    events.DegradationStarted: "degraded",
    events.Exhausted: "exhausted",
}


@dataclass(slots=True)
class _Cell:
    """The counts of one operation since they were last recorded."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    latency: list[int] = field(default_factory=lambda: [0] * (len(_LATENCY_BOUNDS_S) + 1))


class _Instance:
    """One process, whose runs follow each other."""

    def __init__(self, service: _Service, name: str, policy: Policy, seed: int) -> None:
        self._service, self._name, self._policy = service, name, policy
        self._chance = random.Random(f"{seed} {name}")  # made up, and the same each time
        self._now = self._begun = self._chance.random() * _PAUSE_S
        self._version = BEFORE
        self._found: list[Recorded] = []
        self._cells: dict[str, _Cell] = {}
        self._rejected: Counter[tuple[str, State, str]] = Counter()
        self._due_s = {"counted": COUNTED_EVERY_S, "beat": self._now, "rejected": inf, "asked": self._first_question()}
        self._run = ""
        self._attempts = 0
        self._start()

    def _first_question(self) -> float:
        return self._chance.random() * _ASKED_EVERY_S if self._service.asks else inf

    def _start(self) -> None:
        """Every breaker of a new process is closed."""
        operations = {one.name: one for one in (*self._service.operations, _SMALL)}
        self._operations = operations
        self._states = {name: self._state(one) for name, one in operations.items()}

    def _state(self, one: _Operation) -> OperationState:
        place = Place(service=self._service.name, instance=self._name, operation=one.name)
        policy = self._policy.for_operation(place, kind=one.kind)
        return OperationState(
            one.name, policy, Breaker(one.name, policy.settings), provider=one.provider, region=one.region
        )

    def lived(self) -> list[Recorded]:
        """The events of the whole hour."""
        number = 0
        while self._now < HOUR_S - _PAUSE_S - _RUN_TIMEOUT_S / 10:
            number += 1
            if self._version == BEFORE and self._now >= DEPLOYED_AT_S:
                self._restart()
            self._work(number)
            self._now += _PAUSE_S * (0.5 + self._chance.random())
            self._note_due()
        self._note_counts()
        self._beat("stopped")
        return self._found

    def _restart(self) -> None:
        self._note_rejected()
        self._beat("stopped")
        self._version, self._now = NOW, self._now + 2.0
        self._begun = self._now
        self._start()
        self._beat("running")

    def _work(self, number: int) -> None:
        """One run."""
        began, self._run, self._attempts = self._now, f"history-{self._name}-{number}", 0
        self._record(events.RunStarted(name=self._service.run))
        endings = [self._called(one) for one in self._service.operations]
        self._ask()
        tokens = (self._chance.randint(400, 2400), self._chance.randint(80, 600))
        self._record(
            events.RunFinished(
                status=_status_of(endings),
                duration_s=round(self._now - began, 3),
                name=self._service.run,
                turns=len(endings),
                attempts=self._attempts,
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                cost_usd=round(sum(price * count for price, count in zip(_USD_PER_TOKEN, tokens, strict=True)), 6),
            )
        )
        self._run = ""

    def _ask(self) -> None:
        """Now and then a person is asked; the run does not wait."""
        if self._now < self._due_s["asked"] or self._now > HOUR_S - CALM_S:
            return
        self._due_s["asked"] = self._now + _ASKED_EVERY_S * (2 + self._chance.random() * 4)
        amount = 20 * self._chance.randint(1, 20)
        self._record(
            events.Escalated(
                operation="refund",
                queue=self._service.asks,
                reason=QUESTION,
                message=f"Refund {amount} EUR without a receipt?",
                proposal=f"{amount} EUR, to the card that was charged",
                deadline_s=600.0,
                escalation_id=f"history-{self._name}-{int(self._now)}",
            )
        )

    # -- one call ------------------------------------------------------------------------------------------------------
    def _called(self, one: _Operation) -> Ending:
        standing, cell = self._states[one.name], self._cell(one.name)
        cell.counts["calls"] += 1
        began, first = self._now, None
        if standing.is_on_fast_path:  # as in an agent: a success while all is calm is only counted
            outcome = self._attempted(one.name)
            if isinstance(outcome, Returned):
                next(standing.breaker.successes.steps)
                return Answered(one.name, 0, 1)
            first = outcome
        steps = call_steps(
            CallContext(
                standing=standing,
                source=one.source or self._service.source,
                started_at=began,
                deadline_at=began + _RUN_TIMEOUT_S,
                chance=self._chance.random,
                alternatives=self._alternatives(one),
                is_optional=one.is_optional,
                is_repeatable=True,
                model=one.model,
                tool=one.name if one.kind == "tool" else None,
                tells_model=one.kind == "tool",
            ),
            first,
        )
        reply: Reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                ending: Ending = end.value
                return ending
            reply = self._answered(step)

    def _alternatives(self, one: _Operation) -> tuple[Alternative, ...]:
        if not one.fallback:
            return ()
        standing = self._states.get(one.fallback)
        if standing is None:
            standing = self._states[one.fallback] = self._state(
                _Operation(name=one.fallback, kind="operation", latency_s=0.01)
            )
        return (Alternative(standing=standing, is_repeatable=True, warning=one.warning),)

    def _answered(self, step: Step) -> Reply:
        if isinstance(step, Emit):
            self._note(step.event)
            return None
        if isinstance(step, Wait):
            self._now += step.delay_s
            self._note_due()
            return Woke(self._now)
        if isinstance(step, Call):
            return self._attempted(step.operation)
        raise AssertionError(f"{type(step).__name__} has no place in the simulation")

    def _attempted(self, name: str) -> Returned | Raised:
        one = self._operations.get(name)
        self._attempts += 1
        cell = self._cell(name)
        cell.counts["attempts"] += 1
        failure = self._failure(name, one)
        latency_s = one.latency_s if one else 0.01
        took_s = 10.0 if failure is _FAILURES["timeout"] else latency_s * (0.6 + 0.8 * self._chance.random())
        self._now += took_s
        if failure is not None:
            return Raised(self._now, failure, took_s)
        cell.counts["successes"] += 1
        cell.latency[bisect_left(_LATENCY_BOUNDS_S, took_s)] += 1
        return Returned(self._now, took_s)

    def _failure(self, name: str, one: _Operation | None) -> Failure | None:
        full = f"{name} {one.region}" if one and one.region else name
        shares = next(
            (some.shares[full] for some in _TROUBLES if some.start_s <= self._now < some.end_s and full in some.shares),
            _DAILY.get(full, {}) if self._now < HOUR_S - CALM_S else {},
        )
        drawn = self._chance.random()
        for word, share in shares.items():
            drawn -= share
            if drawn < 0:
                return _FAILURES[word]
        return None

    # -- what is recorded ----------------------------------------------------------------------------------------------
    def _note(self, event: Event) -> None:
        if isinstance(event, events.BreakerRejected):
            if not self._rejected:
                self._due_s["rejected"] = self._now + _REJECTED_EVERY_S
            self._rejected[event.operation, event.state, event.reason] += event.count
            return
        cell = self._cell(event.operation)
        if isinstance(event, events.FailureClassified):
            cell.failures[event.category.value] += 1
        elif (name := _COUNTED.get(type(event))) is not None:
            cell.counts[name] += 1
        self._record(event)

    def _note_due(self) -> None:
        """What an instance records by the clock."""
        if self._now >= self._due_s["rejected"]:
            self._note_rejected()
        if self._now >= self._due_s["counted"]:
            self._note_counts()
            self._due_s["counted"] = self._now + COUNTED_EVERY_S
        while self._now >= self._due_s["beat"]:  # on time, also in the middle of a long call
            self._beat("running", self._due_s["beat"])
            self._due_s["beat"] += HEARTBEAT_EVERY_S

    def _note_rejected(self) -> None:
        for (name, state, reason), count in self._rejected.items():
            self._cell(name).counts["rejected"] += count
            self._record(
                events.BreakerRejected(
                    operation=name, breaker=name, state=state, count=count, window_s=_REJECTED_EVERY_S, reason=reason
                )
            )
        self._rejected.clear()
        self._due_s["rejected"] = inf

    def _note_counts(self) -> None:
        self._note_rejected()
        for name, cell in self._cells.items():
            one, counts = self._operations.get(name), cell.counts
            self._record(
                events.CallsCounted(
                    operation=name,
                    breaker=name,
                    interval_s=COUNTED_EVERY_S,
                    failures=dict(cell.failures),
                    latency_bounds_s=_LATENCY_BOUNDS_S if any(cell.latency) else (),
                    latency_counts=tuple(cell.latency) if any(cell.latency) else (),
                    provider=one.provider if one else None,
                    calls=counts["calls"],
                    attempts=counts["attempts"],
                    successes=counts["successes"],
                    retries=counts["retries"],
                    fallbacks=counts["fallbacks"],
                    degraded=counts["degraded"],
                    rejected=counts["rejected"],
                    exhausted=counts["exhausted"],
                )
            )
        self._cells.clear()

    def _beat(self, status: str, at_s: float | None = None) -> None:
        opened = sum(one.breaker.state is State.OPEN for one in self._states.values())
        self._record(
            events.InstanceHeartbeat(
                interval_s=HEARTBEAT_EVERY_S,
                uptime_s=round(max(0.0, (at_s or self._now) - self._begun), 1),
                revision=0,
                config_hash="",
                schema_version=1,
                status=status,
                breakers_open=opened,
            ),
            at_s,
        )

    def _cell(self, name: str) -> _Cell:
        return self._cells.setdefault(name, _Cell())

    def _record(self, event: Event, at_s: float | None = None) -> None:
        source = self._service.source if event.operation or self._run else ""
        policy = self._states[self._service.operations[0].name].policy
        self._found.append(
            Recorded(
                at_s=self._now if at_s is None else at_s,
                service=self._service.name,
                instance=self._name,
                version=self._version,
                event=event,
                source=source,
                is_foreground=policy.is_foreground(source),
                run="" if isinstance(event, events.CallsCounted | events.InstanceHeartbeat) else self._run,
            )
        )


def _status_of(endings: Sequence[Ending]) -> RunStatus:
    """How a run ends whose calls ended so."""
    if any(isinstance(one, Stopped) for one in endings):
        return RunStatus.STOPPED
    if not all(isinstance(one, Answered | Withdrawn) for one in endings):
        return RunStatus.FAILED
    is_degraded = any(isinstance(one, Withdrawn) or (isinstance(one, Answered) and one.level) for one in endings)
    return RunStatus.DEGRADED if is_degraded else RunStatus.SUCCEEDED
