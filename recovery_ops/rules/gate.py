"""A gate closes an operation for the whole process until the time its server named: callers need not each find out."""

from __future__ import annotations

from recovery_ops.rules.facts import Fact, GateClosed, GateOpened
from recovery_ops.rules.words import Category

NEWS_S = 1.0
"""Many callers hear the same word of the server within moments; only a longer pause than was told is news."""


class Gate:
    """The gate of one operation; told the time, lockless like a breaker."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.opens_at: float | None = None
        self._closed_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether nothing is known that forbids a call. `sweep` first to let time act."""
        return self.opens_at is None

    def close(self, now: float, wait_s: float, category: Category) -> tuple[Fact, ...]:
        """The server said when to come back. A closed gate is only ever prolonged."""
        opens_at, held_until = now + wait_s, self.opens_at
        self.opens_at = opens_at if held_until is None else max(opens_at, held_until)
        if held_until is None:
            self._closed_at = now
        elif opens_at - held_until < NEWS_S:
            return ()
        return (GateClosed(operation=self.operation, wait_s=wait_s, category=category),)

    def sweep(self, now: float) -> tuple[Fact, ...]:
        """Opens when its time has come."""
        if self.opens_at is None or now < self.opens_at:
            return ()
        self.opens_at = None
        return (GateOpened(operation=self.operation, closed_s=round(now - self._closed_at, 3)),)

    def opens_in_s(self, now: float) -> float:
        """How long it stays closed."""
        return 0.0 if self.opens_at is None else max(0.0, self.opens_at - now)
