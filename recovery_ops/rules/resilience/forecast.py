"""What the ladder would do with a failure that comes again at every attempt: retries, their waits, and what then.

The ladder itself is asked: it is driven with that failure for an answer, on a clock that only its own waits move. Only
what a failure and a policy tell. What code declares (fallbacks, whether a call may be left out) and what a person
answers is not known here, and is not guessed: every fallback and form that the policy lets through is asked in vain,
and breakers only count.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import inf

from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.enums import Adjustment, DelaySource, Rung, StopReason
from recovery_ops.rules.events import Escalated, Event, RetryScheduled
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import FAIL_CLOSED, OperationPolicy, Policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.admission import allowed_alternatives
from recovery_ops.rules.resilience.call_context import Alternative, CallContext, OperationState
from recovery_ops.rules.resilience.call_steps import call_steps
from recovery_ops.rules.resilience.circuit_breaker import Breaker
from recovery_ops.rules.resilience.steps import Call, Emit, Ending, Failed, Raised, Refused, Reply, Step, Stopped, Woke
from recovery_ops.rules.resilience.steps import Wait as Waiting

WAITS_MOST = 20
_NEVER_S = 1e12
"""Later than any deadline; still a number that waits may be added to."""
_WAITED_FOR = "foreground"
_LESS = "less"
_COUNTS_ONLY = replace(FAIL_CLOSED, consecutive_failures=0, failure_rate_threshold=0.0, slow_call_rate_threshold=0.0)
"""The settings of a breaker that never opens: how those of a fleet stand is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A retry, and how long is waited before it: between these, as jitter falls."""

    attempt: int
    least_s: float
    most_s: float
    source: DelaySource
    adjustment: Adjustment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What comes, while the failure stays the same.

    `reason` is why no retry follows the last: the word of `RetryDecision`, or of `StopReason` where none was decided
    on; empty where `waits` are only the first of more (`is_cut`). `rungs` are those after the retries, in their order:
    a fallback only where the policy allows one, none where the caller gave up. `queue` is asked.
    """

    waits: tuple[Wait, ...]
    reason: str
    is_cut: bool
    rungs: tuple[Rung, ...]
    queue: str

    @property
    def is_asked_first(self) -> bool:
        """Whether a person is asked before any fallback."""
        return Rung.ASK in self.rungs[:-2]


def foresee(
    failure: Failure,
    whole: Policy,
    place: Place,
    *,
    kind: str = "operation",
    is_foreground: bool,
    is_repeatable: bool = True,
) -> Foreseen:
    """The retries and rungs of a call of which every attempt fails so, at once. At most `WAITS_MOST` retries are told.

    What the attempts themselves take is not known: a deadline may come sooner.
    """
    policy = whole.for_operation(place, kind=kind)
    settings = policy.settings
    within_s = (
        settings.persistent_cap_s
        if settings.persistent
        else whole.guards.step_deadline_s(settings.call_deadline_s or 0.0)
    )
    source = _WAITED_FOR if is_foreground else ""
    policy = replace(policy, foreground_sources=(_WAITED_FOR,))
    shortest = _Drive(failure, WAITS_MOST)
    shortest.go(_call(place.operation, policy, source, within_s or 0.0, is_repeatable=is_repeatable))
    # The same retries at their longest: without the deadline, which these meet sooner.
    longest = _Drive(failure, len(shortest.waits))
    longest.go(_call(place.operation, policy, source, _NEVER_S, jitter=1.0, is_repeatable=is_repeatable))
    # A fallback that is ready takes the place of some retries; whether there is one is the code's to say.
    after = _Drive(failure, WAITS_MOST)
    again = _call(place.operation, policy, source, within_s or 0.0, is_repeatable=is_repeatable)
    after.go(replace(again, alternatives=_others(place.operation, policy)))
    return Foreseen(
        waits=tuple(
            Wait(
                attempt=told.attempt,
                least_s=round(least_s, 4),
                most_s=round(most_s, 4),
                source=told.delay_source,
                adjustment=told.adjustment,
            )
            for (told, least_s), (_, most_s) in zip(shortest.waits, longest.waits, strict=True)
        ),
        reason="" if shortest.is_cut else shortest.reason,
        is_cut=shortest.is_cut,
        rungs=tuple(after.rungs),
        queue=after.queue,
    )


