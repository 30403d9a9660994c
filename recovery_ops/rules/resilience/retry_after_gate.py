"""A gate closes an operation for the whole process until the time its server named: callers need not each find out."""

from __future__ import annotations

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Event, GateClosed, GateOpened

NEWS_S = 1.0
"""Many callers hear the same word of the server within moments; only a longer pause than was told is news."""


class RetryAfterGate:
    """The gate of one operation, or of one of its keys; told the time, lockless like a breaker."""

    def __init__(self, operation: str, credential: str | None = None) -> None:
        self.operation = operation
        self.credential = credential
        self.opens_at: float | None = None
        self._closed_at = 0.0
        self._category: Category | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing is known that forbids a call. `sweep` first to let time act."""
        return self.opens_at is None

    def close(self, now: float, wait_s: float, category: Category) -> tuple[Event, ...]:
        """The server said when to come back. A closed gate is only ever prolonged."""
        opens_at, held_until = now + wait_s, self.opens_at
        self.opens_at = opens_at if held_until is None else max(opens_at, held_until)
        self._category = category
        if held_until is None:
            self._closed_at = now
        elif opens_at - held_until < NEWS_S:
            return ()
        return (GateClosed(operation=self.operation, wait_s=wait_s, category=category, credential=self.credential),)

    def sweep(self, now: float) -> tuple[Event, ...]:
        """Opens when its time has come."""
        if self.opens_at is None or now < self.opens_at:
            return ()
        self.opens_at = None
        closed_s, category = round(now - self._closed_at, 3), self._category
        return (GateOpened(operation=self.operation, closed_s=closed_s, category=category, credential=self.credential),)

    def open(self, now: float) -> tuple[Event, ...]:
        """Open before its time."""
        self.opens_at = None if self.opens_at is None else now
        return self.sweep(now)

    def opens_in_s(self, now: float) -> float:
        """How long it stays closed."""
        return 0.0 if self.opens_at is None else max(0.0, self.opens_at - now)
