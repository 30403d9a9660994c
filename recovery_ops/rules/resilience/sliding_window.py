"""What a breaker remembers of the last calls, so cheaply that a success costs one step of a counter.

A count-based window needs no list of outcomes: successes are only counted, and each failure notes its place in the
count. `successes_since_failure` in the events is that same number, so a replay rebuilds the very same window.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import count

from recovery_ops.rules.lazy_dataclass import dataclass

_REMEMBERED = 10_000
"""The largest window a policy may ask for; enlarging a window in mid-outage finds what it needs."""


_SECONDS_MOST = 1024
"""Seconds that are kept apart before old ones are merged."""
_SHARPNESS = 128
"""The far end of a time-based window is out by at most this part of the window, and not at all in the last 128 s."""


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

    Both views are always kept up, so that a change of the window's type in the middle of an outage forgets nothing.
    Successes that were only counted have no time of their own: they are booked at the time of the booking before, so
    that none appears newer than it is. Book often (`book`), and they are out by no more than the time between.
    """

    __slots__ = (
        "_base",
        "_booked",
        "_booked_at",
        "_consecutive",
        "_failures",
        "_last_failure",
        "_noted_failures",
        "_seconds",
        "_slow",
        "successes",
    )

    def __init__(self) -> None:
        self.successes = Tally()
        self._noted_failures = 0
        self._base = 0
        self._failures: deque[int] = deque(maxlen=_REMEMBERED)
        self._slow: deque[int] = deque(maxlen=_REMEMBERED)
        self._seconds: list[list[int]] = []
        self._last_failure = 0
        self._consecutive = 0
        self._booked = 0
        self._booked_at: float | None = None

    def note_success(self, now: float, *, is_slow: bool = False) -> None:
        """A success whose time (and slowness) matters."""
        self.book(now)
        self.successes.add()
        self._booked += 1
        second = self._second(now)
        second[1] += 1
        if is_slow:
            self._slow.append(self._index())
            second[3] += 1

    def note_failure(self, now: float, *, is_slow: bool = False) -> int:
        """A failure that counts; returns the successes since the one before."""
        self.book(now)
        self._noted_failures += 1
        index = self._index()
        since = index - self._last_failure - 1
        self._consecutive = self._consecutive + 1 if since == 0 else 1
        self._last_failure = index
        self._failures.append(index)
        second = self._second(now)
        second[1] += 1
        second[2] += 1
        if is_slow:
            self._slow.append(index)
            second[3] += 1
        return since

    def book(self, now: float) -> None:
        """Give the successes that were only counted a time. Cheap within the same second."""
        if self._booked_at is None or now >= self._booked_at + 1:
            self._book_all()
            self._booked_at = float(int(now))

    def _book_all(self) -> None:
        successes = self.successes.value()
        fresh, self._booked = successes - self._booked, successes
        if fresh and self._booked_at is not None:
            self._second(self._booked_at)[1] += fresh

    def successes_since_failure(self) -> int:
        """Successes since the last failure that counted (or since the window was fresh)."""
        return self._index() - self._last_failure

    def read(self, now: float, *, size: int, is_time_based: bool) -> Reading:
        """What the last `size` calls, or seconds, were like."""
        since = self.successes_since_failure()
        consecutive = self._consecutive if since == 0 else 0
        if is_time_based:
            self.book(now)
            self._book_all()
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
        self._booked = self.successes.value()
        self._consecutive = 0
        self._base = self._last_failure = self._index()

    def _index(self) -> int:
        return self.successes.value() + self._noted_failures

    def _second(self, now: float) -> list[int]:
        second = int(now)
        if not self._seconds or self._seconds[-1][0] < second:
            if len(self._seconds) >= _SECONDS_MOST:
                self._seconds = _thinned(self._seconds, second)
            self._seconds.append([second, 0, 0, 0])
        if self._seconds[-1][0] == second:
            return self._seconds[-1]
        # Recorded calls are replayed in parts, whose times overlap.
        place = bisect_left(self._seconds, [second])
        if self._seconds[place][0] != second:
            self._seconds.insert(place, [second, 0, 0, 0])
        return self._seconds[place]


def _thinned(seconds: list[list[int]], now: int) -> list[list[int]]:
    """What a window can still see, the coarser the older: neighbours are merged, at the time of the older."""
    kept: list[list[int]] = []
    for one in seconds:
        age_s = now - one[0]
        if kept and (one[0] - kept[-1][0]) * _SHARPNESS <= age_s:
            for part in (1, 2, 3):
                kept[-1][part] += one[part]
        elif age_s < _REMEMBERED:
            kept.append(one)
    return kept


def _newer(indices: deque[int], oldest: int) -> int:
    newer = 0
    for index in reversed(indices):
        if index <= oldest:
            break
        newer += 1
    return newer
