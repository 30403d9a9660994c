"""What is known of an operation before a call of it is climbed: its standing in this process, and the call itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from math import inf

from recovery_ops.rules.enums import Adjustment, Category, OnBrokenStream
from recovery_ops.rules.events import Event
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.load_shedding import Shedding
from recovery_ops.rules.policy.model import FAIL_CLOSED, OperationPolicy
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.credentials import Credential, CredentialPool
from recovery_ops.rules.resilience.degradation import Degradation
from recovery_ops.rules.resilience.model_chain import NO_NEEDS, ModelChain, Needs
from recovery_ops.rules.resilience.retry_after_gate import RetryAfterGate
from recovery_ops.rules.resilience.retry_budget import RetryBudget

ESCALATION_PAUSE_S = 60.0
"""One process asks about one kind of trouble of one operation at most this often."""


def model_breaker(breaker: str, model: str) -> str:
    """The name of the breaker of a model that is not the first of its chain."""
    return f"{breaker}:{model}"


class OperationState:
    """How one operation stands in this process: its policy, and what its calls share. The driver holds the lock."""

    __slots__ = (
        *("_escalated_at", "breaker", "chain", "credentials", "degradation", "gate", "is_model", "key_gates", "models"),
        *("name", "policy", "provider", "region", "retries", "shedding", "stopped_until"),
    )

    def __init__(
        self,
        name: str,
        policy: OperationPolicy,
        breaker: Breaker,
        *,
        provider: str | None = None,
        region: str | None = None,
        chain: ModelChain | None = None,
        breaker_of: Callable[[str], Breaker] = Breaker,
        is_model: bool = False,
    ) -> None:
        self.name = name
        self.is_model = is_model
        self.policy = policy
        self.breaker = breaker
        self.gate = RetryAfterGate(name)
        self.key_gates: dict[str, RetryAfterGate] = {}
        """The gates of its throttled keys, by label."""
        self.credentials: dict[str, Credential] = {}
        """The keys that its guards name, by label; the same of each model of its chain."""
        self.retries = RetryBudget()
        self.degradation = Degradation(name)
        self.provider = provider
        self.region = region
        self.shedding: Shedding | None = None
        self.stopped_until: float | None = None
        """The end of an operator's stop of the agent, on the driver's clock; None without one."""
        self.models: dict[str, OperationState] = {}
        """By name, the models of the chain after the first: each has a breaker and a gate of its own."""
        self.follow(chain, breaker_of)
        self._escalated_at: dict[Category, float] = {}

    def follow(self, chain: ModelChain | None, breaker_of: Callable[[str], Breaker] = Breaker) -> None:
        """Ask the models of this chain. The first has the operation's own breaker."""
        self.chain = chain
        for model in chain.models[1:] if chain is not None else ():
            own = breaker_of(model_breaker(self.breaker.name, model.name))
            made = OperationState(self.name, self.policy, own, provider=self.provider, region=self.region)
            made.credentials = self.credentials
            self.models[model.name] = made

    def of_model(self, name: str | None) -> OperationState:
        """The standing of a model of the chain; that of the first is the operation's own."""
        return self.models.get(name or "", self)

    def obey(self, policy: OperationPolicy) -> None:
        """Apply a policy from now on; what was counted stays."""
        self.policy = policy
        self.breaker.configure(policy.settings)
        if self.chain is not None:
            self.chain.configure(policy.settings)
        for model in self.models.values():
            model.obey(policy)

    def is_ready(self, source: str, now: float) -> bool:
        """Whether a call made now would be let through by override, breaker, gate and load shedding."""
        return not (self.breaker.refuses(now) or self.gate.opens_in_s(now) > 0 or self.sheds(source, now))

    @property
    def is_on_fast_path(self) -> bool:
        """Whether a success needs nothing but to be counted."""
        is_chain_fast = self.chain is None or self.chain.is_on_fast_path
        if (
            self.stopped_until is not None
            or self.shedding is not None
            or self.policy.settings.least_importance != FAIL_CLOSED.least_importance
        ):
            return False  # an operator stops the agent, or sheds load: the caller decides
        return is_chain_fast and self.breaker.is_on_fast_path and self.gate.is_open and not self.degradation.is_open

    def sheds(self, source: str, now: float) -> bool:
        """Whether the work of this source fails fast now, by the policy or because an operator sheds load."""
        held = self.shedding
        return self.policy.sheds(source, held.least if held is not None and now < held.ends_at else None)

    def is_stopped(self, now: float) -> bool:
        """Whether an operator has stopped the agent: its calls outside of runs are rejected."""
        return self.stopped_until is not None and now < self.stopped_until

    def sweep(self, now: float) -> tuple[Event, ...]:
        """What time alone changes."""
        return self.breaker.sweep(now) + self.sweep_gates(now)

    def sweep_gates(self, now: float) -> tuple[Event, ...]:
        """The gates whose time has passed, its own and those of its keys."""
        return self.gate.sweep(now) + tuple(event for gate in self._key_gates() for event in gate.sweep(now))

    def open_keys(self, now: float) -> tuple[Event, ...]:
        """Test each of its keys again at the next call."""
        return tuple(event for gate in self._key_gates() for event in gate.open(now))

    def _key_gates(self) -> Iterable[RetryAfterGate]:
        return (*(one.gate for one in self.credentials.values()), *self.key_gates.values())

    def may_ask(self, category: Category, now: float) -> bool:
        """Whether it is time to ask a person about this again."""
        if now - self._escalated_at.get(category, -inf) < ESCALATION_PAUSE_S:
            return False
        self._escalated_at[category] = now
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A fallback: an operation of its own, with its own breaker and policy.

    `feature` names what is given up where it is the operation itself that does less (`caching`, `parallel`): such a
    one is asked only when no fallback has held. One that `is_guarded` is called once, as it was given: its own guard
    admits the call, retries it and asks its own fallbacks.
    """

    standing: OperationState
    is_guarded: bool = False
    is_repeatable: bool = False
    warning: str | None = None
    data_age_s: float | None = None
    feature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """One logical call: what is known about it before the first attempt. Times are on the driver's clock."""

    standing: OperationState
    source: str = ""
    started_at: float
    deadline_at: float = inf
    chance: Callable[[], float]
    alternatives: tuple[Alternative, ...] = ()
    is_optional: bool = False
    is_foundational: bool = False
    """Whether the run cannot go on without an answer."""
    is_repeatable: bool = False
    fixes: frozenset[Adjustment] = field(default_factory=frozenset)
    """What the caller can change about a request before it is sent again."""
    model: str | None = None
    credentials: tuple[Credential, ...] = ()
    """The keys that the guard names, in the order in which they are used."""
    tool: str | None = None
    needs: Needs = NO_NEEDS
    tells_model: bool = False
    """Whether a 401 or 403 is an answer like a 404, instead of the end of the run."""
    is_single: bool = False
    """Whether the call is made once, whatever the policy says."""
    is_full_jitter: bool = False
    """Whether chance draws a wait from 0 to the delay, instead of adding to it."""
    on_broken_stream: OnBrokenStream = OnBrokenStream.ERROR
    can_ask_user: bool = False
    """Whether the caller has a hook that puts questions to the user."""
    is_outside_of_runs: bool = False
    """Whether it is in no run of this client: then a stop of the agent rejects it. Runs are aborted as a whole."""

    @property
    def is_foreground(self) -> bool:
        """Whether somebody waits for this call, by the policy's list of sources."""
        return self.standing.policy.is_foreground(self.source)

    def keys(self, standing: OperationState, level: int = 0) -> CredentialPool | None:
        """The keys of attempts at the operation, or at a model of it; None without `credentials` and for fallbacks."""
        if level or not self.credentials:
            return None
        return CredentialPool(standing.name, self.credentials, standing.key_gates)

    def opens_in_s(self, standing: OperationState, now: float, level: int = 0) -> float:
        """How long a gate is closed for its attempts: that of the operation or model, or those of all its keys."""
        gate_s, keys = standing.gate.opens_in_s(now), self.keys(standing, level)
        return gate_s if keys is None else max(gate_s, keys.opens_in_s(now))

    def is_model_ready(self, standing: OperationState, now: float) -> bool:
        """Whether an attempt at a model of the chain would be let through now."""
        return standing.is_ready(self.source, now) and self.opens_in_s(standing, now) <= 0.0
