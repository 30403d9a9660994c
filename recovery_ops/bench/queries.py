"""`manage.py bench queries`: every question of a page or a figure, at a number of facts and at a tenth of it.

Ten times as many facts are either the longer history of the same fleet, or the same week of a larger one; a store is
made of each (docs/decisions/0023). All are asked in turn, so that a machine that is busy for a while is busy for each;
what is told is the quietest turn. Two aims are judged: how long a query of an answer takes in either, on the machine of
the yardstick (docs/decisions/0023), and how much longer the answer takes in the longer history than with a tenth of the
facts. What the whole answer takes, of up to nine queries and what is made of their rows, is told beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from recovery_ops.bench.cluster import NoPostgres
from recovery_ops.bench.figures import Figure, Report, percentile
from recovery_ops.bench.stores import ENGINES, ENVIRONMENT, Environ, fill, last_border, run, said, stores, told_by_line
from recovery_ops.bench.yardstick import Yardstick
from recovery_ops.bench.yardstick import measured as measured_yardstick

FACTS = 10_000_000
TURNS, TIMES = 3, 15
AIM_MS = 25.0
"""The p95 of any query, on the machine of `yardstick.REFERENCE_PER_S`."""
AIM_GROWTH = 1.2
"""Processor time beside that at a tenth of the facts …"""
FLOOR_MS = 1.0
"""… plus what an index that is one level deeper, and chance, make of a question that takes next to nothing."""
_COPIES = 10
_BREAKER = "operation_001"
_COLUMNS = (TextColumn("asking, {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


@dataclass(frozen=True, slots=True)
class Asked:
    """One question in one turn, with few facts, in a longer history and in a denser week: p95 of the answer and of the
    slowest of its queries, and median processor time, in milliseconds.
    """

    few_ms: float
    longer_ms: float
    denser_ms: float
    few_query_ms: float
    longer_query_ms: float
    denser_query_ms: float
    few_cpu_ms: float
    longer_cpu_ms: float
    denser_cpu_ms: float
    is_within_a_week: bool = field(default=True, kw_only=True)
    """Whether the store with few facts holds all of the time that is asked about (docs/decisions/0023)."""


def measure(facts: int, engine: str | None, screen: Console) -> list[Report]:
    """Fill stores on each engine and ask them."""
    return [_measured(name, facts, screen) for name in ((engine,) if engine else ENGINES)]


def _measured(engine: str, facts: int, screen: Console) -> Report:
    report = Report(f"queries of {facts:,} facts, {engine}; p95, beside that of {facts // _COPIES:,}")
    end = last_border()
    yardstick = measured_yardstick()
    try:
        with stores(engine) as (small, grown):
            fill(small, facts // _COPIES, end, screen)
            longer, denser = grown("longer"), grown("denser")
            for store, how in ((longer, "lengthen"), (denser, "grow")):
                run(store, screen, "recovery_ops.bench.growing", end.isoformat(), how, str(_COPIES))
            told = _told({"few": small, "longer": longer, "denser": denser}, end, screen)
            yardstick = max(yardstick, measured_yardstick(), key=attrgetter("per_s"))
            report.figures += figures_of(told, yardstick)
            _add_sizes(report, denser)
    except NoPostgres as missing:
        report.figures.append(Figure("queries", None, "ms", note=str(missing)))
    return report


def _add_sizes(report: Report, store: Environ) -> None:
    told = json.loads(said(store, "recovery_ops.bench.sizes"))
    count, parts = max(1, told["facts"]), told["bytes"]
    report.add("bytes for each fact", sum(parts.values()) / count, "B", note=f"of {told['facts']:,}")
    for part, size in parts.items():
        report.add(f"of these: {part}", size / count, "B")


def _told(asked: Mapping[str, Environ], end: datetime, screen: Console) -> dict[str, list[Asked]]:
    """Each question's turns."""
    told: dict[str, list[Asked]] = {}
    words = [end.isoformat(), ENVIRONMENT, _BREAKER, str(TIMES)]
    with Progress(*_COLUMNS, console=screen, transient=True) as progress:
        bar = progress.add_task("")
        for turn in range(TURNS):
            answers: dict[str, dict[str, Any]] = {}
            for size, store in asked.items():
                progress.reset(bar, description=f"turn {turn + 1} of {TURNS}, {size}")
                found = answers[size] = {}
                for line in told_by_line(store, "recovery_ops.bench.answered", *words):
                    one = json.loads(line)
                    found[one["name"]] = one
                    progress.update(bar, completed=len(found), total=one["of"])
            for name in answers["few"]:
                times = {f"{size}_ms": percentile(found[name]["took_ms"], 0.95) for size, found in answers.items()}
                times |= {
                    f"{size}_query_ms": percentile(found[name]["query_ms"], 0.95) for size, found in answers.items()
                }
                costs = {f"{size}_cpu_ms": found[name]["cpu_ms"] for size, found in answers.items()}
                is_within = answers["few"][name]["is_within_a_week"]
                told.setdefault(name, []).append(Asked(**times, **costs, is_within_a_week=is_within))
    return told


