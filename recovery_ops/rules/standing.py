"""What is known of an operation before a call of it is climbed: its standing in this process, and the call itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import inf

from recovery_ops.rules.breaker import Breaker
from recovery_ops.rules.degradation import Degradation
from recovery_ops.rules.facts import Fact
from recovery_ops.rules.gate import Gate
from recovery_ops.rules.importance import Shedding
from recovery_ops.rules.model_chain import NO_NEEDS, ModelChain, Needs
from recovery_ops.rules.policy import FAIL_CLOSED, OperationPolicy
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import Adjustment, Category

ESCALATION_PAUSE_S = 60.0
"""One process asks about one kind of trouble of one operation at most this often."""


class Standing:
    """How one operation stands in this process: its policy, and what its calls share. The driver holds the lock."""

    __slots__ = (
        *("_escalated_at", "breaker", "chain", "degradation", "gate", "name", "policy", "provider", "region"),
        "shedding",
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
    ) -> None:
        self.name = name
        self.policy = policy
        self.breaker = breaker
        self.gate = Gate(name)
        self.degradation = Degradation(name)
        self.provider = provider
        self.region = region
        self.chain = chain
        self.shedding: Shedding | None = None
        self._escalated_at: dict[Category, float] = {}

    @property
    def is_calm(self) -> bool:
        """Whether a success needs nothing but to be counted."""
        is_chain_calm = self.chain is None or self.chain.is_calm
        if self.shedding is not None or self.policy.knobs.least_importance != FAIL_CLOSED.least_importance:
            return False  # somebody sheds load: who calls decides
        return is_chain_calm and self.breaker.is_calm and self.gate.is_open and not self.degradation.is_open

    def sheds(self, source: str, now: float) -> bool:
        """Whether the work of this source fails fast now, by the policy or because an operator sheds load."""
        held = self.shedding
        return self.policy.sheds(source, held.least if held is not None and now < held.ends_at else None)

    def sweep(self, now: float) -> tuple[Fact, ...]:
        """What time alone changes."""
        return self.breaker.sweep(now) + self.gate.sweep(now)

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
    one is asked only when no fallback has held.
    """

    standing: Standing
    is_repeatable: bool = False
    warning: str | None = None
    data_age_s: float | None = None
    feature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """One logical call: what is known about it before the first attempt. Times are on the driver's clock."""

    standing: Standing
    source: str = ""
    started_at: float
    deadline_at: float = inf
    chance: Callable[[], float]
    alternatives: tuple[Alternative, ...] = ()
    is_optional: bool = False
    is_repeatable: bool = False
    fixes: frozenset[Adjustment] = field(default_factory=frozenset)
    """What the caller can change about a request before it is sent again."""
    model: str | None = None
    tool: str | None = None
    needs: Needs = NO_NEEDS
    can_ask_user: bool = False
    """Whether the caller has a hook that puts questions to the user."""

    @property
    def is_foreground(self) -> bool:
        """Whether somebody waits for this call, by the policy's list of sources."""
        return self.standing.policy.is_foreground(self.source)
