"""The runtime of one process: its operations, the desired state they obey, and the one lock they share."""

from __future__ import annotations

import atexit
import os
import random
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, Unpack

from recovery_ops.rules.breaker import Breaker, Imposed
from recovery_ops.rules.facts import BreakerRejected, Fact, Instance
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.importance import Shedding
from recovery_ops.rules.intent import NOTHING_DESIRED, Desired, Pause, Probe, Reset, Shed, winning_override
from recovery_ops.rules.model_chain import ModelChain
from recovery_ops.rules.policy import Knobs, OperationPolicy
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.scope import Place
from recovery_ops.rules.standing import Standing
from recovery_ops.rules.words import State
from recovery_ops.runtime import forks
from recovery_ops.runtime.clock import Clock
from recovery_ops.runtime.concurrency.waiting import Waker
from recovery_ops.runtime.counting import Cell, Rejections
from recovery_ops.runtime.guard import Guarded, Guards, P, R, Said
from recovery_ops.runtime.hiding import Hides
from recovery_ops.runtime.housekeeping import Housekeeper
from recovery_ops.runtime.identity import Identity
from recovery_ops.runtime.limits import NO_LIMITS, Limits
from recovery_ops.runtime.operation import Operation
from recovery_ops.runtime.pausing import OnPause, wait_for_work, wait_for_work_async
from recovery_ops.runtime.retrying import OnRetry
from recovery_ops.runtime.run import CURRENT, Run, Scope
from recovery_ops.runtime.signals import classify_with

if TYPE_CHECKING:
    from pathlib import Path

EXPIRY_SLACK_S = 5.0
_FORK_PATIENCE_S = 2.0


class Sink(Protocol):
    """Where facts go."""

    def emit(
        self, fact: Fact, source: str = "", is_foreground: bool = False, run: str = "", policy_version: str = ""
    ) -> None:
        """Take a fact; never block, never raise."""


@dataclass(slots=True)
class _Shared:
    """A breaker and the operations behind it."""

    breaker: Breaker
    operations: list[Operation]
    reset_revision: int
    probe_revision: int


