"""Tries other limits of one breaker on what was recorded: the breaker of the rules, attempt by attempt as they were.

The ladder is not climbed again: each recorded attempt comes to the breaker when it was made, and is refused, or ends as
it did. What was refused then and would be made now has an outcome that nobody knows; it is counted, and made up by no
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from recovery_ops.control.replay.breaker_state import imposed, passing
from recovery_ops.control.replay.recorded_calls import Attempt, Moved, Recording, Refusals, Successes
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerStateChanged, Event
from recovery_ops.rules.policy.model import OperationPolicy
from recovery_ops.rules.resilience.circuit_breaker import Breaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A breaker opened in one instance. Seconds since the epoch; `until_s` is when it lets the next call through."""

    at_s: float
    until_s: float
    service: str
    instance: str
    trigger: str
    calls: int | None
    failures: int | None


@dataclass(slots=True)
class Tried:
    """What came of it, all instances together: calls that were made then and would be refused, by how they ended."""

    openings: list[Opening] = field(default_factory=list)
    refused_failures: int = 0
    refused_successes: int = 0
    not_known: int = 0
    """Calls that were refused then and would be made."""

    @property
    def instances(self) -> int:
        """On how many it opened."""
        return len({(one.service, one.instance) for one in self.openings})


def try_limits(recordings: Iterable[Recording], breaker: str, rules: OperationPolicy) -> Tried:
    """What `rules` make of what the instances recorded of one breaker."""
    found = Tried()
    for recording in recordings:
        _Instance(recording, Breaker(breaker, rules.settings), rules, found).run()
    found.openings.sort(key=lambda one: one.at_s)
    return found


class _Instance:
    def __init__(self, recording: Recording, breaker: Breaker, rules: OperationPolicy, found: Tried) -> None:
        self._recording, self._breaker, self._rules, self._found = recording, breaker, rules, found
        self._tickets: dict[int, int] = {}
        self._overrides = count(1)
        self._open: Opening | None = None

    def run(self) -> None:
        """Let everything happen in its time."""
        recording = self._recording
        items: list[tuple[float, int, Callable[[], None]]] = []
        for attempt in (one for call in recording.calls for one in call.attempts):
            items.append((attempt.at_s - attempt.duration_s, 2, partial(self._begin, attempt)))
            items.append((attempt.at_s, 3, partial(self._end, attempt)))
        items += [(one.at_s, 0, partial(self._impose, one)) for one in recording.moves]
        items += [(one.end_s, 1, partial(self._pass, one)) for one in recording.successes]
        items += [(one.at_s, 4, partial(self._refuse, one)) for one in recording.refusals]
        for _, _, act in sorted(items, key=lambda item: item[:2]):
            act()
        self._hear((), 0.0, is_over=True)

    def _begin(self, attempt: Attempt) -> None:
        at_s = attempt.at_s - attempt.duration_s
        admission = self._breaker.admit(at_s, deadline_s=self._rules.settings.call_deadline_s)
        self._hear(admission.events, at_s)
        if admission.is_allowed:
            self._tickets[id(attempt)] = admission.ticket
        else:
            self._found.refused_failures += 1

    def _end(self, attempt: Attempt) -> None:
        ticket = self._tickets.pop(id(attempt), None)
        if ticket is None:
            return
        category = attempt.failure.category
        if self._rules.failures.opens(category) and attempt.failure.concerns_service:
            told = self._breaker.fail(attempt.at_s, category, duration_s=attempt.duration_s, ticket=ticket)
            self._hear(told, attempt.at_s)
        else:
            self._breaker.ignore(ticket)

    def _pass(self, some: Successes) -> None:
        for one in passing(self._breaker, some):
            self._hear(one.facts, one.at_s)
            self._found.refused_successes += one.refused

    def _refuse(self, some: Refusals) -> None:
        is_refused_anyway = some.reason != "breaker"  # by a person, a gate, or because load is shed
        self._hear(self._breaker.sweep(some.at_s), some.at_s)
        is_blocked = self._breaker.computed is State.HALF_OPEN or self._breaker.refuses(some.at_s)
        if not is_refused_anyway and not is_blocked:
            self._found.not_known += some.count

    def _impose(self, move: Moved) -> None:
        self._hear(imposed(self._breaker, move, f"recorded {next(self._overrides)}"), move.at_s)

    def _hear(self, facts: Iterable[Event], at_s: float, *, is_over: bool = False) -> None:
        """Note when it opened, and until when: its cooldown, or what came sooner."""
        for fact in (one for one in facts if isinstance(one, BreakerStateChanged)):
            if self._open is not None:
                self._found.openings.append(replace(self._open, until_s=min(self._open.until_s, at_s)))
                self._open = None
            if fact.state is State.OPEN:
                speaker = self._recording.speaker
                self._open = Opening(
                    at_s=at_s,
                    until_s=at_s + (fact.wait_s or 0.0),
                    service=speaker.service,
                    instance=speaker.instance,
                    trigger=fact.trigger.value,
                    calls=fact.calls,
                    failures=fact.failures,
                )
        if is_over and self._open is not None:
            self._found.openings.append(self._open)
