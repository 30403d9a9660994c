"""`manage.py bench queries`: every question of a page or a figure, at a number of facts and at a tenth of it.

Both stores hold a week of the same fleet, one ten times as dense. They are asked in turn, so that a machine that is
busy for a while is busy for both; what is told is the quietest turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from rich.console import Console

from recovery_ops.bench.cluster import NoPostgres
from recovery_ops.bench.figures import Figure, Report, percentile
from recovery_ops.bench.stores import ENGINES, ENVIRONMENT, Environ, fill, last_border, run, said, stores

FACTS = 10_000_000
TURNS, TIMES = 3, 15
AIM_MS = 25.0
_COPIES = 10
_BREAKER = "operation_001"


def measure(facts: int, engine: str | None, screen: Console) -> list[Report]:
    """Fill stores on each engine and ask them."""
    return [_measured(name, facts, screen) for name in ((engine,) if engine else ENGINES)]


def _measured(engine: str, facts: int, screen: Console) -> Report:
    report = Report(f"queries of {facts:,} facts, {engine}; p95, beside that of {facts // _COPIES:,}")
    end = last_border()
    try:
        with stores(engine) as (small, grown):
            fill(small, facts // _COPIES, end, screen)
            large = grown()
            run(large, screen, "recovery_ops.bench.growing", end.isoformat(), "grow", str(_COPIES))
            for figure in _figures(small, large, end, screen):
                report.figures.append(figure)
            _add_sizes(report, large)
    except NoPostgres as missing:
        report.figures.append(Figure("queries", None, "ms", note=str(missing)))
    return report


def _add_sizes(report: Report, store: Environ) -> None:
    told = json.loads(said(store, "recovery_ops.bench.sizes"))
    count, parts = max(1, told["facts"]), told["bytes"]
    report.add("bytes for each fact", sum(parts.values()) / count, "B", note=f"of {told['facts']:,}")
    for part, size in parts.items():
        report.add(f"of these: {part}", size / count, "B")


def _figures(small: Environ, large: Environ, end: datetime, screen: Console) -> Iterator[Figure]:
    told: dict[str, list[tuple[float, float, float]]] = {}
    for turn in range(TURNS):
        screen.print(f"asking, turn {turn + 1} of {TURNS} …")
        asked = [end.isoformat(), ENVIRONMENT, _BREAKER, str(TIMES)]
        few, many = (json.loads(said(one, "recovery_ops.bench.answered", *asked)) for one in (small, large))
        for name in many:
            p95s = percentile(many[name]["took_ms"], 0.95), percentile(few[name]["took_ms"], 0.95)
            told.setdefault(name, []).append((*p95s, many[name]["cpu_ms"]))
    for name, turns in told.items():
        many_ms, few_ms, cpu_ms = (min(one[place] for one in turns) for place in range(3))
        yield Figure(name, many_ms, "ms", beside=few_ms, aim=AIM_MS, note=f"{cpu_ms:.1f} ms of a processor")