class Recovery(Guards):
    """What an agent makes once: `recovery = Recovery("research-agent")`, then `@recovery.guard("search_web")`.

    Server and key come from the arguments or from `RECOVERY_OPS_URL` and `RECOVERY_OPS_KEY` (`OTEL_*` as fallback);
    without a server everything works by the built-in policy. Thread-safe, task-safe, fork-safe. A server that is
    slow, gone or lying changes nothing but the freshness of the desired state. `RECOVERY_OPS_OFF=1` takes the runtime
    out of the way: guards call straight through.

    `limits` are ceilings that no desired state can widen. `on_pause`: what becomes of a run that would be begun while
    an operator has paused new work here, `refuse` (NewWorkPaused) or `wait`. Whoever takes work from a queue asks
    `takes_new_work` or `wait_for_work` first. `on_retry` begins a run again, from its checkpoint, when an
    operator wants that: called in a thread of its own, once for each wish, a second after the start at the soonest
    and not before the console was heard.
    """

    def __init__(
        self,
        service: str | None = None,
        *,
        instance: str | None = None,
        url: str | None = None,
        key: str | None = None,
        environment: str | None = None,
        version: str | None = None,
        group: str | None = None,
        directory: Path | str | None = None,
        limits: Limits = NO_LIMITS,
        on_pause: OnPause = "refuse",
        on_retry: OnRetry | None = None,
        desired: Desired = NOTHING_DESIRED,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        waker: Waker | None = None,
        sink: Sink | None = None,
        is_background_work_wanted: bool = True,
    ) -> None:
        self.identity = Identity.found(
            service=service,
            instance=instance,
            url=url,
            key=key,
            environment=environment,
            version=version,
            group=group,
            directory=directory,
        )
        self.clock, self.waker, self.chance = clock or Clock(), waker or Waker(), chance
        self.limits, self.on_pause, self.on_retry = limits, on_pause, on_retry
        self.lock = threading.RLock()
        self.is_off = os.environ.get("RECOVERY_OPS_OFF", "").strip() in ("1", "true", "yes")
        self.desired = desired
        self._hides = Hides(desired.policy.masking)
        self.operations: dict[str, Operation] = {}
        self.runs_in_flight: dict[str, list[Scope]] = {}  # by their ids; changed under the lock
        self.rejections = Rejections()
        self._shared: dict[str, _Shared] = {}
        self._clamped: dict[str, None] = {}
        self._housekeeper = Housekeeper(self)
        self.use_sink(sink)
        self.is_closed = self._is_held_for_fork = False
        forks.follow(self)
        if is_background_work_wanted:
            if not self.is_off:
                self._housekeeper.connect(own_sink=sink is None)
            _OPEN.append(self)

    @property
    def instance(self) -> Instance:
        """Who this process is on the wire."""
        return self.identity.instance

    def run(self, name: str = "", *, source: str = "", run_id: str = "", deadline_s: float | None = None) -> Run:
        """One task of the agent, as a context manager (sync or async); see `Run`."""
        return Run(self, name, source=source, run_id=run_id, deadline_s=deadline_s)

    def operation(
        self,
        name: str,
        *,
        kind: str = "operation",
        breaker: str = "",
        code: Knobs | None = None,
        provider: str | None = None,
        region: str | None = None,
        chain: ModelChain | None = None,
    ) -> Operation:
        """The operation of this name, made at first use. One that already exists keeps what was said first."""
        with self.lock:
            found = self.operations.get(name)
            if found is not None:
                return found
            identity = self.identity
            place = Place(
                service=identity.instance.service,
                instance=identity.instance.instance,
                operation=name,
                breaker=breaker or name,
                group=identity.group,
            )
            shared = self._shared.get(place.breaker)
            if shared is None:
                # A breaker that is made later starts fresh, so resets of the past do not concern it.
                past: list[Reset | Probe] = [*self.desired.resets, *self.desired.probes]
                newest = max((one.revision for one in past), default=0)
                shared = self._shared[place.breaker] = _Shared(Breaker(place.breaker), [], newest, newest)
            policy = OperationPolicy()
            standing = Standing(name, policy, shared.breaker, provider=provider, region=region, chain=chain)
            made = Operation(standing, place, self.lock, kind=kind, code=code or Knobs())
            self.operations[name] = made
            shared.operations.append(made)
            self._obey(made)
            self._impose(shared)
            return made

    def apply(self, desired: Desired) -> Sequence[str]:
        """Obey a desired state from now on; breaker states, windows and cooldowns stay.

        Returns what local ceilings clamped, by name. Override times are wall-clock seconds of this machine.
        """
        with self.lock:
            self._clamped.clear()
            self.desired = desired
            self._hides.masking = desired.policy.masking
            for operation in self.operations.values():
                self._obey(operation)
            for shared in self._shared.values():
                self._reset(shared)
                self._impose(shared)
                self._probe(shared)
            for wanted in desired.aborts:
                for scope in self.runs_in_flight.get(wanted.run, ()):
                    scope.abort(wanted)
            if not self.limits.may_be_paused:
                self._clamped.update(dict.fromkeys(f"{one.id}.pause" for one in desired.pauses))
            clamped = tuple(self._clamped)
        self.waker.wake_all()
        return clamped

    def begin_run(self, scope: Scope) -> Pause | None:
        """A run is under way; one that a person has had aborted is called off at once, also if it is begun again.

        While new work is paused what is part of no run under way is not begun: by whom, and why.
        """
        with self.lock:
            is_new = not scope.is_part_of_a_run and scope.run_id not in self.runs_in_flight
            held = self.pause() if is_new else None
            if held is not None:
                return held
            self.runs_in_flight.setdefault(scope.run_id, []).append(scope)
            wanted = self.desired.abort_of(scope.run_id)
            if wanted is not None:
                scope.abort(wanted)
        return None

    def pause(self) -> Pause | None:
        """Who has paused new work here, why and until when; None where it is taken."""
        if not self.desired.pauses or self.is_off or not self.limits.may_be_paused:
            return None
        return self.desired.pause_of(self.clock.wall(), service=self.instance.service, instance=self.instance.instance)

    @property
    def takes_new_work(self) -> bool:
        """Whether a run that is begun now is taken: ask before taking a job from a queue that would lose it."""
        return self.pause() is None

    def wait_for_work(self, timeout_s: float | None = None) -> bool:
        """Block this thread while new work is paused, at most so long; whether it is taken now."""
        return wait_for_work(self, timeout_s)

    async def wait_for_work_async(self, timeout_s: float | None = None) -> bool:
        """The same in a task; a cancel of the task passes through."""
        return await wait_for_work_async(self, timeout_s)

    def end_run(self, scope: Scope) -> None:
        """It is no more."""
        with self.lock:
            others = [one for one in self.runs_in_flight.pop(scope.run_id, ()) if one is not scope]
            if others:
                self.runs_in_flight[scope.run_id] = others

    def sweep(self) -> None:
        """What time alone changes: expiries, gates, probes that never came back, overrides that begin."""
        with self.lock:
            now, shedding = self.clock.now(), self._shedding()
            for shared in self._shared.values():
                self._impose(shared)
                self.record_all(shared.breaker.sweep(now))
                for operation in shared.operations:
                    operation.standing.shedding = shedding
                    self.record_all(operation.standing.gate.sweep(now))
                    operation.refresh()
                    for cell in operation.cells.values():
                        cell.sort_durations()

    def refresh(self, operation: Operation) -> None:
        """Everything that shares the operation's breaker learns whether it is calm. Call with the lock held."""
        for other in self._shared[operation.place.breaker].operations:
            other.refresh()

    def emit(self, fact: Fact, scope: Scope | None = None, *, source: str = "") -> None:
        """Send a fact on its way; never blocks, never raises."""
        if self._sink is None:
            return
        if scope is not None:
            source = source or scope.source
        self._sink.emit(
            fact,
            source,
            self.desired.policy.foreground_sources.__contains__(source),
            scope.run_id if scope else "",
            self.desired.policy.version,
        )

    def record(self, fact: Fact, *, source: str = "", scope: Scope | None = None) -> None:
        """Count a fact and send it on its way. Call with the lock held."""
        if fact.operation in self.operations:
            self.cell_of(fact.operation, source).note(fact)
        if isinstance(fact, BreakerRejected):
            self.rejections.add(fact, self.clock.now())
            return
        self.emit(fact, scope, source=source)

    def record_all(self, found: Sequence[Fact]) -> None:
        """Facts that no call caused. Call with the lock held."""
        for fact in found:
            self.emit(fact)

    def count_cancelled(self, cell: Cell) -> None:
        """A call on the quick path was cancelled or interrupted."""
        with self.lock:
            cell.climbed()

    def cell_of(self, operation: str, source: str) -> Cell:
        """The counts of an operation and a source."""
        return self.operations[operation].cell(source)

    def failure_of(self, error: object, operation: str = "", *, is_model_output: bool = False) -> Failure:
        """What an error is, by the rules and by what the policy in force says of it. Never raises."""
        known = self.operations.get(operation)
        return classify_with(
            self.desired.policy.classification,
            error,
            now=self.clock.wall(),
            is_model_output=is_model_output,
            operation=operation,
            provider=(known.standing.provider if known else None) or "",
        )

    def deadline_at(self, operation: Operation, scope: Scope | None, began: float) -> float:
        """When a call that began then must be done: the step's deadline, or the run's if that is sooner."""
        call_s = operation.standing.policy.knobs.call_deadline_s or 0.0
        own = began + self.desired.policy.guards.step_deadline_s(call_s)
        return min(own, scope.deadline_at) if scope is not None else own

    def note_on(self, breaker: str, place: Place) -> str:
        """The reason of whoever tripped it."""
        held = winning_override(self.desired.overrides, place, self.clock.wall())
        return f"{held.by}: {held.reason}" if held is not None and held.mode is State.FORCED_OPEN else ""

    def load_shed(self) -> Shed | None:
        """Who sheds load now, and until when; None where nobody does, or the policy."""
        return self.desired.shed_at(self.clock.wall())

    def breaker(self, name: str) -> Breaker | None:
        """The breaker of this name; look, do not touch: it belongs to the lock."""
        shared = self._shared.get(name)
        return shared.breaker if shared else None

    def breakers_not_flowing(self) -> int:
        """How many breakers refuse calls now."""
        with self.lock:
            return sum(one.breaker.state in (State.OPEN, State.FORCED_OPEN) for one in self._shared.values())

    def housekeep(self) -> None:
        """One round of what else runs in the background: sweeps, counts, heartbeats. For tests and embedders."""
        self._housekeeper.round()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Everything emitted so far is on disk and, where a server answers, sent."""
        return self._housekeeper.flush(timeout_s)

    @property
    def undelivered(self) -> int:
        """How many facts no server has taken yet."""
        return self._housekeeper.undelivered

    def close(self, timeout_s: float = 2.0) -> None:
        """Say goodbye, send what is left, stop the threads. Guards go on working without a server."""
        if self.is_closed:
            return
        self.is_closed = True
        self.waker.wake_all()
        self._housekeeper.close(timeout_s)
        if self in _OPEN:
            _OPEN.remove(self)

    def use_sink(self, sink: Sink | None) -> None:
        """Where facts go from now on; None is nowhere. A `Telemetry` hides what the policy says, whoever made it."""
        hide_by = getattr(sink, "hide_by", None)
        if hide_by is not None:
            hide_by(self._hides, self)
        self._sink = sink

    def before_fork(self) -> None:
        """The child must not be born while a breaker is half way between two states."""
        self._is_held_for_fork = self.lock.acquire(timeout=_FORK_PATIENCE_S)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._is_held_for_fork:
            self.lock.release()

    def after_fork_in_child(self) -> None:
        """The child is another instance: it knows what its parent knew, and goes its own way from here."""
        self.lock = threading.RLock()
        self.waker = Waker() if type(self.waker) is Waker else self.waker
        self.runs_in_flight = {}
        self.identity = self.identity.of_child(forks.process_mark())
        for operation in self.operations.values():
            operation.become(self.identity.instance.instance, self.lock)
        self._housekeeper.after_fork()

    def _obey(self, operation: Operation) -> None:
        policy = self.desired.policy.for_operation(operation.place, kind=operation.kind, code=operation.code)
        policy, clamped = self.limits.applied_to(policy, operation.name)
        self._clamped.update(dict.fromkeys(clamped))
        operation.standing.policy = policy
        operation.standing.shedding = self._shedding()
        operation.standing.breaker.configure(policy.knobs)
        if operation.standing.chain is not None:
            operation.standing.chain.configure(policy.knobs)
        operation.refresh()

    def _shedding(self) -> Shedding | None:
        """Load that is to be shed now, until when by this process's clock."""
        wanted = self.load_shed()
        if wanted is None:
            return None
        lasts_s, clamped = self.limits.shed_allowed(wanted, self.clock.wall())
        self._clamped.update(dict.fromkeys(clamped))
        return Shedding(wanted.least, self.clock.now() + lasts_s) if lasts_s > 0 else None

    def _impose(self, shared: _Shared) -> None:
        wall, now = self.clock.wall(), self.clock.now()
        held = shared.breaker.override
        wanted = winning_override(self.desired.overrides, shared.operations[0].place, wall)
        lasts_s = 0.0
        if wanted is not None:
            lasts_s, clamped = self.limits.override_allowed(wanted, wall)
            self._clamped.update(dict.fromkeys(clamped))
        if wanted is not None and lasts_s > 0:
            imposed = Imposed(
                id=wanted.id, mode=wanted.mode, ends_at=now + lasts_s, revision=wanted.revision, ramp_s=wanted.ramp_s
            )
            self.record_all(shared.breaker.impose(imposed, now, chance=self.chance()))
        elif held is not None:
            is_listed = any(one.id == held.id for one in self.desired.overrides)
            # The server drops an override when it ends; whoever hears of that first, it ended by its time.
            has_expired = is_listed or held.ends_at - now <= EXPIRY_SLACK_S
            self.record_all(
                shared.breaker.expire(now) if has_expired else shared.breaker.impose(None, now, chance=self.chance())
            )
        for operation in shared.operations:
            operation.refresh()

    def _reset(self, shared: _Shared) -> None:
        """Each reset is obeyed once, also after a reconnect or a missed message: it is state, a number that rises."""
        place = shared.operations[0].place
        due = [one for one in self.desired.resets if one.revision > shared.reset_revision and one.scope.holds(place)]
        if not due:
            return
        newest = max(due, key=lambda one: one.revision)
        shared.reset_revision = newest.revision
        now = self.clock.now()
        for operation in shared.operations:
            operation.standing.gate.opens_at = None
        self.record_all(shared.breaker.reset(now, delay_s=self.chance() * newest.ramp_s))
        for operation in shared.operations:
            operation.refresh()

    def _probe(self, shared: _Shared) -> None:
        """Like a reset, each probe is obeyed once."""
        place = shared.operations[0].place
        due = [
            one.revision
            for one in self.desired.probes
            if one.revision > shared.probe_revision and one.scope.holds(place)
        ]
        if due:
            shared.probe_revision = max(due)
            self.record_all(shared.breaker.probe(self.clock.now()))


_OPEN: list[Recovery] = []


def _close_all() -> None:
    for recovery in tuple(_OPEN):  # each takes itself out of the list
        recovery.close()


atexit.register(_close_all)


_default: Recovery | None = None
_default_lock = threading.Lock()


def default() -> Recovery:
    """The process's own `Recovery`: the first that it made and has not closed, else one made from the environment."""
    global _default  # noqa: PLW0603  # one per process is what the module-level `guard` and `run` promise
    with _default_lock:
        if _default is None and _OPEN:
            return _OPEN[0]
        if _default is None:
            _default = Recovery()
        return _default


def in_force() -> Recovery:
    """The `Recovery` of the run that we are in, else the process's own."""
    scope = CURRENT.get()
    return default() if scope is None or scope.recovery is None else scope.recovery


def guard(name: str | None = None, **said: Unpack[Said]) -> Callable[[Callable[P, R]], Guarded[P, R]]:
    """`Recovery.guard` of the process's own runtime."""
    return default().guard(name, **said)


def run(name: str = "", *, source: str = "", run_id: str = "", deadline_s: float | None = None) -> Run:
    """`Recovery.run` of the process's own runtime."""
    return default().run(name, source=source, run_id=run_id, deadline_s=deadline_s)
