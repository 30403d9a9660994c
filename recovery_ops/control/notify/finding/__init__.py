"""Finds what happened: each module reads one kind of table, and finds the same again however often it looks."""

from __future__ import annotations

from collections.abc import Iterator

from recovery_ops.control.notify.finding import breakers, conditions, escalations, failures, months, second, stuck
from recovery_ops.control.notify.triggers import Look, Occurrence


def occurrences(look: Look) -> Iterator[Occurrence]:
    """Everything that some rule may want to tell. What no rule asks for is not read."""
    yield from escalations.found(look)
    yield from breakers.found(look)
    yield from stuck.found(look)
    yield from conditions.found(look)
    yield from second.found(look)
    yield from failures.found(look)
    yield from months.found(look)