def _call(
    name: str, policy: OperationPolicy, source: str, within_s: float, *, jitter: float = 0.0, is_repeatable: bool
) -> CallContext:
    """A call from an agent where all is well yet."""
    # Each wait in one piece: nobody is told meanwhile.
    settings = replace(policy.settings, persistent_cap_s=within_s, wait_chunk_s=_NEVER_S)
    return CallContext(
        standing=OperationState(name, replace(policy, settings=settings), Breaker(name, _COUNTS_ONLY)),
        source=source,
        started_at=0.0,
        deadline_at=inf if settings.persistent else within_s,
        chance=lambda: jitter,
        is_repeatable=is_repeatable,
        fixes=frozenset(Adjustment),
    )


def _others(name: str, policy: OperationPolicy) -> tuple[Alternative, ...]:
    """All that the policy can let through."""
    names = ("",) if policy.fallbacks is None else policy.fallbacks
    return (
        *(Alternative(standing=_other(one)) for one in names),
        Alternative(standing=_other(name), feature=_LESS),
    )


def _other(name: str) -> OperationState:
    return OperationState(name, OperationPolicy(), Breaker(name))


@dataclass(slots=True)
class _Drive:
    """A driver of the ladder to whom nothing but this failure ever happens; what it heard of the first `most` waits."""

    failure: Failure
    most: int
    waits: list[tuple[RetryScheduled, float]] = field(default_factory=list)
    rungs: list[Rung] = field(default_factory=list)
    reason: str = ""
    queue: str = ""
    is_cut: bool = False
    _now: float = 0.0
    _waited_s: float = 0.0
    _scheduled: RetryScheduled | None = None

    def go(self, call: CallContext) -> None:
        """Drive the call to its end."""
        climbing = call_steps(call)
        reply: Reply = None
        while True:
            try:
                step = climbing.send(reply)
            except StopIteration as end:
                self._end(end.value)
                return
            reply = self._reply(step, call)

    def _reply(self, step: Step, call: CallContext) -> Reply:
        if isinstance(step, Emit):
            self._hear(step.event)
            return None
        if isinstance(step, Waiting):
            self._now += step.delay_s
            self._waited_s += step.delay_s
            return Woke(self._now)
        if isinstance(step, Call):
            if step.level:
                self._climbed(Rung.DEGRADE if allowed_alternatives(call)[step.level - 1].feature else Rung.FALLBACK)
            else:
                self._called()
            return Raised(self._now, self.failure, 0.0)
        raise AssertionError("nobody is there to be asked")

    def _called(self) -> None:
        """The operation itself is called: at first, or after a wait."""
        if self._scheduled is None:
            return
        if len(self.waits) == self.most:
            self.is_cut, self._now = True, 2 * _NEVER_S
        else:
            self.waits.append((self._scheduled, self._waited_s))
        self._waited_s = 0.0

    def _hear(self, event: Event) -> None:
        if isinstance(event, RetryScheduled):
            self._scheduled = event
        elif isinstance(event, Escalated):
            self.queue = event.queue
            self._climbed(Rung.ASK)

    def _climbed(self, rung: Rung) -> None:
        if rung not in self.rungs:
            self.rungs.append(rung)

    def _end(self, ending: Ending) -> None:
        if isinstance(ending, Failed):
            self.reason = ending.no_retry or ending.reason.value
        elif isinstance(ending, Stopped):
            self.reason = ending.no_retry
        elif isinstance(ending, Refused):
            self.reason = ending.refusal.value
        else:
            self.reason = StopReason.CANCELLED.value
            return
        self._climbed(Rung.FAIL)
