"""`manage.py bench replay`: how long it takes to decide a million recorded facts again, beside reading them only."""

from __future__ import annotations

import json

from rich.console import Console

from recovery_ops.bench.cluster import NoPostgres
from recovery_ops.bench.figures import Figure, Report
from recovery_ops.bench.stores import ENGINES, ENVIRONMENT, fill, last_border, said, stores

FACTS = 1_000_000
AIM_S = 60.0


def measure(facts: int, engine: str | None, screen: Console) -> list[Report]:
    """Fill a store on each engine, and replay the week that it holds."""
    return [_measured(name, facts, screen) for name in ((engine,) if engine else ENGINES)]


def _measured(engine: str, facts: int, screen: Console) -> Report:
    report = Report(f"replay of a week of {facts:,} facts, {engine}")
    end = last_border()
    try:
        with stores(engine) as (store, _):
            fill(store, facts, end, screen)
            screen.print("replaying …")
            told = json.loads(said(store, "recovery_ops.bench.replayed", end.isoformat(), ENVIRONMENT))
    except NoPostgres as missing:
        report.figures.append(Figure("replay", None, "s", note=str(missing)))
        return report
    whole, usual = told["everything"], told["usual"]
    facts_read, read_s = whole["facts"], told["read_s"]
    calls = f"{facts_read:,} facts read, {whole['calls']:,} calls decided twice, {whole['affected']:,} otherwise"
    report.add("everything is proposed otherwise", whole["took_s"], "s", beside=read_s, note=calls)
    report.add("the same for a million facts", whole["took_s"] * 1e6 / facts_read, "s", aim=AIM_S, note=_busy(whole))
    one = f"the operation that failed most; {usual['affected']:,} calls decided otherwise"
    report.add("one operation is proposed otherwise", usual["took_s"], "s", beside=read_s, note=one)
    report.add("the same for a million facts", usual["took_s"] * 1e6 / facts_read, "s", aim=AIM_S, note=_busy(usual))
    report.add("reading them only", read_s, "s")
    report.add("memory, most", told["rss_mb"], "MB", note="of the process that reads, and of one that decides")
    return report


def _busy(told: dict[str, float]) -> str:
    """What it would take alone: others may have used the processors meanwhile."""
    return f"{told['busy_s'] * 1e6 / told['facts']:,.0f} s of one processor, its database's left out"
