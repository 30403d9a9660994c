"""A run: one task of an agent, from request to answer. It says who waits, names the session and bounds the time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import field
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.resilience.sliding_window import Tally
from recovery_ops.rules.run_limits import RunGuards
from recovery_ops.rules.spending import Spending
from recovery_ops.runtime.aio.run_timeout import RunTimer, start_timer
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock

if TYPE_CHECKING:
    from recovery_ops.rules.desired_state import Abort, Pause


MACHINE = Clock()
_HOLDING = threading.Lock()


def _renew_lock() -> None:
    global _HOLDING  # noqa: PLW0603  # another thread of the parent may have held it
    _HOLDING = threading.Lock()


forks.in_child(_renew_lock)


class RunOwner(Protocol):
    """The client that a run belongs to."""

    control_flow: tuple[type[BaseException], ...]


@dataclass(slots=True)
class Spent:
    """Attempts, tokens and cost of a run, also inside its deadlines. Changed under the runtime's lock."""

    attempts: int = 0
    """Attempts of calls that climbed."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    owed: Spending = Spending()
    """What is not yet charged to the spend accounts: counted by the agent's code, or after its attempt."""


@dataclass(slots=True)
class RunContext:
    """The surroundings of a call: a run, or a deadline inside or outside of one."""

    source: str
    run_id: str = ""
    deadline_at: float = inf
    clock: Clock = MACHINE
    """The clock of `deadline_at`."""
    owner: RunOwner | None = None
    """The client of the run; None for a deadline outside any run."""
    run: RunContext | None = None
    """The run around it, for a deadline; None for a run."""
    spent: Spent = field(default_factory=Spent)
    untroubled: Tally = field(default_factory=Tally)
    """Calls that went well on the fast path, counted without a lock."""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the user about the answer: "prices up to 1 h old"."""
    withdrawn: set[str] = field(default_factory=set)
    """Operations that were left out of this run."""
    guards: RunGuards = field(default_factory=RunGuards)
    """Failures, turns and refusals of the run. Changed under the runtime's lock."""
    outer: RunContext | None = None
    timer: RunTimer | None = None
    holds: int = 0
    """Number of calls under way for which the deadline stands still: they wait for a person, or persist."""
    held_since: float = 0.0
    is_called_off: bool = False
    """Set by `Run.cancel`, and when a person has the run aborted."""
    is_over: bool = False
    """Whether it has ended; tasks and threads that go on are outside of it."""
    needs_ladder: bool = False
    """Its calls leave the fast path: it was called off, or is over."""
    note: str = ""
    """Author and reason of its abort."""
    now: Callable[[], float] | None = None
    """The clock that `deadline_at` is on."""

    def hold(self, now: float) -> None:
        """The deadline stands still, here and around, until `let_go`."""
        with _HOLDING:
            for scope in self._with_outer():
                scope.held_since = scope.held_since if scope.holds else now
                scope.holds += 1
                if scope.timer is not None:
                    scope.timer.moved()

    def let_go(self, now: float) -> None:
        """End a hold: the deadline goes on, later by as long as it stood still."""
        with _HOLDING:
            for scope in self._with_outer():
                scope.holds -= 1
                if not scope.holds:
                    scope.deadline_at += now - scope.held_since
                    if scope.timer is not None:
                        scope.timer.moved()

    @property
    def is_part_of_a_run(self) -> bool:
        """Whether a run is around this one; a deadline alone is none."""
        return any(one.owner is not None and not one.is_over for one in self._with_outer() if one is not self)

    def is_in_run_of(self, owner: RunOwner) -> bool:
        """Whether it is, or is inside, a run of this client that has not ended."""
        return any(one.owner is owner and not one.is_over for one in self._with_outer())

    @property
    def is_cancelled(self) -> bool:
        """Whether this run, or one around it, was called off."""
        return any(scope.is_called_off for scope in self._with_outer())

    @property
    def called_off_note(self) -> str:
        """Author and reason of the abort of this run, or of one around it; empty without one."""
        return next((scope.note for scope in self._with_outer() if scope.note), "")

    @property
    def is_left(self) -> bool:
        """Whether it has ended, or the run that it belongs to: what goes on in it is outside."""
        return self.is_over or (self.run is not None and self.run.is_over)

    @property
    def is_disturbed(self) -> bool:
        """Whether calls inside must leave the fast path because of what is around."""
        return self.is_cancelled or self.is_left

    def call_off(self) -> None:
        """End it before its time. Whoever waits in it has to be woken."""
        self.is_called_off = self.needs_ladder = True

    def abort(self, wanted: Abort | Pause) -> None:
        """Call it off by a person's word: an abort of the run, or a stop of the agent."""
        self.note = ": ".join(part for part in (wanted.by, wanted.reason) if part)
        self.call_off()

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; infinity where there is none."""
        return self.deadline_at - self.now() if self.now is not None and self.deadline_at < inf else inf

    def time(self, now: Callable[[], float]) -> None:
        """Have the task that we are in ended at the deadline: one timer for the run, none for its calls."""
        self.now = now
        if self.deadline_at < inf:
            self.timer = start_timer(lambda: inf if self.holds or self.is_over else self.deadline_at - now())

    def enter(self) -> None:
        """From here on this task or thread is in it."""
        CURRENT.set(self)

    def leave(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """End it, in whatever task or thread we are; True if `error` was the deadline's doing.

        Where it was entered elsewhere, that context finds out by `current_scope` that it has ended.
        """
        self.is_over = self.needs_ladder = True
        if CURRENT.get() is self:
            CURRENT.set(self.outer)
        timer, self.timer = self.timer, None
        return timer is not None and timer.stop(kind, error, trace)

    def lasting(self) -> RunContext | None:
        """The innermost that has not ended. A deadline that outlasts its run belongs to what is around that."""
        scope: RunContext | None = self
        while scope is not None and scope.is_over:
            scope = scope.outer
        if scope is not None and scope.run is not None and scope.run.is_over:
            around = scope.run.lasting()
            scope.belong_to(around and around.own_run)
        return scope

    def around(self) -> RunContext | None:
        """The run or deadline around it that has not ended."""
        self.outer = self.outer.lasting() if self.outer is not None else None
        return self.outer

    @property
    def own_run(self) -> RunContext | None:
        """The run that it is, or belongs to."""
        return self if self.owner is not None and self.run is None else self.run

    def belong_to(self, run: RunContext | None) -> None:
        """Make this deadline a part of a run, or of none: what calls spend, and who waits, is the run's."""
        shared = run or RunContext(source="", clock=self.clock)
        for name in _OF_A_RUN:
            setattr(self, name, getattr(shared, name))
        self.run = run

    def _with_outer(self) -> Iterator[RunContext]:
        scope: RunContext | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def spend(self, input_tokens: int, output_tokens: int, cost_usd: float | None) -> None:
        """A model answered. Under the runtime's lock."""
        spent = self.spent
        spent.input_tokens = (spent.input_tokens or 0) + input_tokens
        spent.output_tokens = (spent.output_tokens or 0) + output_tokens
        if cost_usd is not None:
            spent.cost_usd = (spent.cost_usd or 0.0) + cost_usd

    def owe(self, tokens: int, cost_usd: float) -> None:
        """Tokens and dollars for the next charge of the spend accounts. Under the runtime's lock."""
        self.spent.owed = self.spent.owed.plus(Spending(tokens=tokens, cost_usd=cost_usd))

    def take_owed(self) -> Spending:
        """What this run, and those around it, owe the spend accounts; from now on it is charged. Under the lock."""
        owed = Spending()
        for scope in self._with_outer():
            owed, scope.spent.owed = owed.plus(scope.spent.owed), Spending()
        return owed

    @property
    def root_run_id(self) -> str:
        """The id of the outermost run, which has one spend account with all runs inside; empty outside runs."""
        found = ""
        for scope in self._with_outer():
            run = scope.own_run
            found = run.run_id if run is not None else found
        return found

    @property
    def is_degraded(self) -> bool:
        """Whether any part of the answer is second best."""
        return bool(self.warnings or self.withdrawn)


_OF_A_RUN = ("source", "run_id", "owner", "spent", "untroubled", "warnings", "withdrawn", "guards")
"""Attributes that a deadline shares with the run that it belongs to."""

CURRENT: ContextVar[RunContext | None] = ContextVar("recovery_ops_run", default=None)
"""The innermost run of this task or thread, which may have ended: `current_scope` finds the one that has not."""


def current_scope() -> RunContext | None:
    """The innermost run or deadline that this task or thread is in; None outside of any."""
    scope = CURRENT.get()
    if scope is not None and scope.is_left:
        scope = scope.lasting()
        CURRENT.set(scope)
    return scope


def source_of_run() -> str:
    """The source of the innermost run; empty outside runs."""
    scope = current_scope()
    return scope.source if scope else ""


def clock_in_force() -> Clock:
    """The clock of the run that we are in, else the machine's: two clocks must never be compared."""
    scope = current_scope()
    return MACHINE if scope is None else scope.clock
