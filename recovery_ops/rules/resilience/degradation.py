"""A degradation is an interval: no weaker answer without an open one; it ends when the capability is whole again."""

from __future__ import annotations

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import DegradationEnded, DegradationStarted, Event
from recovery_ops.rules.lazy_dataclass import dataclass


@dataclass(slots=True)
class _Open:
    kind: str
    to_name: str
    started: float
    calls: int = 1


class Degradation:
    """Whether one operation is reduced in this process, and how. Told the time; the caller holds the lock."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self._open: _Open | None = None

    @property
    def is_open(self) -> bool:
        """Whether the capability is reduced."""
        return self._open is not None

    def is_of(self, kind: str, to_name: str) -> bool:
        """Whether it is reduced in this way."""
        return self._open is not None and (self._open.kind, self._open.to_name) == (kind, to_name)

    def begin(
        self, now: float, *, kind: str, reason: str, to_name: str = "", category: Category | None = None
    ) -> tuple[Event, ...]:
        """A weaker answer (or none) was given. A different kind of reduction ends the one before."""
        if self._open is not None and self.is_of(kind, to_name):
            self._open.calls += 1
            return ()
        events = self.end(now)
        self._open = _Open(kind, to_name, now)
        return (
            *events,
            DegradationStarted(
                operation=self.operation,
                kind=kind,
                reason=reason,
                from_name=self.operation,
                to_name=to_name,
                category=category,
            ),
        )

    def end(self, now: float) -> tuple[Event, ...]:
        """The capability is whole again."""
        if self._open is None:
            return ()
        was, self._open = self._open, None
        return (
            DegradationEnded(
                operation=self.operation,
                kind=was.kind,
                duration_s=round(now - was.started, 3),
                from_name=self.operation,
                to_name=was.to_name,
                calls=was.calls,
            ),
        )
