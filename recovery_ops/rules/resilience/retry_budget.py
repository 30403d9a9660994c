"""The client-side budget of retries: a share of the calls of the last 10 s, and some more each second.

Without it every client of a failing backend multiplies its load by the number of its retries. One budget belongs to one
operation of one process. It takes no lock and knows no clock, like a breaker; only retries ask it.
"""

from __future__ import annotations

from collections import deque

from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.sliding_window import Tally

WINDOW_S = 10.0


class RetryBudget:
    """Counts calls and retries of one operation. `calls.add()` for each call, from any thread."""

    __slots__ = ("_looked_at", "_looked_calls", "_retries", "_spans", "calls", "is_counted", "more")

    def __init__(self) -> None:
        self.calls = Tally()
        self.is_counted = False
        """Whether the driver counts the calls of the operation itself; the ladder then counts only its fallbacks'."""
        self.more = 0
        """Calls beside those that `calls` counted one by one."""
        self._looked_at: float | None = None
        self._looked_calls = 0
        self._spans: deque[tuple[float, float, int]] = deque()
        """From, until, and how many calls."""
        self._retries: deque[float] = deque()

    def look(self, now: float) -> None:
        """Note the calls since the last look. Calls before the first look have no known time, and do not count."""
        calls, since = self.calls.value() + self.more, self._looked_at
        if since is not None and calls > self._looked_calls:
            self._spans.append((since, now, calls - self._looked_calls))
        self._looked_at, self._looked_calls = now, calls
        while self._spans and self._spans[0][1] <= now - WINDOW_S:
            self._spans.popleft()
        while self._retries and self._retries[0] <= now - WINDOW_S:
            self._retries.popleft()

    def allows(self, now: float, settings: Settings) -> bool:
        """Whether one retry more is within the budget."""
        self.look(now)
        start = now - WINDOW_S
        calls = sum(count * _share(began, ended, start) for began, ended, count in self._spans)
        most = (settings.retry_ratio or 0.0) * calls + (settings.min_retries_per_s or 0.0) * WINDOW_S
        return len(self._retries) + 1 <= most

    def spend(self, now: float) -> None:
        """A retry is made."""
        self._retries.append(now)


def _share(began: float, ended: float, start: float) -> float:
    """The part of a span that is not before `start`."""
    return 1.0 if began >= start or ended <= began else (ended - start) / (ended - began)
