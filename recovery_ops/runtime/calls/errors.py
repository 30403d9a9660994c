"""Errors that end guarded calls: ours, or the caller's own where nothing was tried."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any

from recovery_ops.rules.enums import Refusal
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.resilience.credentials import CredentialPool
from recovery_ops.rules.resilience.steps import CalledOff, Ending, Failed, Parked, Refused, Stopped
from recovery_ops.rules.run_limits import RunStop
from recovery_ops.rules.spending import SPEND_CAP
from recovery_ops.rules.tools.results import RUN_TELLINGS
from recovery_ops.runtime.calls.exhaustion import is_used_up, mark
from recovery_ops.runtime.calls.operation import Plan
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import (
    CircuitOpen,
    DeadlineExceeded,
    LoadShed,
    RecoveryError,
    RecoveryExhausted,
    RetryAfterActive,
    RunCancelled,
    RunsPaused,
    StopRun,
)
from recovery_ops.runtime.failures.control_flow import passes_unchanged
from recovery_ops.runtime.runs.context import RunContext
from recovery_ops.runtime.runs.limits import end_run


@dataclass(slots=True)
class CallHistory:
    """The errors, waits and keys of one call so far."""

    idempotency_key: str | None
    last_error: BaseException | None = None
    last_result: Any = None
    attempts_inside: int = 0
    """Attempts that guarded fallbacks made beyond their first."""
    waits_s: list[float] = field(default_factory=list)


class CallErrors:
    """Makes the error that ends one call, from its ending and its history."""

    def __init__(self, recovery: Engine, plan: Plan, scope: RunContext | None, history: CallHistory) -> None:
        self.recovery, self.plan, self.scope, self._history = recovery, plan, scope, history

    def error_for(self, ending: Ending | None) -> BaseException:
        """The error that the caller gets."""
        history, name = self._history, self.plan.operation.name
        if isinstance(ending, Refused):
            return self._refused(ending)
        if isinstance(ending, Parked):
            message = RUN_TELLINGS[SPEND_CAP].message
            stopped = RunStop(SPEND_CAP, None, message, name)
            parked = end_run(self.recovery, self.scope, stopped, is_recorded=True)
            parked.spend = ending.ruling
            return parked
        if isinstance(ending, Stopped):
            failure = ending.failure
            stop = StopRun(failure.category, failure.user_message, operation=name, reason=ending.reason)
            return self._raised_for(stop, self._stopped(ending))
        if isinstance(ending, Failed):
            last = ending.failure
            exhausted = RecoveryExhausted(
                name,
                last_error=history.last_error,
                attempts=ending.attempts + history.attempts_inside,
                steps=ending.rungs,
                reason=ending.reason,
                category=last.category if last else None,
                retry_at=self._at(ending.retry_in_s),
                user_message=last.user_message if last else "",
                suggestion=last.suggestion if last else "",
                failure=last,
                waits_s=tuple(history.waits_s),
                last_result=history.last_result,
            )
            exhausted.idempotency_key = history.idempotency_key
            return self._raised_for(exhausted, exhausted)
        error = history.last_error
        is_interrupt = error is not None and passes_unchanged(error, self.recovery.control_flow)
        is_the_runs = self.scope is not None and self.scope.is_cancelled and not is_interrupt
        if isinstance(ending, CalledOff) and error is not None and not is_the_runs:
            return error
        return RunCancelled(name, note=self.scope.called_off_note if self.scope is not None else "")

    def _raised_for(self, ours: RecoveryError, ended: RecoveryExhausted) -> BaseException:
        """Our error or the caller's own, which passes unchanged where nothing was tried."""
        own = self._history.last_error
        if own is None:
            return ours
        mark(own, ended, self.recovery.clock)
        reraise = self.recovery.reraise if self.plan.reraise is None else self.plan.reraise
        if reraise is None:
            return own if ours is ended and not is_used_up(ended) else ours
        return own if reraise else ours

    def _stopped(self, ending: Stopped) -> RecoveryExhausted:
        failure = ending.failure
        return RecoveryExhausted(
            self.plan.operation.name,
            last_error=None,
            attempts=ending.attempts + self._history.attempts_inside,
            steps=ending.rungs,
            category=failure.category,
            user_message=failure.user_message,
            suggestion=failure.suggestion,
            failure=failure,
            waits_s=tuple(self._history.waits_s),
        )

    def _refused(self, ending: Refused) -> RecoveryError:
        name, breaker = self.plan.operation.name, self.plan.operation.standing.breaker
        if ending.refusal is Refusal.DEADLINE:
            return DeadlineExceeded(name)
        if ending.refusal is Refusal.STOPPED:
            held = self.recovery.pause()
            return RunsPaused(
                name,
                retry_at=None if held is None or held.expires_at is None else _utc(held.expires_at),
                note="" if held is None else held.note,
                is_stop=True,
                is_run=False,
            )
        if ending.refusal is Refusal.SHED:
            shed = self.recovery.load_shed()
            if shed is None:
                return LoadShed(name)
            return LoadShed(name, retry_at=_utc(shed.expires_at), note=f"{shed.by}: {shed.reason}")
        retry_at = self._at(ending.retry_in_s)
        if ending.refusal is Refusal.GATE:
            return RetryAfterActive(name, retry_at=retry_at, credentials=self._resting_keys())
        note = self.recovery.operations.note_on(breaker.name)
        return CircuitOpen(name, breaker=breaker.name, state=ending.state, retry_at=retry_at, note=note)

    def _resting_keys(self) -> tuple[str, ...]:
        """The labels of the guard's keys where it has several and all of them rest."""
        keys, standing = self.plan.credentials, self.plan.operation.standing
        pool = CredentialPool(standing.name, keys, standing.key_gates)
        if len(keys) < 2 or pool.opens_in_s(self.recovery.clock.now()) <= 0:
            return ()
        return tuple(one.label for one in keys)

    def _at(self, in_s: float | None) -> datetime | None:
        if in_s is None:
            return None
        return _utc(self.recovery.clock.wall()) + timedelta(seconds=in_s)


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
