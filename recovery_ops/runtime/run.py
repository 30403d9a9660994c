"""A run: one task of an agent, from request to answer. It says who waits, names the session and bounds the time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from dataclasses import field
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recovery_ops.rules.budget import RunGuards
from recovery_ops.rules.facts import RunFinished, RunStarted
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.window import Tally
from recovery_ops.rules.words import RunStatus
from recovery_ops.runtime.budgets import count_compaction, take_turn
from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.concurrency.run_timer import RunTimer, start_timer
from recovery_ops.runtime.errors import DeadlineExceeded, RunCancelled, RunStopped
from recovery_ops.runtime.pausing import begin, begin_async

if TYPE_CHECKING:
    from recovery_ops.rules.intent import Abort
    from recovery_ops.runtime.recovery import Recovery


MACHINE = Clock()
_HOLDING = threading.Lock()


@dataclass(slots=True)
class Scope:
    """What calls made inside a run know of it."""

    source: str
    run_id: str = ""
    deadline_at: float = inf
    clock: Clock = MACHINE
    """What `deadline_at` is told by."""
    recovery: Recovery | None = None
    """Whose run it is; None for a deadline outside any run."""
    attempts: int = 0
    """Attempts of calls that climbed."""
    untroubled: Tally = field(default_factory=Tally)
    """Calls that went well on the quick path, counted without a lock."""
    warnings: list[str] = field(default_factory=list)
    """What the user should know of the answer: "prices up to 1 h old"."""
    withdrawn: set[str] = field(default_factory=set)
    """Operations that were left out of this run."""
    guards: RunGuards = field(default_factory=RunGuards)
    """What the run has spent on failures, turns and refusals. Changed under the runtime's lock."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    outer: Scope | None = None
    timer: RunTimer | None = None
    holds: int = 0
    """How many calls are under way for which the deadline stands still: they wait for a person, or persist."""
    held_since: float = 0.0
    is_called_off: bool = False
    """Set by `Run.cancel`, and when a person has the run aborted."""
    note: str = ""
    """Who had it aborted, and why."""
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
        """It goes on, later by as long as it stood still."""
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
        return any(scope.recovery is not None for scope in self._with_outer() if scope is not self)

    @property
    def is_cancelled(self) -> bool:
        """Whether this run, or one around it, was called off."""
        return any(scope.is_called_off for scope in self._with_outer())

    @property
    def called_off_note(self) -> str:
        """Who had this run, or one around it, aborted, and why; empty where no person did."""
        return next((scope.note for scope in self._with_outer() if scope.note), "")

    def abort(self, wanted: Abort) -> None:
        """Call it off by a person's word. Whoever waits in it has to be woken."""
        self.note = f"{wanted.by}: {wanted.reason}" if wanted.by else wanted.reason
        self.is_called_off = True

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; infinity where there is none."""
        return self.deadline_at - self.now() if self.now is not None and self.deadline_at < inf else inf

    def time(self, now: Callable[[], float]) -> None:
        """Have the task that we are in ended at the deadline: one timer for the run, none for its calls."""
        self.now = now
        if self.deadline_at < inf:
            self.timer = start_timer(lambda: inf if self.holds else self.deadline_at - now())

    def stop_timer(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Whether `error` was the deadline's doing."""
        timer, self.timer = self.timer, None
        return timer is not None and timer.stop(kind, error, trace)

    def _with_outer(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def spend(self, input_tokens: int, output_tokens: int, cost_usd: float | None) -> None:
        """A model answered. Under the runtime's lock."""
        self.input_tokens = (self.input_tokens or 0) + input_tokens
        self.output_tokens = (self.output_tokens or 0) + output_tokens
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    @property
    def is_degraded(self) -> bool:
        """Whether any part of the answer is second best."""
        return bool(self.warnings or self.withdrawn)


CURRENT: ContextVar[Scope | None] = ContextVar("recovery_ops_run", default=None)
"""The innermost run of this task or thread."""


def clock_in_force() -> Clock:
    """The clock of the run that we are in, else the machine's: two clocks must never be compared."""
    scope = CURRENT.get()
    return MACHINE if scope is None else scope.clock


class Run:
    """`with recovery.run("answer a question", source="main_agent") as run:`, sync or async.

    `source` says who is waiting; a source that the policy does not list as foreground, or none, is background.
    `deadline_s` bounds the whole run (absent: what the policy says, 300 s; `math.inf`: nothing does); an inner run can
    only end sooner than the one around it. At the deadline a task is cancelled and DeadlineExceeded raised here; a
    thread is not interrupted, its guarded calls are refused. `cancel` calls the run off, from any thread; a person who
    has it aborted at the console does the same. Where new work is paused a run that is part of no other is not begun:
    NewWorkPaused is raised, or it is waited for, as `Recovery(on_pause=)` says.
    """

    def __init__(
        self, recovery: Recovery, name: str = "", *, source: str = "", run_id: str = "", deadline_s: float | None = None
    ) -> None:
        if deadline_s is not None and not deadline_s > 0:
            raise ValueError("a deadline is a positive number of seconds")
        self.name = name
        self._recovery = recovery
        self._deadline_s = deadline_s
        self.scope = Scope(
            source=source, run_id=run_id or os.urandom(16).hex(), clock=recovery.clock, recovery=recovery
        )
        self._token: Token[Scope | None] | None = None
        self._began = 0.0
        self.turns: int | None = None

    @property
    def id(self) -> str:
        """The run's id: `session.id` on the wire."""
        return self.scope.run_id

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of the answer, each once: what fallbacks warn of, and which parts are missing."""
        return tuple(dict.fromkeys(self.scope.warnings))

    @property
    def withdrawn(self) -> frozenset[str]:
        """The optional operations that were left out of this run."""
        return frozenset(self.scope.withdrawn)

    @property
    def input_tokens(self) -> int | None:
        """Tokens sent in this run; None where nobody counts them."""
        return self.scope.input_tokens

    @input_tokens.setter
    def input_tokens(self, tokens: int | None) -> None:
        self.scope.input_tokens = tokens

    @property
    def output_tokens(self) -> int | None:
        """Tokens received in this run; None where nobody counts them."""
        return self.scope.output_tokens

    @output_tokens.setter
    def output_tokens(self, tokens: int | None) -> None:
        self.scope.output_tokens = tokens

    @property
    def cost_usd(self) -> float | None:
        """What the run has cost; None where nobody says."""
        return self.scope.cost_usd

    @cost_usd.setter
    def cost_usd(self, dollars: float | None) -> None:
        self.scope.cost_usd = dollars

    def turn(self) -> int:
        """Begin the model's next turn: its number, from 1. Raises RunStopped where the cap is reached or the run ended.

        for _ in iter(run.turn, None):  # at most 20 turns, then RunStopped
            answer = model(messages)
        """
        if self.scope.is_cancelled:
            raise RunCancelled(self.name or "run", note=self.scope.called_off_note)
        self.turns = take_turn(self._recovery, self.scope)
        return self.turns

    def cancel(self) -> None:
        """Call the run off, from any thread: waits end at once, nothing is tried again, the next turn is not given.

        A call that is under way in a thread goes on to its end; a task is cancelled by whoever holds it.
        """
        self.scope.is_called_off = True
        self._recovery.waker.wake_all()

    @property
    def asks_a_person(self) -> bool:
        """Whether so many permissions were refused that a person has to decide from here on."""
        return self.scope.guards.asks_a_person

    @property
    def may_compact(self) -> bool:
        """Whether compacting the context is still worth trying in this run."""
        return self.scope.guards.may_compact

    def compaction(self, *, has_worked: bool) -> bool:
        """Tell how compacting the context went; returns `may_compact`. After three failures in a row it stays off."""
        return count_compaction(self._recovery, self.scope, has_worked=has_worked)

    def __enter__(self) -> Self:
        self.scope.outer = CURRENT.get()
        begin(self._recovery, self.scope, self.name)
        return self._begun()

    def _begun(self) -> Self:
        outer, clock = self.scope.outer, self._recovery.clock
        self._began = clock.now()
        limit_s = self._recovery.desired.policy.guards.run_deadline_s if self._deadline_s is None else self._deadline_s
        self.scope.deadline_at = min(self._began + limit_s, outer.deadline_at if outer else inf)
        self._token = CURRENT.set(self.scope)
        self.scope.time(clock.now)
        self._recovery.emit(RunStarted(name=self.name), self.scope)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT.reset(self._token)
        late = None
        if self.scope.stop_timer(kind, error, trace):
            late = DeadlineExceeded(self.name or "run", was_begun=True)
        self._recovery.end_run(self.scope)
        self._recovery.emit(
            RunFinished(
                name=self.name,
                status=self._status(late or error),
                duration_s=round(self._recovery.clock.now() - self._began, 4),
                turns=self.turns,
                attempts=self.scope.attempts + self.scope.untroubled.value() or None,
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                cost_usd=self.cost_usd,
            ),
            self.scope,
        )
        if late is not None:
            raise late from error

    async def __aenter__(self) -> Self:
        self.scope.outer = CURRENT.get()
        await begin_async(self._recovery, self.scope, self.name)
        return self._begun()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _status(self, error: BaseException | None) -> RunStatus:
        if error is None:
            return RunStatus.DEGRADED if self.scope.is_degraded else RunStatus.SUCCEEDED
        if isinstance(error, RunStopped):
            return RunStatus.STOPPED
        if isinstance(error, RunCancelled) or not isinstance(error, Exception):
            return RunStatus.CANCELLED
        return RunStatus.FAILED
