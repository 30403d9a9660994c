"""What a breaker remembers of the last calls, so cheaply that a success costs one step of a counter.

A count-based window needs no list of outcomes: successes are only counted, and each failure notes its place in the
count. `successes_since_failure` in the facts is that same number, so a replay rebuilds the very same window.
"""

from __future__ import annotations

from collections import deque
from itertools import count

from recovery_ops.rules.records import dataclass

_REMEMBERED = 10_000
"""The largest window a policy may ask for; enlarging a window in mid-outage finds what it needs."""


class Tally:
    """A counter that many threads may raise without a lock, by `add` or by `next(tally.steps)`; one reader at a time.

    `itertools.count` advances atomically in CPython: it is one step of C that no other thread can come into, where
    `+= 1` is a read, an addition and a write. Reading it advances it too, so reads are taken off again. Others may
    `join`: what they count is then counted here as well, at no cost to whoever counts.
    """

    __slots__ = ("_joined", "_reads", "steps")

    def __init__(self) -> None:
        self.steps = count(1)
        self._reads = 0
        self._joined: tuple[Tally, ...] = ()

    def add(self) -> None:
        """One step."""
        next(self.steps)

    def join(self, other: Tally) -> None:
        """Count what a tally that is still at zero will count."""
        self._joined = (*self._joined, other)

    def value(self) -> int:
        """How many steps others took. The caller makes sure that it is the only reader."""
        self._reads += 1
        total = next(self.steps) - self._reads
        for other in self._joined:
            total += other.value()
        return total


@dataclass(frozen=True, slots=True)
class Reading:
    """The window at one moment."""

    calls: int
    failures: int
    slow: int
    consecutive_failures: int
    successes_since_failure: int

    @property
    def failure_rate(self) -> float:
        """Share of failed calls; 0 where there were none."""
        return self.failures / self.calls if self.calls else 0.0

    @property
    def slow_call_rate(self) -> float:
        """Share of slow calls; 0 where there were none."""
        return self.slow / self.calls if self.calls else 0.0


class Window:
    """The last calls of one breaker, counted by number or by second. The caller holds the lock, except for `successes`.

    Both views are always kept up, so that a change of the window's type in the middle of an outage forgets nothing
    that was noted. Successes that were only counted have no time: a time-based breaker notes every success.
    """

    __slots__ = (
        "_base",
        "_consecutive",
        "_failures",
        "_last_failure",
        "_noted_failures",
        "_seconds",
        "_slow",
        "_timed_successes",
        "successes",
    )

    def __init__(self) -> None:
        self.successes = Tally()
        self._noted_failures = 0
        self._base = 0
        self._failures: deque[int] = deque(maxlen=_REMEMBERED)
        self._slow: deque[int] = deque(maxlen=_REMEMBERED)
        self._seconds: deque[list[int]] = deque(maxlen=_REMEMBERED)
        self._last_failure = 0
        self._consecutive = 0
        self._timed_successes = 0

    def note_success(self, now: float, *, is_slow: bool = False) -> None:
        """A success whose time (and slowness) matters."""
        self.successes.add()
        self._timed_successes += 1
        self._second(now)[1] += 1
        if is_slow:
            self._slow.append(self._index())
            self._second(now)[3] += 1

    def note_failure(self, now: float, *, is_slow: bool = False) -> int:
        """A failure that counts; returns the successes since the one before."""
        self._noted_failures += 1
        index = self._index()
        since = index - self._last_failure - 1
        self._consecutive = self._consecutive + 1 if since == 0 else 1
        self._last_failure = index
        self._failures.append(index)
        second = self._second(now)
        # Successes that were only counted are put down here, so that a switch to a time-based window sees them.
        second[1] += 1 + max(0, since - self._timed_successes)
        second[2] += 1
        self._timed_successes = 0
        if is_slow:
            self._slow.append(index)
            second[3] += 1
        return since

    def successes_since_failure(self) -> int:
        """Successes since the last failure that counted (or since the window was fresh)."""
        return self._index() - self._last_failure

    def read(self, now: float, *, size: int, is_time_based: bool) -> Reading:
        """What the last `size` calls, or seconds, were like."""
        since = self.successes_since_failure()
        consecutive = self._consecutive if since == 0 else 0
        if is_time_based:
            first = int(now) - size + 1
            recent = [second for second in self._seconds if second[0] >= first]
            calls, failures, slow = (sum(second[part] for second in recent) for part in (1, 2, 3))
            return Reading(calls, failures, slow, consecutive, since)
        index = self._index()
        oldest = max(index - size, self._base)
        failures = _newer(self._failures, oldest)
        return Reading(index - oldest, failures, _newer(self._slow, oldest), consecutive, since)

    def clear(self) -> None:
        """A fresh window: everything before this moment is forgotten."""
        self._failures.clear()
        self._slow.clear()
        self._seconds.clear()
        self._consecutive = 0
        self._base = self._last_failure = self._index()

    def _index(self) -> int:
        return self.successes.value() + self._noted_failures

    def _second(self, now: float) -> list[int]:
        second = int(now)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0, 0, 0])
        return self._seconds[-1]


def _newer(indices: deque[int], oldest: int) -> int:
    newer = 0
    for index in reversed(indices):
        if index <= oldest:
            break
        newer += 1
    return newer
