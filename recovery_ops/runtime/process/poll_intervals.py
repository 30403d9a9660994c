"""How long to wait before asking a server again: spread by chance, so that a thousand agents do not come at once."""

from __future__ import annotations

from collections.abc import Callable

_WORD_JITTER = 0.25


class Pace:
    """Waits that grow: after the nth failure anywhere from `floor_s` to `first_s` · 2^(n−1), and at most `cap_s`.

    What the server asked for is never undercut: chance only adds to it, up to a quarter.
    """

    def __init__(self, *, floor_s: float, first_s: float, cap_s: float, chance: Callable[[], float]) -> None:
        self._floor_s = floor_s
        self._first_s = first_s
        self._cap_s = cap_s
        self._chance = chance
        self.failures = 0

    def succeeded(self) -> None:
        """The next wait is a short one."""
        self.failures = 0

    def next_s(self, *, asked_s: float | None = None) -> float:
        """Seconds to wait after one more failure; `asked_s` is what the server asked for."""
        self.failures += 1
        # The exponent is bounded because a float is not: an agent may fail for weeks.
        top_s = min(self._cap_s, self._first_s * 2.0 ** min(self.failures - 1, 30))
        own_s = self._floor_s + self._chance() * max(0.0, top_s - self._floor_s)
        if asked_s is None:
            return own_s
        return max(own_s, asked_s * (1.0 + _WORD_JITTER * self._chance()))
