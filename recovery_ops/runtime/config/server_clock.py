"""What time it is at the server, as far as can be told from here: overrides must end when they were meant to."""

from __future__ import annotations

from recovery_ops.runtime.process.clock import Clock

LONGEST_ASK_S = 2.0
"""A Date header that took longer to come says too little about now."""


class ServerClock:
    """The offset between two clocks, kept against the monotonic one, so that setting this machine's clock shows in it.

    A Date header gives whole seconds, so the offset is right to about a second. A document's `issued_at` is the second
    witness: the server's clock cannot be behind what it has already written.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_of_monotonic_s: float | None = None

    @property
    def offset_s(self) -> float:
        """The server's wall clock minus this machine's, in seconds; 0 while nothing is known."""
        if self._ahead_of_monotonic_s is None:
            return 0.0
        return self._ahead_of_monotonic_s + self._clock.now() - self._clock.wall()

    def note_date(self, at: float | None, *, took_s: float) -> None:
        """An answer with this Date (seconds since the epoch) has come, `took_s` seconds after it was asked for."""
        if at is not None and took_s <= LONGEST_ASK_S:
            self._ahead_of_monotonic_s = at + 0.5 + took_s / 2 - self._clock.now()

    def note_issued(self, at: float) -> None:
        """A document has come that the server wrote then or later than then."""
        if at <= 0:
            return
        ahead_s = at - self._clock.now()
        if self._ahead_of_monotonic_s is None or ahead_s > self._ahead_of_monotonic_s + 1.0:
            self._ahead_of_monotonic_s = ahead_s

    def recall(self, offset_s: float) -> None:
        """What was known before this process began: better than nothing until the server has been heard."""
        if self._ahead_of_monotonic_s is None:
            self._ahead_of_monotonic_s = self._clock.wall() + offset_s - self._clock.now()
