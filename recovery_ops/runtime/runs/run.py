"""Runs as context managers: one task of an agent, from request to answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import inf
from types import TracebackType
from typing import Self

from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import ConfigurationError, DeadlineExceeded, RunCancelled, StopRun
from recovery_ops.runtime.failures.control_flow import is_control_flow
from recovery_ops.runtime.guards.argument_checks import check_source, check_type
from recovery_ops.runtime.runs.context import RunContext, current_scope
from recovery_ops.runtime.runs.limits import count_compaction, take_turn
from recovery_ops.runtime.runs.pause import begin, begin_async
from recovery_ops.runtime.spending.calls import charge_owed


class Run:
    """One task of an agent, from request to answer, as a sync or async context manager.

    `source` is the query source: foreground if the policy lists it, else background. `timeout` limits the run, in
    seconds or as a timedelta (default: 300 s, by the policy; `math.inf`: no limit); an inner run ends no later than the
    outer one. At the deadline a task is cancelled and DeadlineExceeded raised here; a thread is not interrupted, but
    its guarded calls are rejected.

    `turns` counts the turns of the model. `cancel` cancels the run from any thread. `id` is `session.id` on the wire.
    `warnings` and `withdrawn` are for the user of the answer. Add to `input_tokens`, `output_tokens` and `cost_usd`
    yourself. RunsPaused while new runs are paused. Rules:
    docs/guide/run-limits.md#end-of-a-run

    >>> with recovery.run("answer a question", source="main_agent", timeout=60) as run:
    ...     for turn in run.turns(20):
    ...         run.input_tokens = (run.input_tokens or 0) + 1200
    ...         break  # the answer is there
    >>> turn, run.input_tokens, run.warnings
    (1, 1200, ())
    """

    def __init__(
        self,
        recovery: Engine,
        name: str = "",
        *,
        source: str = "",
        run_id: str = "",
        timeout: float | timedelta | None = None,
    ) -> None:
        check_type("run", str, {"name": name, "source": source, "run_id": run_id})
        timeout_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
        if timeout_s is not None and not (is_number and timeout_s > 0):
            raise ConfigurationError(
                f"run {name}: timeout must be a positive number of seconds or a timedelta, not {timeout!r}"
            )
        check_source(f"run {name}", source, recovery.desired.policy.foreground_sources)
        self.name = name
        self._recovery = recovery
        self._timeout_s = timeout_s
        self.scope = RunContext(
            source=source or recovery.default_source,
            run_id=run_id or os.urandom(16).hex(),
            clock=recovery.clock,
            owner=recovery,
        )
        self._is_entered = False
        self._began = 0.0
        self.turn_count: int | None = None

    @property
    def id(self) -> str:
        """Id of the run: `session.id` on the wire."""
        return self.scope.run_id

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the user about the answer, each once: those of fallbacks, and missing parts."""
        return tuple(dict.fromkeys(self.scope.warnings))

    @property
    def withdrawn(self) -> frozenset[str]:
        """Optional operations that were withdrawn in this run."""
        return frozenset(self.scope.withdrawn)

    @property
    def input_tokens(self) -> int | None:
        """Tokens sent in this run; None if not counted."""
        return self.scope.spent.input_tokens

    @input_tokens.setter
    def input_tokens(self, tokens: int | None) -> None:
        with self._recovery.lock:
            self.scope.owe((tokens or 0) - (self.scope.spent.input_tokens or 0), 0.0)
            self.scope.spent.input_tokens = tokens

    @property
    def output_tokens(self) -> int | None:
        """Tokens received in this run; None if not counted."""
        return self.scope.spent.output_tokens

    @output_tokens.setter
    def output_tokens(self, tokens: int | None) -> None:
        with self._recovery.lock:
            self.scope.owe((tokens or 0) - (self.scope.spent.output_tokens or 0), 0.0)
            self.scope.spent.output_tokens = tokens

    @property
    def cost_usd(self) -> float | None:
        """Cost of the run in US dollars; None if not counted."""
        return self.scope.spent.cost_usd

    @cost_usd.setter
    def cost_usd(self, dollars: float | None) -> None:
        with self._recovery.lock:
            self.scope.owe(0, (dollars or 0.0) - (self.scope.spent.cost_usd or 0.0))
            self.scope.spent.cost_usd = dollars

    def turn(self) -> int:
        """Start the next turn of the model and return its number, from 1. StopRun beyond the limit or after the end."""
        return self._take_turn(None)

    def turns(self, most: int | None = None) -> Iterator[int]:
        """Iterator over the turns of the model; leave the loop with the answer.

        `most` can only lower the cap of the policy (20); the turn after the last raises StopRun.

        >>> with recovery.run("answer") as run:
        ...     for turn in run.turns(20):
        ...         if turn == 2:
        ...             break
        """
        if most is not None and most < 1:
            raise ConfigurationError(f"turns must be a whole number above 0, not {most!r}")
        while True:
            yield self._take_turn(most)

    def _take_turn(self, most: int | None) -> int:
        if self.scope.is_cancelled:
            raise RunCancelled(self.name or "run", note=self.scope.called_off_note)
        self.turn_count = take_turn(self._recovery, self.scope, most)
        return self.turn_count

    def cancel(self) -> None:
        """Cancel the run from any thread: waits end at once, nothing is retried, no further turn starts.

        A call that is under way in a thread goes on to its end; a task is cancelled by whoever holds it.
        """
        self.scope.call_off()
        self._recovery.waker.wake_all()

    @property
    def asks_a_person(self) -> bool:
        """Whether a person decides about tool calls, after too many denials."""
        return self.scope.guards.asks_a_person

    @property
    def may_compact(self) -> bool:
        """Whether compaction of the context is still allowed in this run."""
        return self.scope.guards.may_compact

    def compaction(self, *, has_worked: bool) -> bool:
        """Report the success of a compaction; returns `may_compact`.

        After three failures in a row it stays off for the run.
        """
        return count_compaction(self._recovery, self.scope, has_worked=has_worked)

    def __enter__(self) -> Self:
        with self._entering():
            begin(self._recovery, self.scope, self.name)
            return self._begun()

    async def __aenter__(self) -> Self:
        with self._entering():
            await begin_async(self._recovery, self.scope, self.name)
            return self._begun()

    @contextmanager
    def _entering(self) -> Iterator[None]:
        """One entry in the life of a run; one that was refused, or cancelled while it waited, may be tried again."""
        if self._is_entered:
            raise ConfigurationError(f"{self.name or 'a run'} was entered before: each `with` needs a run of its own")
        self._is_entered, self.scope.outer = True, current_scope()
        try:
            yield
        except BaseException:
            self._is_entered = False
            self._recovery.end_run(self.scope)
            raise

    def _begun(self) -> Self:
        outer, clock = self.scope.around(), self._recovery.clock
        self._began = clock.now()
        limit_s = self._recovery.desired.policy.guards.run_deadline_s if self._timeout_s is None else self._timeout_s
        self.scope.deadline_at = min(self._began + limit_s, outer.deadline_at if outer else inf)
        self.scope.time(clock.now)
        self.scope.enter()
        self._recovery.emit(RunStarted(name=self.name), self.scope)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        late, ended_by = None, error
        try:
            if self.scope.leave(kind, error, trace):
                ended_by = late = DeadlineExceeded(self.name or "run", was_begun=True)
        except BaseException as rest:  # trio: what a group holds beside the deadline's cancels
            ended_by = rest
            raise
        finally:
            # Once, and only where it was begun: a run may be closed twice, or by a fork of its process.
            if self._recovery.end_run(self.scope):
                charge_owed(self._recovery, self.scope)
                self._tell_end(ended_by)
        if late is not None:
            raise late from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _tell_end(self, error: BaseException | None) -> None:
        event = RunFinished(
            name=self.name,
            status=self._status(error),
            duration_s=round(self._recovery.clock.now() - self._began, 4),
            turns=self.turn_count,
            attempts=self.scope.spent.attempts + self.scope.untroubled.value(),
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self.cost_usd,
            repeated_calls=most if (most := self.scope.guards.repeats.most) > 1 else None,
        )
        self._recovery.emit(event, self.scope)

    def _status(self, error: BaseException | None) -> RunStatus:
        if error is None:
            return RunStatus.DEGRADED if self.scope.is_degraded else RunStatus.SUCCEEDED
        if isinstance(error, StopRun):
            return RunStatus.STOPPED
        is_cancel = isinstance(error, RunCancelled) or not isinstance(error, Exception)
        if is_cancel or is_control_flow(error, self._recovery.control_flow):
            return RunStatus.CANCELLED
        return RunStatus.FAILED
