"""How measurements are told: as rows for a table and for JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing. `beside` is the same work without us, `aim` what we want to reach, in the same unit."""

    what: str
    value: float
    unit: str
    beside: float | None = None
    aim: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How it compares with the same work without us."""
        return self.value / self.beside if self.beside else None


@dataclass(slots=True)
class Report:
    """The figures of one measurement."""

    name: str
    figures: list[Figure] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str, **more: Any) -> None:
        """One more figure."""
        self.figures.append(Figure(what, value, unit, **more))

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {"name": self.name, "figures": [asdict(one) | {"ratio": one.ratio} for one in self.figures]}


def ns_per_call(call: Callable[[], object], *, times: int = 50_000, rounds: int = 9) -> float:
    """The median over rounds of what one call costs, in nanoseconds, the loop's own cost taken off."""
    loop = _loop_ns(lambda: None, times, rounds)
    return max(0.0, _loop_ns(call, times, rounds) - loop)


def _loop_ns(call: Callable[[], object], times: int, rounds: int) -> float:
    found = []
    for _ in range(rounds):
        began = time.perf_counter_ns()
        for _ in range(times):
            call()
        found.append((time.perf_counter_ns() - began) / times)
    return median(found)


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