def figures_of(told: dict[str, list[Asked]], yardstick: Yardstick) -> Iterator[Figure]:
    """Every question by its quietest turns, and before them how many reach each aim."""
    aim_ms, floor_ms = yardstick.time_ms(AIM_MS), yardstick.time_ms(FLOOR_MS)
    least = {
        name: Asked(**{one.name: min(getattr(turn, one.name) for turn in turns) for one in fields(Asked)})
        for name, turns in told.items()
    }
    worst_ms = {name: max(one.longer_query_ms, one.denser_query_ms) for name, one in least.items()}
    whole_ms = {name: max(one.longer_ms, one.denser_ms) for name, one in least.items()}
    quick = {name for name in least if worst_ms[name] <= aim_ms}
    most = {name: AIM_GROWTH * one.few_cpu_ms + floor_ms for name, one in least.items()}
    comparable = {name for name, one in least.items() if one.is_within_a_week}
    flat = {name for name, one in least.items() if one.longer_cpu_ms <= most[name]}
    machine = f"{AIM_MS:g} ms on the machine of the aims, of which this one is {yardstick.share:.0%}"
    yield Figure("questions whose queries keep their time", len(quick), "", aim=len(least), note=machine)
    slowest = max(least, key=worst_ms.__getitem__)
    yield Figure("the slowest query", worst_ms[slowest], "ms", aim=aim_ms, note=slowest)
    longest = max(least, key=whole_ms.__getitem__)
    as_quick = sum(whole_ms[name] <= aim_ms for name in least)
    yield Figure("whole answers within that time", as_quick, "", note=f"longest: {longest}, {whole_ms[longest]:.0f} ms")
    limit = f"{AIM_GROWTH} × the processor time at a tenth of the facts, and {floor_ms:.1f} ms"
    yield Figure("questions that do not grow with history", len(flat & comparable), "", aim=len(comparable), note=limit)
    further = f"look back for more than the week that the few facts are of; {len(flat - comparable)} take no longer"
    yield Figure("not asked that", len(least) - len(comparable), "", note=further)
    as_flat = sum(one.denser_cpu_ms <= most[name] for name, one in least.items())
    yield Figure("nor with a denser week", as_flat, "", note="shows more, up to its limit, where more happened")
    for name, one in least.items():
        few_ms = max(one.few_cpu_ms, 1e-3)
        grows = "GROWS" if one.is_within_a_week else "LOOKS FURTHER"
        missed = [word for word, reached in (("SLOW", quick), (grows, flat)) if name not in reached]
        cost = f"{few_ms:.1f} ms of a processor, × {one.longer_cpu_ms / few_ms:.2f} in a longer history"
        note = " ".join([f"{cost}, × {one.denser_cpu_ms / few_ms:.2f} in a denser week", *missed])
        whole = f"{whole_ms[name]:.3g} ms the whole answer; {note}"
        yield Figure(name, worst_ms[name], "ms", beside=one.few_query_ms, aim=aim_ms, note=whole)
