"""An operation as this process holds it: its standing, its counts, and what the developer said at the guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from recovery_ops.rules.facts import Escalated, WaitHeartbeat
from recovery_ops.rules.model_chain import Needs
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.scope import Place
from recovery_ops.rules.standing import Alternative, Standing
from recovery_ops.rules.words import Adjustment
from recovery_ops.runtime.counting import Cell

if TYPE_CHECKING:
    from recovery_ops.runtime.concurrency.timers import Timers

SOURCES_MOST = 200
"""Query sources that are counted apart."""
MANY = "many"
"""What the rest is counted as."""


class Attempt(NamedTuple):
    """What the callable may want to know of the attempt it is in (`recovery_ops.runtime.attempt()`).

    While nothing is wrong there is nothing to know but what is left of the time: the rest is then empty.
    """

    operation: str = ""
    number: int = 1
    deadline_s: float | None = None
    """Seconds left for this attempt; hand it to the transport. None where nothing bounds it. A task is cancelled in
    time: in its first attempt this is what is left of the run."""
    adjustment: Adjustment | None = None
    max_tokens: int | None = None
    idempotency_key: str | None = None
    """Goes upstream with the request, the same for each attempt of one call."""
    model: str | None = None
    """Which model of the chain to ask; None where there is no chain, or nothing is wrong with its first."""


UNTROUBLED = Attempt()
"""The attempt of a call of which there is nothing to know."""
ATTEMPT: ContextVar[Attempt] = ContextVar("recovery_ops_attempt", default=UNTROUBLED)


class Operation:
    """A named, guarded capability.

    What the quick path reads may be read without a lock: each is one attribute that is set as a whole, and only says
    which path to take. A call that reads an old value is a call that came a moment earlier.
    """

    __slots__ = (
        "_lock",
        "call_deadline_s",
        "cells",
        "code",
        "fallbacks",
        "first_attempt",
        "is_calm",
        "kind",
        "place",
        "reduced",
        "standing",
        "timers",
    )

    def __init__(
        self, standing: Standing, place: Place, lock: AbstractContextManager[object], *, kind: str, code: Knobs
    ) -> None:
        self._lock = lock
        self.standing = standing
        self.place = place
        self.kind = kind
        self.code = code
        self.cells: dict[str, Cell] = {}
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

    def refresh(self) -> None:
        """Learn which path calls may take. With the runtime's lock held."""
        knobs = self.standing.policy.knobs
        # In persistent mode deadlines are not what they are elsewhere: the ladder knows.
        self.is_calm = self.standing.is_calm and not knobs.persistent
        deadline_s = knobs.call_deadline_s or 0.0
        if deadline_s != self.call_deadline_s:
            self.first_attempt = Attempt(self.name, deadline_s=deadline_s) if deadline_s else UNTROUBLED
            self.call_deadline_s = deadline_s

    def declare(self, alternatives: Iterable[Alternative]) -> None:
        """Note what a guard may ask in its place."""
        for other in alternatives:
            if other.feature:
                self.reduced = tuple(dict.fromkeys((*self.reduced, other.standing.name)))
            else:
                self.fallbacks = tuple(dict.fromkeys((*self.fallbacks, other.standing.name)))

    def become(self, instance: str, lock: AbstractContextManager[object]) -> None:
        """After a fork: the same operation in another instance, under the child's lock."""
        self.place = replace(self.place, instance=instance)
        self._lock = lock
        if self.timers is not None:
            self.timers.forget()

    def own_timers(self) -> Timers:
        """What times this operation's calls in tasks."""
        from recovery_ops.runtime.concurrency.timers import Timers

        with self._lock:
            self.timers = self.timers or Timers()
            return self.timers

    def cell(self, source: str) -> Cell:
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
                found = self.cells[source] = Cell(source)
                self.standing.breaker.successes.join(found.successes)
            return found


@dataclass(frozen=True, slots=True)
class Fallback:
    """An alternative to an operation: a callable with the same arguments, and what the user must know of its answers.

    `warning` is shown to people ("prices up to 1 h old"); `data_age_s` is how old its data may be. `feature` names what
    is given up where it is the operation itself that does less (`caching`, `parallel`): such a one is asked last.
    """

    function: Callable[..., Any]
    name: str = ""
    warning: str | None = None
    data_age_s: float | None = None
    is_destructive: bool = True
    feature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the developer said about one guarded callable."""

    operation: Operation
    function: Callable[..., Any]
    source: str = ""
    is_optional: bool = False
    is_repeatable: bool = False
    alternatives: tuple[tuple[Alternative, Callable[..., Any]], ...] = ()
    fixes: frozenset[Adjustment] = field(default_factory=frozenset)
    hooks: dict[Adjustment, Callable[[], Any]] = field(default_factory=dict)
    idempotency_key: Callable[..., str] | None = None
    model: str | None = None
    tool: str | None = None
    needs: Callable[..., Needs] | None = None
    on_heartbeat: Callable[[WaitHeartbeat], Any] | None = None
    ask_user: Callable[[Escalated], Any] | None = None

    def function_of(self, operation: str, level: int) -> Callable[..., Any]:
        """What to call for a rung of the ladder."""
        if level == 0:
            return self.function
        return next(function for other, function in self.alternatives if other.standing.name == operation)


@dataclass(frozen=True, slots=True)
class Degraded:
    """Stands for the answer of an optional operation that is left out. It is falsy."""

    operation: str
    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result and how it was come by (`guarded.outcome(…)`)."""

    value: Any
    attempts: int = 1
    fallback: str | None = None
    warning: str | None = None
    data_age_s: float | None = None

    @property
    def is_second_best(self) -> bool:
        """Whether a fallback answered, or nothing did."""
        return self.fallback is not None or isinstance(self.value, Degraded)
