"""The guards of the current run at work: counts what happens, records what follows, and ends the run in code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recovery_ops.rules.budget import ERRORS, TURNS, Effect, GuardLimits, Ruling, RunStop
from recovery_ops.rules.facts import RunStopped as RunStoppedFact
from recovery_ops.rules.tools.results import RUN_TELLINGS
from recovery_ops.rules.words import Category
from recovery_ops.runtime.errors import RunStopped

if TYPE_CHECKING:
    from recovery_ops.runtime.recovery import Recovery
    from recovery_ops.runtime.run import Scope


def limits_of(recovery: Recovery) -> GuardLimits:
    """The limits that the live policy sets."""
    return recovery.desired.policy.guards


def take_turn(recovery: Recovery, scope: Scope) -> int:
    """The number of the model's next turn; RunStopped where it may have none."""
    if scope.guards.stop is not None:
        raise stopped_by(scope.guards.stop)
    with recovery.lock:
        ruling = scope.guards.turn(limits_of(recovery))
    record(recovery, scope, ruling)
    if ruling.effect is Effect.STOP_RUN:
        raise end_run(recovery, scope, RunStop(TURNS, None, RUN_TELLINGS[TURNS].message))
    return scope.guards.turns


def count_failure(recovery: Recovery, scope: Scope, tool: str, category: Category | None) -> Ruling:
    """A call failed, its retries included. `tool` is empty where there is no such tool. May set the run's end."""
    with recovery.lock:
        ruling = scope.guards.tool_failed(tool, limits_of(recovery))
    record(recovery, scope, ruling)
    if ruling.effect is Effect.STOP_RUN:
        end_run(recovery, scope, RunStop(ERRORS, category, RUN_TELLINGS[ERRORS].message, tool))
    return ruling


def count_success(recovery: Recovery, scope: Scope, tool: str) -> None:
    """A call succeeded."""
    with recovery.lock:
        scope.guards.tool_succeeded(tool)


def count_compaction(recovery: Recovery, scope: Scope, *, has_worked: bool) -> bool:
    """Compacting the context worked, or did not; returns whether it may be tried again in this run."""
    with recovery.lock:
        if has_worked:
            scope.guards.compaction_succeeded()
            return scope.guards.may_compact
        ruling = scope.guards.compaction_failed(limits_of(recovery))
    record(recovery, scope, ruling)
    return scope.guards.may_compact


def record(recovery: Recovery, scope: Scope, ruling: Ruling) -> None:
    """Send the facts of a ruling on their way."""
    for fact in ruling.facts:
        recovery.emit(fact, scope)


def end_run(recovery: Recovery, scope: Scope | None, stop: RunStop, *, is_recorded: bool = False) -> RunStopped:
    """Mark the run as ended, once, and return what is to be raised. `is_recorded`: the ladder has said so already."""
    if scope is not None and scope.guards.stop is None:
        scope.guards.stop = stop
        if not is_recorded:
            fact = RunStoppedFact(
                operation=stop.operation, reason=stop.reason, category=stop.category, message=stop.user_message
            )
            recovery.emit(fact, scope)
    return stopped_by(stop)


def stopped_by(stop: RunStop) -> RunStopped:
    """The error for a run that must end."""
    return RunStopped(stop.category, stop.user_message, operation=stop.operation, reason=stop.reason)
