"""The guards of the current run at work: counts what happens, records what follows, and ends the run in code."""

from __future__ import annotations

from dataclasses import replace

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import RunStopped as RunStoppedEvent
from recovery_ops.rules.repeated_calls import Mark
from recovery_ops.rules.run_limits import ERRORS, REPEATED_CALLS, TURNS, Effect, GuardLimits, Ruling, RunStop
from recovery_ops.rules.tools.results import RUN_TELLINGS
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import StopRun
from recovery_ops.runtime.runs.context import RunContext


def limits_of(recovery: Engine) -> GuardLimits:
    """The limits that the live policy sets."""
    return recovery.desired.policy.guards


def take_turn(recovery: Engine, scope: RunContext, most: int | None = None) -> int:
    """The number of the model's next turn; StopRun where it may have none, by the policy or beyond `most`."""
    if scope.guards.stop is not None:
        raise stopped_by(scope.guards.stop)
    limits = limits_of(recovery)
    if most is not None and most < limits.turns:
        limits = replace(limits, turns=most)
    with recovery.lock:
        ruling = scope.guards.turn(limits)
    record(recovery, scope, ruling)
    if ruling.effect is Effect.STOP_RUN:
        raise end_run(recovery, scope, RunStop(TURNS, None, RUN_TELLINGS[TURNS].message))
    return scope.guards.turns


def count_failure(recovery: Engine, scope: RunContext, tool: str, category: Category | None) -> Ruling:
    """A call failed, its retries included. `tool` is empty where there is no such tool. May set the run's end."""
    with recovery.lock:
        ruling = scope.guards.tool_failed(tool, limits_of(recovery))
    record(recovery, scope, ruling)
    if ruling.effect is Effect.STOP_RUN:
        end_run(recovery, scope, RunStop(ERRORS, category, RUN_TELLINGS[ERRORS].message, tool))
    return ruling


def count_success(recovery: Engine, scope: RunContext, tool: str) -> None:
    """A call succeeded."""
    with recovery.lock:
        scope.guards.tool_succeeded(tool)


def count_call(recovery: Engine, scope: RunContext, tool: str, mark: Mark | None) -> Ruling:
    """A tool was called and has its result; `mark` tells the call from others. May set the run's end."""
    with recovery.lock:
        ruling = scope.guards.call_made(tool, mark, limits_of(recovery))
    record(recovery, scope, ruling)
    if ruling.effect is Effect.STOP_RUN:
        end_for_repeats(recovery, scope, tool)
    return ruling


def end_for_repeats(recovery: Engine, scope: RunContext, tool: str) -> StopRun:
    """Mark the run as ended because of repeated calls, and return what is to be raised."""
    return end_run(recovery, scope, RunStop(REPEATED_CALLS, None, RUN_TELLINGS[REPEATED_CALLS].message, tool))


def count_compaction(recovery: Engine, scope: RunContext, *, has_worked: bool) -> bool:
    """Compacting the context worked, or did not; returns whether it may be tried again in this run."""
    with recovery.lock:
        if has_worked:
            scope.guards.compaction_succeeded()
            return scope.guards.may_compact
        ruling = scope.guards.compaction_failed(limits_of(recovery))
    record(recovery, scope, ruling)
    return scope.guards.may_compact


def record(recovery: Engine, scope: RunContext, ruling: Ruling) -> None:
    """Send the events of a ruling on their way."""
    for event in ruling.events:
        recovery.emit(event, scope)


def end_run(recovery: Engine, scope: RunContext | None, stop: RunStop, *, is_recorded: bool = False) -> StopRun:
    """Mark the run as ended, once, and return what is to be raised. `is_recorded`: the ladder has said so already."""
    if scope is not None and scope.guards.stop is None:
        scope.guards.stop = stop
        if not is_recorded:
            event = RunStoppedEvent(
                operation=stop.operation, reason=stop.reason, category=stop.category, message=stop.user_message
            )
            recovery.emit(event, scope)
    return stopped_by(stop)


def stopped_by(stop: RunStop) -> StopRun:
    """The error for a run that must end."""
    return StopRun(stop.category, stop.user_message, operation=stop.operation, reason=stop.reason)
