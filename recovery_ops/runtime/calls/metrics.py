"""The denominators: how many calls each operation made for each source, counted without a lock where nothing fails."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping

from recovery_ops.rules import events
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import BreakerRejected, CallsCounted, Event
from recovery_ops.rules.resilience.sliding_window import Tally

LATENCY_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_KEPT = 4096
"""Durations that wait to be sorted into the histogram, which happens four times a second; beyond that the newest."""


class CallCounters:
    """The counts of one operation and one source.

    Any thread may take a step of `started` and `succeeded` (`next(cell.started)`) and call `took`: steps of a counter
    and an append are one step of C each. Everything else is for whoever holds the runtime's lock.
    """

    __slots__ = (
        "_climbed",
        "_durations",
        "_latency",
        "_started",
        "_told",
        "attempts",
        "calls",
        "counts",
        "failures",
        "is_left",
        "source",
        "started",
        "succeeded",
        "successes",
        "took",
        "waiting",
    )

    def __init__(self, source: str) -> None:
        self.source = source
        self.is_left = False
        """Whether a fork has left it behind: its calls are the parent's, another cell counts the child's."""
        self._started, self.successes = Tally(), Tally()
        self.started, self.succeeded = self._started.steps, self.successes.steps
        self._durations: deque[float] = deque(maxlen=_KEPT)
        self.took = self._durations.append
        """A successful attempt took so many seconds. To be asked where the operation has a deadline, there always."""
        self._latency = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self.calls = 0
        """Calls that did not take the fast path, or left it."""
        self.attempts = 0
        """Attempts beyond those of the fast path."""
        self._climbed = 0
        self.waiting = 0
        self.failures: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._told: dict[str, int] = {}

    @property
    def begun(self) -> Tally:
        """How many calls were begun."""
        return self._started

    def sort_durations(self) -> None:
        """Put what was noted on the fast path into the histogram."""
        durations = self._durations
        for _ in range(len(durations)):  # others may append meanwhile: those wait for the next time
            self._latency[bisect_left(LATENCY_BOUNDS_S, durations.popleft())] += 1

    def climbed(self) -> None:
        """A call that left the fast path has ended."""
        self._climbed += 1

    def watched(self, **counts: int) -> None:
        """What somebody else did or spent: `calls`, `attempts`, `successes`, `input_tokens`, `output_tokens`."""
        self.counts.update(counts)

    def note(self, event: Event) -> None:
        """Counts what an event says."""
        if isinstance(event, events.FailureClassified):
            self.failures[event.category.value] += 1
        elif isinstance(event, events.BreakerRejected):
            if event.reason != "not_enforced":
                self.counts["rejected"] += event.count
        elif (name := _COUNTED.get(type(event))) is not None:
            self.counts[name] += 1

    def totals(self) -> dict[str, int]:
        """Everything since the process began, by name; failures as `failure.<category>`."""
        self.sort_durations()
        started, quick = self._started.value(), self.successes.value()
        return {
            "calls": started + self.counts["calls"],
            "attempts": started - self.calls + self.attempts + self.counts["attempts"],
            "successes": quick + self.counts["successes"],
            **{name: self.counts[name] for name in _COUNTED.values()},
            **{name: self.counts[name] for name in ("rejected", "input_tokens", "output_tokens")},
            **{f"latency.{index}": count for index, count in enumerate(self._latency)},
            **{f"failure.{name}": count for name, count in self.failures.items()},
        }

    def counted(self, operation: str, breaker: str, interval_s: float, provider: str | None) -> CallsCounted | None:
        """What happened since this was last asked; None where nothing did."""
        started, quick = self._started.value(), self.successes.value()
        totals = self.totals()
        fresh = {name: total - self._told.get(name, 0) for name, total in totals.items()}
        in_flight = max(0, started - quick - self._climbed)
        if not any(fresh.values()) and not in_flight:
            return None
        self._told = totals
        latency = tuple(fresh[f"latency.{index}"] for index in range(len(self._latency)))
        return CallsCounted(
            operation=operation,
            breaker=breaker,
            interval_s=round(interval_s, 3),
            calls=fresh["calls"],
            attempts=fresh["attempts"],
            successes=fresh["successes"],
            failures=_positive({name[8:]: n for name, n in fresh.items() if name.startswith("failure.")}),
            retries=fresh["retries"],
            fallbacks=fresh["fallbacks"],
            degraded=fresh["degraded"],
            rejected=fresh["rejected"],
            exhausted=fresh["exhausted"],
            in_flight=in_flight,
            waiting=self.waiting,
            input_tokens=fresh["input_tokens"] or None,
            output_tokens=fresh["output_tokens"] or None,
            latency_bounds_s=LATENCY_BOUNDS_S if any(latency) else (),
            latency_counts=latency if any(latency) else (),
            provider=provider,
        )


class Rejections:
    """Refused calls, added up so that an open breaker stays cheap. Used under the runtime's lock."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, State, str]] = Counter()
        self._since = 0.0

    def add(self, event: BreakerRejected, now: float) -> None:
        """One more."""
        if not self._counts:
            self._since = now
        self._counts[event.operation, event.breaker, event.state, event.reason] += event.count

    def taken(self, now: float) -> tuple[BreakerRejected, ...]:
        """The sums since the first that was not yet told, one event for each operation, state and reason."""
        window_s = round(max(0.0, now - self._since), 3)
        found = tuple(
            BreakerRejected(operation=op, breaker=breaker, state=state, count=n, window_s=window_s, reason=reason)
            for (op, breaker, state, reason), n in self._counts.items()
        )
        self._counts.clear()
        return found


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


_COUNTED: dict[type[Event], str] = {
    events.RetryScheduled: "retries",
    events.FallbackActivated: "fallbacks",
    events.Exhausted: "exhausted",
    events.DegradationStarted: "degraded",
}
