"""An operation as this process holds it: its standing, its counts, and what the developer said at the guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from recovery_ops.rules.enums import Adjustment, OnBrokenStream
from recovery_ops.rules.events import Escalated, WaitHeartbeat
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.policy.settings import SETTINGS
from recovery_ops.rules.resilience.breaker_settings import Member
from recovery_ops.rules.resilience.call_context import Alternative, OperationState
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.credentials import Credential
from recovery_ops.rules.resilience.model_chain import ModelChain, Needs
from recovery_ops.runtime.calls.metrics import CallCounters
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards.argument_checks import check_amount, check_callable, check_type

if TYPE_CHECKING:
    from recovery_ops.runtime.aio.timeouts import Timers
    from recovery_ops.runtime.calls.idempotency import NestedCalls
    from recovery_ops.runtime.guards.retry_conditions import RetryConditions
    from recovery_ops.runtime.spending.accounts import SpendMeter

T = TypeVar("T")

SOURCES_MOST = 200
"""Query sources that are counted apart."""
MANY = "many"
"""What the rest is counted as."""


class Attempt(NamedTuple):
    """The attempt that a guarded function is in: `attempt()` returns it.

    `number` counts from 1. `remaining_s` is the remaining time in seconds, for the transport; None without a limit.
    `model` and `max_tokens` are the values of this attempt, None if unchanged; `adjustment` names the change.
    `credential` is the label of the key, for guards with `credentials`. `idempotency_key` goes upstream, the same in
    each attempt of a call; a fallback has its own. `part` is the beginning of an answer to continue.
    `first_token_timeout_s` and `stall_timeout_s` limit a stream that the function reads itself. Rules:
    docs/guide/guarding.md#idempotency

    >>> @recovery.guard("pay", idempotency_key=lambda order: f"pay-{order}")
    ... def pay(order):
    ...     return attempt().idempotency_key
    >>> pay(7)
    'pay-7'
    """

    operation: str = ""
    number: int = 1
    remaining_s: float | None = None
    """Seconds left for this attempt; hand it to the transport. None where nothing bounds it. A task is cancelled in
    time: in its first attempt this is what is left of the run."""
    adjustment: Adjustment | None = None
    max_tokens: int | None = None
    idempotency_key: str | None = None
    """Goes upstream with the request, the same for each attempt of one call."""
    model: str | None = None
    """Which model of the chain to ask; None where there is no chain, or nothing is wrong with its first."""
    part: str | None = None
    """The beginning of an answer that the model is to continue: the text of a stream that broke."""
    first_token_timeout_s: float | None = None
    stall_timeout_s: float | None = None
    """For a function that reads a stream itself: what limits it while something else is ready. None: nothing."""
    credential: str | None = None
    """The label of the key to use, where the guard has `credentials`."""
    nested: NestedCalls | None = None
    """The guarded calls inside, which get keys of their own from `idempotency_key`. For the runtime."""
    meter: SpendMeter | None = None
    """What the attempt has reserved and spent under the spend caps. For the runtime."""

    def keyed(self, pinned: Mapping[str, str] | None = None) -> Attempt:
        """The same attempt, not yet begun: of the guarded calls inside it none was made."""
        key = self.idempotency_key
        if not key:
            return self
        from recovery_ops.runtime.calls.idempotency import NestedCalls  # most agents have no keys

        return self._replace(nested=NestedCalls(key, pinned))


UNTROUBLED = Attempt()
"""The attempt of a call of which there is nothing to know."""
ATTEMPT: ContextVar[Attempt] = ContextVar("recovery_ops_attempt", default=UNTROUBLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the guards of one operation share. `code` holds the settings that the code names."""

    kind: str = "undeclared"
    breaker: str
    code: Settings = Settings()
    provider: str | None = None
    region: str | None = None
    chain: ModelChain | None = None

    def differences(self, other: Declaration) -> list[str]:
        """What differs, each with this value and the other's."""
        pairs: list[tuple[str, Any, Any]] = [
            (name, getattr(self, name), getattr(other, name)) for name in ("kind", "breaker", "provider", "region")
        ]
        pairs.extend((name, getattr(self.code, name), getattr(other.code, name)) for name in SETTINGS)
        own, its = (one.chain.models if one.chain else None for one in (self, other))
        pairs.append(("chain", own, its))
        return [f"{name} is {own!r} there and {its!r} here" for name, own, its in pairs if own != its]


