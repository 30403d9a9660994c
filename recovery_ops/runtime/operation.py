"""An operation as this process holds it: its standing, its counts, and what the developer said at the guard."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from recovery_ops.rules.model_chain import Needs
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.scope import Place
from recovery_ops.rules.standing import Alternative, Standing
from recovery_ops.rules.words import Adjustment
from recovery_ops.runtime.counting import Cell
from recovery_ops.runtime.timers import Timers


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the callable may want to know of the attempt it is in (`recovery_ops.runtime.attempt()`)."""

    operation: str = ""
    number: int = 1
    deadline_s: float | None = None
    """Seconds left for this attempt; hand it to the transport."""
    adjustment: Adjustment | None = None
    max_tokens: int | None = None
    idempotency_key: str | None = None
    """Goes upstream with the request, the same for each attempt of one call."""
    model: str | None = None
    """Which model of the chain to ask; None where there is no chain, or nothing is wrong with its first."""


ATTEMPT: ContextVar[Attempt] = ContextVar("recovery_ops_attempt", default=Attempt())  # noqa: B039  # it is frozen


class Operation:
    """A named, guarded capability.

    `is_calm` and `call_deadline_s` may be read without a lock: they only say which path to take.
    """

    __slots__ = ("_lock", "call_deadline_s", "cells", "code", "is_calm", "kind", "place", "standing", "timers")

    def __init__(
        self, standing: Standing, place: Place, lock: AbstractContextManager[object], *, kind: str, code: Knobs
    ) -> None:
        self._lock = lock
        self.standing = standing
        self.place = place
        self.kind = kind
        self.code = code
        self.cells: dict[str, Cell] = {}
        self.timers = Timers()
        self.refresh()

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.standing.name

    def refresh(self) -> None:
        """Learn which path calls may take. With the runtime's lock held."""
        self.is_calm = self.standing.is_calm
        self.call_deadline_s = self.standing.policy.knobs.call_deadline_s or 0.0

    def become(self, instance: str, lock: AbstractContextManager[object]) -> None:
        """After a fork: the same operation in another instance, under the child's lock."""
        self.place = replace(self.place, instance=instance)
        self._lock = lock

    def cell(self, source: str) -> Cell:
        """The counts for one source; the breaker counts its successes too."""
        found = self.cells.get(source)
        if found is not None:
            return found
        with self._lock:
            found = self.cells.get(source)
            if found is None:
                found = self.cells[source] = Cell(source)
                self.standing.breaker.successes.join(found.successes)
            return found


@dataclass(frozen=True, slots=True)
class Fallback:
    """An alternative to an operation: a callable with the same arguments, and what the user must know of its answers.

    `warning` is shown to people ("prices up to 1 h old"); `data_age_s` is how old its data may be.
    """

    function: Callable[..., Any]
    name: str = ""
    warning: str | None = None
    data_age_s: float | None = None
    is_destructive: bool = True


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
