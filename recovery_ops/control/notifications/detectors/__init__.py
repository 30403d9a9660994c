"""Finds what happened: each module reads one kind of table, and finds the same again however often it looks."""

from __future__ import annotations

from collections.abc import Iterator

from recovery_ops.control.notifications.detectors import (
    approvals,
    breakers,
    conditions,
    escalations,
    issues,
    monthly_reports,
    stuck_breakers,
)
from recovery_ops.control.notifications.triggers import Look, Occurrence


def occurrences(look: Look) -> Iterator[Occurrence]:
    """Everything that some rule may want to tell. What no rule asks for is not read."""
    yield from escalations.found(look)
    yield from breakers.found(look)
    yield from stuck_breakers.found(look)
    yield from conditions.found(look)
    yield from approvals.found(look)
    yield from issues.found(look)
    yield from monthly_reports.found(look)