class Operation:
    """A named, guarded capability.

    What the fast path reads may be read without a lock: each is one attribute that is set as a whole, and only says
    which path to take. A call that reads an old value is a call that came a moment earlier.
    """

    __slots__ = (
        "_keepers",
        "_lock",
        "call_deadline_s",
        "cells",
        "declaration",
        "fallbacks",
        "first_attempt",
        "is_on_fast_path",
        "place",
        "reduced",
        "standing",
        "timers",
    )

    def __init__(
        self, standing: OperationState, place: Place, lock: AbstractContextManager[object], declaration: Declaration
    ) -> None:
        self._lock = lock
        self.standing = standing
        standing.retries.is_counted = True
        self.place = place
        self.declaration = declaration
        self.cells: dict[str, CallCounters] = {}
        self._keepers: WeakKeyDictionary[Callable[[CallCounters], None], str] = WeakKeyDictionary()
        self.fallbacks: tuple[str, ...] = ()
        """What its guards declared to be asked in its place, by name; nothing on the path of a call reads it."""
        self.reduced: tuple[str, ...] = ()
        """The forms of itself that do less."""
        self.timers: Timers | None = None
        self.first_attempt = UNTROUBLED
        self.call_deadline_s = 0.0
        self.refresh()

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.standing.name

    @property
    def member(self) -> Member:
        """The operation as its breaker sees it."""
        return Member(place=self.place, kind=self.declaration.kind, code=self.declaration.code)

    def refresh(self) -> None:
        """Learn which path calls may take. With the runtime's lock held."""
        settings = self.standing.policy.settings
        # In persistent mode deadlines are not what they are elsewhere: the ladder knows.
        # Streams of a model are watched to their end, which the fast path does not do.
        self.is_on_fast_path = (
            self.standing.is_on_fast_path and not settings.persistent and self.declaration.kind != "model"
        )
        deadline_s = settings.call_deadline_s or 0.0
        if deadline_s != self.call_deadline_s:
            self.first_attempt = Attempt(self.name, remaining_s=deadline_s) if deadline_s else UNTROUBLED
            self.call_deadline_s = deadline_s

    def declare(self, alternatives: Iterable[Alternative]) -> None:
        """Note what a guard may ask in its place."""
        for other in alternatives:
            if other.feature:
                self.reduced = tuple(dict.fromkeys((*self.reduced, other.standing.name)))
            else:
                self.fallbacks = tuple(dict.fromkeys((*self.fallbacks, other.standing.name)))

    def move(self, breaker: Breaker) -> None:
        """From now on its calls count for another breaker. With the runtime's lock held."""
        self.place = replace(self.place, breaker=breaker.name)
        self.standing.breaker = breaker
        for cell in self.cells.values():
            breaker.successes.join(cell.successes)

    def become(self, instance: str, lock: AbstractContextManager[object]) -> None:
        """After a fork: the same operation in another instance, under the child's lock."""
        self.place = replace(self.place, instance=instance)
        self._lock = lock
        if self.timers is not None:
            self.timers.forget()
        for cell in self.cells.values():
            cell.is_left = True
        self.cells.clear()
        for keep, source in list(self._keepers.items()):
            keep(self.cell(source))

    def own_timers(self) -> Timers:
        """What times this operation's calls in tasks."""
        from recovery_ops.runtime.aio.timeouts import Timers

        with self._lock:
            self.timers = self.timers or Timers()
            return self.timers

    def hand_cell(self, source: str, keep: Callable[[CallCounters], None]) -> None:
        """Hand a guard the cell of a source, and in a forked child the child's; `keep` is referred to weakly."""
        with self._lock:
            self._keepers[keep] = source
        keep(self.cell(source))

    def inherit(self, cell: CallCounters) -> None:
        """Count a call that failed on the fast path, if a fork came in between: its climb is the child's own."""
        if cell.is_left:
            next(self.cell(cell.source).started)

    def cell(self, source: str) -> CallCounters:
        """The counts for one source; the breaker counts its successes too.

        Past `SOURCES_MOST` everything counts as `MANY`: an agent that makes sources up must not fill its own memory.
        """
        found = self.cells.get(source)
        if found is not None:
            return found
        with self._lock:
            if len(self.cells) > SOURCES_MOST:  # one is for calls outside any run, which a guard makes at once
                source = MANY
            found = self.cells.get(source)
            if found is None:
                found = self.cells[source] = CallCounters(source)
                self.standing.breaker.successes.join(found.successes)
                self.standing.retries.calls.join(found.begun)
            return found


