"""A run: one task of an agent, from request to answer. It says who waits, names the session and bounds the time."""

from __future__ import annotations

import uuid
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Self

from recovery_ops.rules.budget import RunGuards
from recovery_ops.rules.facts import RunFinished, RunStarted
from recovery_ops.rules.words import RunStatus
from recovery_ops.runtime.budgets import count_compaction, take_turn
from recovery_ops.runtime.errors import RunCancelled, RunStopped

if TYPE_CHECKING:
    from recovery_ops.runtime.recovery import Recovery


@dataclass(slots=True)
class Scope:
    """What calls made inside a run know of it."""

    source: str
    run_id: str = ""
    deadline_at: float = inf
    attempts: int = 0
    warnings: list[str] = field(default_factory=list)
    """What the user should know of the answer: "prices up to 1 h old"."""
    withdrawn: set[str] = field(default_factory=set)
    """Operations that were left out of this run."""
    guards: RunGuards = field(default_factory=RunGuards)
    """What the run has spent on failures, turns and refusals. Changed under the runtime's lock."""

    @property
    def is_degraded(self) -> bool:
        """Whether any part of the answer is second best."""
        return bool(self.warnings or self.withdrawn)


CURRENT: ContextVar[Scope | None] = ContextVar("recovery_ops_run", default=None)
"""The innermost run of this task or thread."""


class Run:
    """`with recovery.run("answer a question", source="main_agent") as run:`, sync or async.

    `source` says who is waiting; a source that the policy does not list as foreground, or none, is background.
    `deadline_s` bounds the whole run; an inner run can only end sooner than the one around it.
    """

    def __init__(
        self, recovery: Recovery, name: str = "", *, source: str = "", run_id: str = "", deadline_s: float | None = None
    ) -> None:
        self.name = name
        self._recovery = recovery
        self._deadline_s = deadline_s
        self.scope = Scope(source=source, run_id=run_id or uuid.uuid4().hex)
        self._token: Token[Scope | None] | None = None
        self._began = 0.0
        self.turns: int | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cost_usd: float | None = None

    @property
    def id(self) -> str:
        """The run's id: `session.id` on the wire."""
        return self.scope.run_id

    def turn(self) -> int:
        """Begin the model's next turn: its number, from 1. Raises RunStopped where the cap is reached or the run ended.

        for _ in iter(run.turn, None):  # at most 20 turns, then RunStopped
            answer = model(messages)
        """
        self.turns = take_turn(self._recovery, self.scope)
        return self.turns

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
        outer = CURRENT.get()
        self._began = self._recovery.clock.now()
        own = self._began + self._deadline_s if self._deadline_s else inf
        self.scope.deadline_at = min(own, outer.deadline_at if outer else inf)
        self._token = CURRENT.set(self.scope)
        self._recovery.runs_in_flight.add(self.id)
        self._recovery.emit(RunStarted(name=self.name), self.scope)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT.reset(self._token)
        self._recovery.runs_in_flight.discard(self.id)
        self._recovery.emit(
            RunFinished(
                name=self.name,
                status=self._status(error),
                duration_s=round(self._recovery.clock.now() - self._began, 4),
                turns=self.turns,
                attempts=self.scope.attempts or None,
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                cost_usd=self.cost_usd,
            ),
            self.scope,
        )

    async def __aenter__(self) -> Self:
        return self.__enter__()

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
