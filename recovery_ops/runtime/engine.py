"""The engine of a client: its parts under one lock, for guards, runs and the background thread alike."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.desired_state import Desired, Pause, Shed
from recovery_ops.rules.events import BreakerRejected, BreakerStateChanged, Event, Instance
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.runtime.aio.waker import Waker
from recovery_ops.runtime.calls.metrics import CallCounters, Rejections
from recovery_ops.runtime.calls.operation import Plan
from recovery_ops.runtime.calls.operations import Operations
from recovery_ops.runtime.failures.signals import classify_with
from recovery_ops.runtime.limits import Limits
from recovery_ops.runtime.masking import ActiveMasking
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.identity import Identity
from recovery_ops.runtime.runs.context import RunContext, current_scope

if TYPE_CHECKING:
    from recovery_ops.runtime.spending.accounts import SpendAccounts

_FORK_PATIENCE_S = 2.0
OWN_STOP_ID = "own-stop"
"""The id of the stop that the process imposes on itself."""
OnPause = Literal["reject", "wait"]


class Sink(Protocol):
    """The receiver of events."""

    def emit(
        self, event: Event, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        """Take an event; never block, never raise."""


class Engine:
    """Desired state, operations, runs in flight and the way of events out, with the lock that guards them."""

    def __init__(
        self,
        identity: Identity,
        *,
        desired: Desired,
        limits: Limits,
        on_pause: OnPause,
        clock: Clock,
        chance: Callable[[], float],
        waker: Waker,
        reraise: bool | None,
        default_source: str,
        control_flow: tuple[type[BaseException], ...],
    ) -> None:
        self.identity, self.desired, self.limits, self.on_pause = identity, desired, limits, on_pause
        self._own_stop: Pause | None = None
        self.clock, self.waker, self.chance = clock, waker, chance
        self.reraise, self.control_flow, self.default_source = reraise, control_flow, default_source
        self.lock, self._halt = threading.RLock(), forks.Halt(_FORK_PATIENCE_S)
        self.is_off = os.environ.get("RECOVERY_OPS_OFF", "").strip() in ("1", "true", "yes")
        self.is_closed, self._first_identity = False, identity
        self._hides = ActiveMasking(desired.policy.masking)
        self._sink: Sink | None = None
        self.operations = Operations(
            identity, desired, limits, lock=self.lock, clock=clock, chance=chance, emit=self.emit
        )
        self.runs_in_flight: dict[str, list[RunContext]] = {}  # by their ids; changed under the lock
        self.runs_of_parent: dict[str, list[RunContext]] = {}  # those in which this process was forked
        self.spend_accounts: SpendAccounts | None = None  # by `call_spending.accounts_of`
        self.rejections = Rejections()
        self.moved_at: dict[str, float] = {}  # breakers, by their last change; UTC seconds

    @property
    def instance(self) -> Instance:
        """This process on the wire."""
        return self.identity.instance

    def apply(self, desired: Desired) -> Sequence[str]:
        """Obey a desired state from now on; breaker states, windows and cooldowns stay.

        Returns what local ceilings clamped, by name. Override times are wall-clock seconds of this machine.
        """
        with self.lock:
            self.desired = self._with_own_stop(desired)
            self._hides.masking = desired.policy.masking
            clamped = [*self.operations.apply(self.desired)]
            for wanted in desired.aborts:
                for scope in (*self.runs_in_flight.get(wanted.run, ()), *self.runs_of_parent.get(wanted.run, ())):
                    scope.abort(wanted)
            if (held := self.pause()) is not None and held.is_stop:
                for scopes in (*self.runs_in_flight.values(), *self.runs_of_parent.values()):
                    for scope in scopes:
                        scope.abort(held)
            if not self.limits.allow_pause:
                clamped.extend(f"{one.id}.pause" for one in desired.pauses if one.id != OWN_STOP_ID)
        self.waker.wake_all()
        return tuple(dict.fromkeys(clamped))

    def obey_own_stop(self, wanted: Pause | None) -> None:
        """Stop this process by its own word, until the end of `wanted`; None takes the stop back."""
        with self.lock:
            self._own_stop = wanted
            self.apply(self.desired)

    def _with_own_stop(self, desired: Desired) -> Desired:
        """The document with the stop of this process's own, and without pauses that its ceilings reject.

        A document that is applied again, as a test may, holds the stop of before.
        """
        theirs = [one for one in desired.pauses if one.id != OWN_STOP_ID] if self.limits.allow_pause else []
        own = [] if self._own_stop is None else [self._own_stop]
        pauses = (*theirs, *own)
        return desired if pauses == desired.pauses else replace(desired, pauses=pauses)

    def begin_run(self, scope: RunContext) -> Pause | None:
        """A run is under way; one that a person has had aborted is called off at once, also if it is begun again.

        While new work is paused what is part of no run under way is not begun: by whom, and why. While the agent is
        stopped no run is.
        """
        with self.lock:
            is_new = not scope.is_part_of_a_run and scope.run_id not in self.runs_in_flight
            held = self.pause()
            if held is not None and (is_new or held.is_stop):
                return held
            self.runs_in_flight.setdefault(scope.run_id, []).append(scope)
            wanted = self.desired.abort_of(scope.run_id)
            if wanted is not None:
                scope.abort(wanted)
        return None

    def pause(self) -> Pause | None:
        """The pause of new work, or the stop of the agent, that holds here; None without one."""
        if not self.desired.pauses or self.is_off:
            return None
        return self.desired.pause_of(self.clock.wall(), service=self.instance.service, instance=self.instance.instance)

    @property
    def takes_new_work(self) -> bool:
        """Whether a new run is accepted: False while new runs are paused.

        A worker checks it before it takes a job from a queue that would lose the job.
        """
        return self.pause() is None

    def end_run(self, scope: RunContext) -> bool:
        """Forget a run that has ended; False if it was not under way in this process."""
        with self.lock:
            self.runs_of_parent.pop(scope.run_id, None)
            found = self.runs_in_flight.pop(scope.run_id, [])
            others = [one for one in found if one is not scope]
            if others:
                self.runs_in_flight[scope.run_id] = others
            return len(others) < len(found)

    def emit(self, event: Event, scope: RunContext | None = None, *, source: str = "") -> None:
        """Send an event on its way; never blocks, never raises."""
        if isinstance(event, BreakerStateChanged):
            self.moved_at[event.breaker] = self.clock.wall()
        if self._sink is None:
            return
        if scope is not None:
            source = source or scope.source
        self._sink.emit(
            event,
            source,
            self.desired.policy.foreground_sources.__contains__(source),
            scope.run_id if scope else "",
            self.desired.policy.version,
        )

    def record(self, event: Event, *, source: str = "", scope: RunContext | None = None) -> None:
        """Count an event and send it on its way. Call with the lock held."""
        if event.operation in self.operations:
            self.cell_of(event.operation, source).note(event)
        if isinstance(event, BreakerRejected):
            self.rejections.add(event, self.clock.now())
            return
        self.emit(event, scope, source=source)

    def count_cancelled(self, cell: CallCounters, was_not_made: bool = False) -> None:
        """A call was cancelled or interrupted on the fast path, or was not made at all."""
        with self.lock:
            cell.calls += was_not_made
            cell.climbed()
            scope = current_scope()
            if scope is not None and not was_not_made:
                scope.spent.attempts += 1

    def cell_of(self, operation: str, source: str) -> CallCounters:
        """The counts of an operation and a source."""
        return self.operations[operation].cell(source)

    def failure_of(self, error: object, operation: str = "", *, is_model_output: bool = False) -> Failure:
        """The failure that an error stands for, by the rules and by the policy in force. Never raises.

        What a guard of kind `model` cannot parse was written by the model.
        """
        known = self.operations.get(operation)
        is_model_output = is_model_output or (known is not None and known.declaration.kind == "model")
        return classify_with(
            self.desired.policy.classification,
            error,
            now=self.clock.wall(),
            is_model_output=is_model_output,
            operation=operation,
            provider=(known.standing.provider if known else None) or "",
        )

    def deadline_at(self, plan: Plan, scope: RunContext | None, began: float) -> float:
        """When a call must be done: the guard's timeout or the step's, or the run's if that is sooner."""
        call_s = plan.operation.standing.policy.settings.call_deadline_s or 0.0
        step_s = self.desired.policy.guards.step_deadline_s(call_s) if plan.timeout_s is None else plan.timeout_s
        return min(began + step_s, scope.deadline_at) if scope is not None else began + step_s

    def load_shed(self) -> Shed | None:
        """The load shedding that an operator wants now; None without one."""
        return self.desired.shed_at(self.clock.wall())

    def sweep(self) -> None:
        """Apply the changes that time alone causes: expiries, gates, lost probes, overrides that begin."""
        with self.lock:
            self.operations.sweep()

    def breaker(self, name: str) -> Breaker | None:
        """The breaker of this name; look, do not touch: it belongs to the lock."""
        return self.operations.breaker(name)

    def use_sink(self, sink: Sink | None) -> None:
        """Send events to this sink from now on; None drops them. A `Telemetry` applies the masking of the policy."""
        hide_by = getattr(sink, "hide_by", None)
        if hide_by is not None:
            hide_by(self._hides, self)
        self._sink = sink

    def before_fork(self) -> None:
        """The child must not be born while a breaker is half way between two states."""
        self._halt.begin(self.lock)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._halt.end(self.lock)

    def after_fork_in_child(self) -> None:
        """The child is another instance: it knows what its parent knew, and goes its own way from here."""
        self.lock, self._halt = threading.RLock(), forks.Halt(_FORK_PATIENCE_S)
        self.waker.after_fork_in_child()
        # An abort of one of them reaches this process too; their parent alone ends and reports them.
        self.runs_of_parent |= self.runs_in_flight
        self.runs_in_flight, self.rejections = {}, Rejections()
        self.identity = self._first_identity.of_child(forks.process_mark())
        self.operations.after_fork_in_child(self.identity, self.lock)
