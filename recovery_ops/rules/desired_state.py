"""What people want agents to obey: overrides, resets and the policy, as one whole document with a revision."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from math import inf

from recovery_ops.rules.enums import Importance, State
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import BUILT_IN, Policy
from recovery_ops.rules.policy.scope import ANY, Place, Scope

APPROVED, REJECTED, EDITED = "approved", "rejected", "edited"
DECISIONS = (APPROVED, REJECTED, EDITED)
PAUSE, STOP = "pause", "stop"
"""Kinds of a pause: a stop also aborts the runs in flight, and rejects guarded calls outside of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What an operator imposes on the breakers in a scope. Times are seconds since the epoch by the server's clock."""

    id: str
    mode: State
    scope: Scope
    reason: str
    by: str
    starts_at: float
    expires_at: float
    revision: int
    ramp_s: float = 0.0
    """When a trip ends, each instance's first probe waits a random part of this."""

    def holds_at(self, now: float) -> bool:
        """Whether it is in force at this moment."""
        return self.starts_at <= now < self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Breakers in the scope close with a fresh window, once, when an instance first sees this revision."""

    scope: Scope
    revision: int
    ramp_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a person, or a deadline, decided about a question that an agent asked under this ticket."""

    ticket: str
    decision: str
    """`approved`, `rejected` or `edited`: approved, with `text` in place of what was proposed."""
    text: str = ""
    by: str = ""
    reason: str = ""
    service: str = ANY
    """Whose question it was."""
    revision: int = 0

    @property
    def is_approval(self) -> bool:
        return self.decision in (APPROVED, EDITED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """A run is to end: nothing in it is tried again, waited for or begun any more."""

    run: str
    by: str = ""
    reason: str = ""
    service: str = ANY
    """Whose run it is."""
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A run that has ended is to be begun again by one instance, from its checkpoint, once.

    `input` is what it is to be given instead of what it had; empty: nothing else.
    """

    id: str
    run: str
    service: str
    instance: str
    by: str = ""
    reason: str = ""
    input: str = ""
    revision: int = 0

    def is_for(self, *, service: str | None, instance: str | None) -> bool:
        """Whether it is for this instance; None: not said, so it could be."""
        return service in (None, self.service) and instance in (None, self.instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """No new work is to be begun in an instance of a service, or in all of them where `instance` is empty.

    `expires_at` as in Override; None: until somebody takes it back.
    """

    id: str
    service: str
    instance: str = ""
    by: str = ""
    reason: str = ""
    expires_at: float | None = None
    revision: int = 0
    kind: str = PAUSE
    """`pause`, or `stop`: runs in flight are aborted too, and guarded calls outside of runs are rejected."""

    @property
    def is_stop(self) -> bool:
        """Whether it stops the agent."""
        return self.kind == STOP

    @property
    def note(self) -> str:
        """Who wants it, and why."""
        return ": ".join(part for part in (self.by, self.reason) if part)

    def is_for(self, *, service: str | None, instance: str | None) -> bool:
        """Whether it is for this instance; None: not said, so it could be."""
        return service in (None, self.service) and (not self.instance or instance in (None, self.instance))

    def holds_at(self, now: float) -> bool:
        """Whether it is in force at this moment."""
        return self.expires_at is None or now < self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Open breakers in the scope let a probe through now, once, when an instance first sees this revision."""

    scope: Scope
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shed:
    """Load that is shed in a whole environment: work less important than `least` fails fast. Times as in Override."""

    id: str
    least: Importance
    reason: str
    by: str
    starts_at: float
    expires_at: float
    revision: int

    def holds_at(self, now: float) -> bool:
        """Whether it is in force at this moment."""
        return self.starts_at <= now < self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The whole desired state of one environment, or the part of it that one instance needs."""

    revision: int = 0
    config_hash: str = ""
    environment: str = ""
    issued_at: float = 0.0
    policy: Policy = field(default_factory=lambda: BUILT_IN)
    overrides: tuple[Override, ...] = ()
    resets: tuple[Reset, ...] = ()
    probes: tuple[Probe, ...] = ()
    answers: tuple[Answer, ...] = ()
    aborts: tuple[Abort, ...] = ()
    pauses: tuple[Pause, ...] = ()
    retries: tuple[Retry, ...] = ()
    shed: Shed | None = None
    """The load that is shed, or the next that is to be."""
    sheds_ahead: tuple[Shed, ...] = ()
    """What is to be shed after that."""

    def shed_at(self, now: float) -> Shed | None:
        """The load that is shed at a moment."""
        sheds = self.sheds_ahead if self.shed is None else (self.shed, *self.sheds_ahead)
        return next((one for one in sheds if one.holds_at(now)), None)

    def abort_of(self, run: str) -> Abort | None:
        """By whom, and why, a run is to end; None where nobody wants that."""
        return next((one for one in self.aborts if one.run == run), None)

    def pause_of(self, now: float, *, service: str, instance: str) -> Pause | None:
        """By whom, why and until when an instance is to begin no new work."""
        return winning_pause(self.pauses, now, service=service, instance=instance)


NOTHING_DESIRED = Desired()
"""What an agent obeys before it has ever heard from a server."""


def winning_pause(pauses: Iterable[Pause], now: float, *, service: str, instance: str) -> Pause | None:
    """The pause in force of an instance: a stop before others, and of several the one that holds longest."""
    held = [one for one in pauses if one.holds_at(now) and one.is_for(service=service, instance=instance)]
    return max(held, key=_length_of, default=None)


def _length_of(one: Pause) -> tuple[bool, float, int, str]:
    return (one.is_stop, inf if one.expires_at is None else one.expires_at, one.revision, one.id)


def winning_override(overrides: Iterable[Override], places: Collection[Place], now: float) -> Override | None:
    """The override of a breaker whose operations are at `places`: the most specific scope, then the newest revision."""
    in_force = [one for one in overrides if one.holds_at(now) and one.scope.holds_any(places)]
    return max(in_force, key=lambda one: (one.scope.rank, one.revision, one.id), default=None)
