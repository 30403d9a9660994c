"""How little a question may read, so that a small store reaches the limits of each."""

from __future__ import annotations

import pytest

from events.degradations import asking as degradations
from events.failures import unknown
from events.queries import fleet_bins, instance, lives, moves, plays, sums, trouble, waits, workload


def read_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower every limit."""
    for module, name, most in (
        (moves, "MOVES_READ", 20),
        (moves, "LIGHT_MOVES_READ", 20),
        (fleet_bins, "EXACT_MOVES", 20),
        (lives, "HEARTBEATS_READ", 20),
        (sums, "FACTS_READ", 20),
        (instance, "READ", 40),
        (plays, "READ", 40),
        (unknown, "READ_WHOLE", 40),
        (degradations, "READ_MOST", 40),
        (trouble, "DEGRADATIONS_MOST", 40),
        (waits, "READ", 40),
        (workload, "READ", 40),
    ):
        monkeypatch.setattr(module, name, most)
