"""`manage.py bench queries`: every question of a page or a figure, at a number of facts and at a tenth of it.

Both stores hold a week of the same fleet, one ten times as dense. They are asked in turn, so that a machine that is
busy for a while is busy for both; what is told is the quietest turn. Two aims are judged: how long an answer takes, on
the machine of the yardstick (docs/decisions/0068), and how much longer than with a tenth of the facts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

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
"""The p95 of any question, on the machine of `yardstick.REFERENCE_PER_S`."""
AIM_GROWTH = 1.2
"""Processor time beside that at a tenth of the facts …"""
FLOOR_MS = 1.0
"""… plus what an index that is one level deeper, and chance, make of a question that takes next to nothing."""
_COPIES = 10
_BREAKER = "operation_001"
_COLUMNS = (TextColumn("asking, {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


@dataclass(frozen=True, slots=True)
class Asked:
    """One question in one turn, with many facts and with few: p95 and median processor time, in milliseconds."""

    many_ms: float
    few_ms: float
    many_cpu_ms: float
    few_cpu_ms: float


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
            large = grown()
            run(large, screen, "recovery_ops.bench.growing", end.isoformat(), "grow", str(_COPIES))
            told = _told(small, large, end, screen)
            yardstick = max(yardstick, measured_yardstick(), key=attrgetter("per_s"))
            report.figures += figures_of(told, yardstick)
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


def _told(small: Environ, large: Environ, end: datetime, screen: Console) -> dict[str, list[Asked]]:
    """Each question's turns."""
    told: dict[str, list[Asked]] = {}
    asked = [end.isoformat(), ENVIRONMENT, _BREAKER, str(TIMES)]
    with Progress(*_COLUMNS, console=screen, transient=True) as progress:
        bar = progress.add_task("")
        for turn in range(TURNS):
            answers = []
            for store, size in ((small, "few facts"), (large, "many facts")):
                progress.reset(bar, description=f"turn {turn + 1} of {TURNS}, {size}")
                found = {}
                for line in told_by_line(store, "recovery_ops.bench.answered", *asked):
                    one = json.loads(line)
                    found[one["name"]] = one
                    progress.update(bar, completed=len(found), total=one["of"])
                answers.append(found)
            few, many = answers
            for name in many:
                many_ms, few_ms = (percentile(found[name]["took_ms"], 0.95) for found in (many, few))
                one_turn = Asked(many_ms, few_ms, many[name]["cpu_ms"], few[name]["cpu_ms"])
                told.setdefault(name, []).append(one_turn)
    return told


def figures_of(told: dict[str, list[Asked]], yardstick: Yardstick) -> Iterator[Figure]:
    """Every question by its quietest turns, and before them how many reach each aim."""
    aim_ms, floor_ms = yardstick.time_ms(AIM_MS), yardstick.time_ms(FLOOR_MS)
    least = {
        name: Asked(*(min(getattr(one, field) for one in turns) for field in Asked.__dataclass_fields__))
        for name, turns in told.items()
    }
    quick = {name for name, one in least.items() if one.many_ms <= aim_ms}
    flat = {name for name, one in least.items() if one.many_cpu_ms <= AIM_GROWTH * one.few_cpu_ms + floor_ms}
    machine = f"{AIM_MS:g} ms on the machine of the aims, of which this one is {yardstick.share:.0%}"
    yield Figure("questions within their time", len(quick), "", aim=len(least), note=machine)
    slowest = max(least, key=lambda name: least[name].many_ms)
    yield Figure("the slowest", least[slowest].many_ms, "ms", aim=aim_ms, note=slowest)
    limit = f"{AIM_GROWTH} × the processor time at a tenth of the facts, and {floor_ms:.1f} ms"
    yield Figure("questions that do not grow", len(flat), "", aim=len(least), note=limit)
    for name, one in least.items():
        growth = one.many_cpu_ms / max(one.few_cpu_ms, 1e-3)
        missed = [word for word, reached in (("SLOW", quick), ("GROWS", flat)) if name not in reached]
        note = f"{one.many_cpu_ms:.1f} ms of a processor, {growth:.2f} × {one.few_cpu_ms:.1f} ms"
        yield Figure(name, one.many_ms, "ms", beside=one.few_ms, aim=aim_ms, note=" ".join([note, *missed]))