@dataclass(frozen=True, slots=True)
class Fallback(Generic[T]):
    """An alternative of a guard, called with the same arguments, with its warning.

    `warning` is for users ("prices up to 1 h old"); `data_age_s` is the greatest age of its data in seconds. `feature`
    names a disabled feature of the operation itself (`caching`, `parallel`); such a fallback comes last. `idempotent`:
    a repetition does no harm; `read_only` implies it. `name` is its operation (default: the name of the function).
    ConfigurationError for invalid values. Rules:
    docs/guide/fallbacks.md

    >>> def cached_price(item):
    ...     return 42
    >>> @recovery.guard("price", max_retries=0, fallback=Fallback(cached_price, warning="prices up to 1 h old"))
    ... def price(item):
    ...     raise ConnectionRefusedError("refused")
    >>> price("book"), price.outcome("book").warning
    (42, 'prices up to 1 h old')
    """

    function: Callable[..., T]
    name: str = ""
    warning: str | None = None
    data_age_s: float | None = None
    idempotent: bool = False
    read_only: bool = False
    feature: str = ""

    def __post_init__(self) -> None:
        """Refuse what could never be called, or said to users."""
        check_callable("Fallback", {"function": self.function})
        if self.function is None:
            raise ConfigurationError("Fallback: function must be a function, not None")
        check_type("Fallback", str, {"name": self.name, "warning": self.warning, "feature": self.feature})
        check_type("Fallback", bool, {"idempotent": self.idempotent, "read_only": self.read_only})
        check_amount("Fallback", "data_age_s", self.data_age_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the developer said about one guarded callable."""

    operation: Operation
    function: Callable[..., Any]
    source: str = ""
    is_optional: bool = False
    is_foundational: bool = False
    is_repeatable: bool = False
    alternatives: tuple[tuple[Alternative, Callable[..., Any]], ...] = ()
    fixes: frozenset[Adjustment] = field(default_factory=frozenset)
    hooks: dict[Adjustment, Callable[[], Any]] = field(default_factory=dict)
    idempotency_key: Callable[..., str] | None = None
    timeout_s: float | None = None
    """For the whole call with its waits; None: what the policy says of a step."""
    is_single: bool = False
    """One attempt, whatever the settings say."""
    reraise: bool | None = None
    """True: the caller's own exception, False: RecoveryExhausted; None: the own one where nothing was tried."""
    on_broken_stream: OnBrokenStream = OnBrokenStream.ERROR
    whole_streams: bool = False
    finish_reason_required: bool = True
    is_full_jitter: bool = False
    retry_conditions: RetryConditions | None = None
    """What is transient beside what the rules say."""
    model: str | None = None
    credentials: tuple[Credential, ...] = ()
    tool: str | None = None
    is_compared: bool = False
    """Whether its calls are compared with the others of their run: it is a tool."""
    is_polling: bool = False
    """Whether repeated calls of it are expected."""
    is_method: bool = False
    """Whether the first argument is an object with the function in its class."""
    needs: Callable[..., Needs] | None = None
    tells_model: bool = False
    on_heartbeat: Callable[[WaitHeartbeat], Any] | None = None
    ask_user: Callable[[Escalated], Any] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the first attempt needs nothing that only the ladder gives."""
        return self.idempotency_key is None and self.timeout_s is None and not self.credentials

    def function_of(self, operation: str, level: int) -> Callable[..., Any]:
        """What to call for a recovery step."""
        if level == 0:
            return self.function
        return next(function for other, function in self.alternatives if other.standing.name == operation)

    def is_guarded(self, operation: str, level: int) -> bool:
        """Whether a recovery step is a fallback that has a guard of its own."""
        return level > 0 and any(other.is_guarded for other, _ in self.alternatives if other.standing.name == operation)


@dataclass(frozen=True, slots=True)
class Degraded:
    """Result of an optional operation that failed. It is falsy; `reason` is a category or a rejection.

    Rules: docs/guide/fallbacks.md

    >>> @recovery.guard("mood", optional=True, max_retries=0)
    ... def mood():
    ...     raise ConnectionRefusedError("refused")
    >>> mood() or "not known"
    'not known'
    """

    operation: str
    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """Result and history of a call: what `guarded.outcome(…)` returns.

    `value` is the result, `attempts` the number of calls, `fallback` the name of the fallback that answered, with its
    `warning` and `data_age_s` (seconds). Rules:
    docs/guide/fallbacks.md

    >>> recovery.guard("search")(len).outcome("abc")
    Outcome(value=3, attempts=1, fallback=None, warning=None, data_age_s=None)
    """

    value: T
    attempts: int = 1
    fallback: str | None = None
    warning: str | None = None
    data_age_s: float | None = None

    @property
    def is_degraded(self) -> bool:
        """Whether a fallback answered, or an optional call failed."""
        return self.fallback is not None or isinstance(self.value, Degraded)
