"""Operations of a client with their breakers: made at first use, declared by their guards, led by the desired state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf

from recovery_ops.rules.desired_state import Desired, Override, winning_override
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import Event
from recovery_ops.rules.policy.load_shedding import Shedding
from recovery_ops.rules.policy.model import OperationPolicy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.breaker_settings import Member, contradictions
from recovery_ops.rules.resilience.call_context import OperationState
from recovery_ops.rules.resilience.circuit_breaker import Breaker, Imposed
from recovery_ops.rules.resilience.credentials import Credential
from recovery_ops.runtime.calls.operation import Declaration, Operation
from recovery_ops.runtime.calls.shared_breaker import SharedBreaker
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.limits import Limits
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.process.identity import Identity

EXPIRY_SLACK_S = 5.0


class Operations(dict[str, Operation]):
    """The operations of one client by name. `emit` receives the events that no call causes.

    The client's lock guards every change; `named`, `declare` and `credentials` acquire it, the other methods expect it
    held.
    """

    def __init__(
        self,
        identity: Identity,
        desired: Desired,
        limits: Limits,
        *,
        lock: AbstractContextManager[object],
        clock: Clock,
        chance: Callable[[], float],
        emit: Callable[[Event], None],
    ) -> None:
        super().__init__()
        self._identity, self._desired, self._limits = identity, desired, limits
        self._lock, self._clock, self._chance, self._emit = lock, clock, chance, emit
        self._shared: dict[str, SharedBreaker] = {}
        self._credentials: dict[str, Credential] = {}
        """By label: a key is spent or rejected for every operation that uses it."""
        self._clamped: dict[str, None] = {}

    def named(self, name: str) -> Operation:
        """The operation of this name; one that no guard has declared is made, and retries nothing."""
        with self._lock:
            found = self.get(name)
            return found if found is not None else self._made(name, Declaration(breaker=name))

    def declare(self, name: str, declaration: Declaration) -> Operation:
        """The operation as a guard declares it. ConfigurationError where another guard has declared it otherwise."""
        with self._lock:
            found = self.get(name)
            if found is None:
                self._check_shared(name, declaration)
                return self._made(name, declaration)
            if found.declaration.kind == "undeclared":
                self._check_shared(name, declaration)
                self._declared_later(found, declaration)
            elif differences := found.declaration.differences(declaration):
                raise ConfigurationError(
                    f"{name} has another guard: {'; '.join(differences)}; declare both alike, or name one otherwise"
                )
            return found

    def credentials(self, operation: Operation, labels: Iterable[str]) -> tuple[Credential, ...]:
        """The keys that a guard of an operation names. A label is one key of the process, whichever guard names it."""
        with self._lock:
            found = tuple(self._credentials.setdefault(label, Credential(label)) for label in labels)
            operation.standing.credentials.update((one.label, one) for one in found)
            return found

    def apply(self, desired: Desired) -> dict[str, None]:
        """Obey a desired state from now on; breaker states, windows and cooldowns stay. Returns the clamped names."""
        self._desired, self._clamped = desired, {}
        for shared in self._shared.values():
            shared.set_thresholds(desired.policy)
        for operation in self.values():
            self._obey(operation)
        for shared in self._shared.values():
            self._reset(shared)
            self._impose(shared)
            if shared.is_probe_due(desired.probes):  # like a reset, each probe is obeyed once
                self._emit_all(shared.breaker.probe(self._clock.now()))
        return self._clamped

    def sweep(self) -> None:
        """Apply the changes that time alone causes: expiries, gates, lost probes, overrides that begin."""
        now, shedding, stopped_until = self._clock.now(), self._shedding(), self._stopped_until()
        for shared in self._shared.values():
            self._impose(shared)
            self._emit_all(shared.breaker.sweep(now))
            for operation in shared.operations:
                operation.standing.shedding, operation.standing.stopped_until = shedding, stopped_until
                self._emit_all(operation.standing.sweep_gates(now))
                operation.refresh()
                for cell in operation.cells.values():
                    cell.sort_durations()

    def refresh(self, operation: Operation) -> None:
        """Let every operation of the same breaker learn whether it is calm."""
        for other in self._shared[operation.place.breaker].operations:
            other.refresh()

    def breaker(self, name: str) -> Breaker | None:
        """The breaker of this name, for reading."""
        shared = self._shared.get(name)
        return shared.breaker if shared else None

    def open_breakers(self) -> int:
        """Number of breakers that reject calls now."""
        return sum(one.breaker.state in (State.OPEN, State.FORCED_OPEN) for one in self._shared.values())

    def wanted_override(self, breaker: str) -> Override | None:
        """The override that an operator wants now of a breaker, through any of its operations."""
        return winning_override(self._desired.overrides, self._shared[breaker].places, self._clock.wall())

    def note_on(self, breaker: str) -> str:
        """Author and reason of the override that keeps a breaker open; empty without one."""
        held = self.wanted_override(breaker)
        return f"{held.by}: {held.reason}" if held is not None and held.mode is State.FORCED_OPEN else ""

    def after_fork_in_child(self, identity: Identity, lock: AbstractContextManager[object]) -> None:
        """The same operations in another instance, under the child's lock."""
        self._identity, self._lock = identity, lock
        for shared in self._shared.values():
            for operation in shared.operations:
                operation.become(identity.instance.instance, lock)
            shared.breaker.forget_probes()

    def _check_shared(self, name: str, declaration: Declaration) -> None:
        """Refuse thresholds that contradict those of another operation of the same breaker."""
        shared = self._shared.get(declaration.breaker)
        others = [one.member for one in shared.operations if one.name != name] if shared is not None else []
        own = Member(place=self._place(name, declaration), kind=declaration.kind, code=declaration.code)
        if found := contradictions([*others, own]):
            raise ConfigurationError(
                f"breaker {declaration.breaker} is shared, and {'; '.join(found)}; name it once, or alike"
            )

    def policy_of(self, operation: Operation) -> OperationPolicy:
        """What the desired state says of an operation, before this process's own limits."""
        return operation.member.policy(self._desired.policy, self._shared[operation.place.breaker].thresholds)

    def _place(self, name: str, declaration: Declaration) -> Place:
        identity = self._identity
        return Place(
            service=identity.instance.service,
            instance=identity.instance.instance,
            operation=name,
            breaker=declaration.breaker,
            group=identity.group,
        )

    def _made(self, name: str, declaration: Declaration) -> Operation:
        place = self._place(name, declaration)
        shared = self._shared_of(place.breaker)
        standing = OperationState(
            name,
            OperationPolicy(),
            shared.breaker,
            provider=declaration.provider,
            region=declaration.region,
            chain=declaration.chain,
            breaker_of=self._breaker_of,
            is_model=declaration.kind == "model",
        )
        made = self[name] = Operation(standing, place, self._lock, declaration)
        shared.join(made, self._desired)
        self._obey_joined(made)
        self._impose(shared)
        self._emit_all(shared.breaker.sweep(self._clock.now()))
        self._join_models(made)
        return made

    def _join_models(self, operation: Operation) -> None:
        """The breaker of each model obeys what an operator wants of it, or of the operation."""
        for model in operation.standing.models.values():
            shared = self._shared_of(model.breaker.name)
            place = replace(operation.place, breaker=model.breaker.name)
            shared.join(Operation(model, place, self._lock, operation.declaration), self._desired)
            self._impose(shared)

    def _declared_later(self, operation: Operation, declaration: Declaration) -> None:
        """A guard declares an operation that was known as a fallback only."""
        if declaration.breaker != operation.place.breaker:
            self._shared[operation.place.breaker].operations.remove(operation)
            shared = self._shared_of(declaration.breaker)
            operation.move(shared.breaker)
            shared.join(operation, self._desired)
        operation.declaration, standing = declaration, operation.standing
        standing.provider, standing.region = declaration.provider, declaration.region
        standing.is_model = declaration.kind == "model"
        standing.follow(declaration.chain, self._breaker_of)
        self._join_models(operation)
        self._obey_joined(operation)
        self._impose(self._shared[operation.place.breaker])

    def _breaker_of(self, name: str) -> Breaker:
        return self._shared_of(name).breaker

    def _shared_of(self, breaker: str) -> SharedBreaker:
        shared = self._shared.get(breaker)
        if shared is None:
            shared = self._shared[breaker] = SharedBreaker(Breaker(breaker))
        return shared

    def _obey_joined(self, operation: Operation) -> None:
        """Obey for an operation that has joined a breaker, and for the others where it changes their thresholds."""
        shared = self._shared[operation.place.breaker]
        before = shared.thresholds
        shared.set_thresholds(self._desired.policy)
        for one in shared.operations if shared.thresholds != before else [operation]:
            self._obey(one)

    def _obey(self, operation: Operation) -> None:
        policy, clamped = self._limits.applied_to(self.policy_of(operation), operation.name)
        self._clamped.update(dict.fromkeys(clamped))
        standing, shedding, stopped_until = operation.standing, self._shedding(), self._stopped_until()
        standing.obey(policy)
        for one in (standing, *standing.models.values()):
            one.shedding, one.stopped_until = shedding, stopped_until
        operation.refresh()

    def _stopped_until(self) -> float | None:
        """The end of an operator's stop of this process, by its own clock; None without one."""
        wall, me = self._clock.wall(), self._identity.instance
        held = self._desired.pause_of(wall, service=me.service, instance=me.instance)
        if held is None or not held.is_stop:
            return None
        return inf if held.expires_at is None else self._clock.now() + held.expires_at - wall

    def _shedding(self) -> Shedding | None:
        """Load that is to be shed now, until when by this process's clock."""
        wanted = self._desired.shed_at(self._clock.wall())
        if wanted is None:
            return None
        lasts_s, clamped = self._limits.shed_allowed(wanted, self._clock.wall())
        self._clamped.update(dict.fromkeys(clamped))
        return Shedding(wanted.least, self._clock.now() + lasts_s) if lasts_s > 0 else None

    def _impose(self, shared: SharedBreaker) -> None:
        wall, now = self._clock.wall(), self._clock.now()
        held = shared.breaker.override
        wanted = self.wanted_override(shared.breaker.name)
        lasts_s = 0.0
        if wanted is not None:
            lasts_s, clamped = self._limits.override_allowed(wanted, wall)
            self._clamped.update(dict.fromkeys(clamped))
        if wanted is not None and lasts_s > 0:
            imposed = Imposed(
                id=wanted.id, mode=wanted.mode, ends_at=now + lasts_s, revision=wanted.revision, ramp_s=wanted.ramp_s
            )
            self._emit_all(shared.breaker.impose(imposed, now, chance=self._chance()))
        elif held is not None:
            is_listed = any(one.id == held.id for one in self._desired.overrides)
            # The server drops an override when it ends: an agent that receives the new document first counts it ended.
            has_expired = is_listed or held.ends_at - now <= EXPIRY_SLACK_S
            self._emit_all(
                shared.breaker.expire(now) if has_expired else shared.breaker.impose(None, now, chance=self._chance())
            )
        for operation in shared.operations:
            operation.refresh()

    def _reset(self, shared: SharedBreaker) -> None:
        """Each reset is obeyed once, also after a reconnect or a missed message: it is state, a number that rises."""
        reset = shared.due_reset(self._desired.resets)
        if reset is None:
            return
        for operation in shared.operations:
            operation.standing.gate.opens_at = None
            self._emit_all(operation.standing.open_keys(self._clock.now()))
        self._emit_all(shared.breaker.reset(self._clock.now(), delay_s=self._chance() * reset.ramp_s))
        for operation in shared.operations:
            operation.refresh()

    def _emit_all(self, found: Sequence[Event]) -> None:
        for event in found:
            self._emit(event)
