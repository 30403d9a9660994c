"""What time it is, and identifiers that carry the time: the only place in the runtime that asks the machine."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from recovery_ops.runtime.process import forks

_RANDOM_BITS = 74
_LOW_BITS = 62
_NS_PER_MS = 1_000_000


class Clock:
    """The machine's clocks. Tests and simulations pass a subclass whose time they push themselves."""

    def now(self) -> float:
        """Monotonic seconds: for waits, deadlines and durations; means nothing outside this process."""
        return time.monotonic()

    @property
    def quick_now(self) -> Callable[[], float]:
        """`now` without the cost of a method, for the path that every call takes."""
        return time.monotonic if type(self) is Clock else self.now

    def wall(self) -> float:
        """Seconds since the epoch; may jump when the machine's clock is set."""
        return time.time()

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch; may jump."""
        return time.time_ns()


class UuidSource(forks.InChild):
    """Makes version 7 UUIDs that only rise, in the order in which they were asked for. Thread-safe.

    Within a millisecond, or after the clock was set back, the next one is the last one plus a random step, so that
    order survives and no identifier can be guessed from its neighbour.
    """

    def __init__(self, random_bits: Callable[[int], int] | None = None) -> None:
        # The system's randomness, not a generator with a state: a forked child would repeat its parent's numbers.
        self._random_bits = random_bits or random.SystemRandom().getrandbits
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self, at_ns: int | None = None) -> str:
        """The next identifier, in canonical text form; `at_ns` is nanoseconds since the epoch, by default now."""
        if not self._last:
            forks.follow(self)
        at_ms = (time.time_ns() if at_ns is None else at_ns) // _NS_PER_MS
        with self._lock:
            drawn = (max(at_ms, 0) << _RANDOM_BITS) | self._random_bits(_RANDOM_BITS)
            if drawn <= self._last:
                drawn = self._last + 1 + self._random_bits(32)
            self._last = drawn
        return _text_of(drawn)

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock: it will never give it back here."""
        self._lock = threading.Lock()


def _text_of(drawn: int) -> str:
    """The 122 free bits of a UUID with version 7 and the usual variant put in their places."""
    at_ms = (drawn >> _RANDOM_BITS) & 0xFFFF_FFFF_FFFF
    high = (drawn >> _LOW_BITS) & 0xFFF
    low = drawn & ((1 << _LOW_BITS) - 1)
    digits = f"{(at_ms << 80) | (7 << 76) | (high << 64) | (2 << 62) | low:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


uuid7 = UuidSource()
"""The identifiers of this process."""
