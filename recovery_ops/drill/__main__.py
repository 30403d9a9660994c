"""`manage.py drill facts`: faults on purpose; prints what was sent, acknowledged, lost and doubled in each.

`manage.py drill work` is in `drill.work`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from recovery_ops.drill import work
from recovery_ops.drill.catalogue import FAULTS
from recovery_ops.drill.engine import Outcome
from recovery_ops.drill.world import ROOT, NotHere

ENGINES = ("sqlite", "postgresql")
NAMES = tuple(fault.name for fault in FAULTS)


def main(arguments: list[str]) -> None:
    """Run the faults; exit with 1 when anything was lost, doubled or otherwise wrong."""
    if arguments[:1] == ["work"]:
        work.main(arguments[1:])
        return
    parser = argparse.ArgumentParser(
        prog="manage.py drill", description="Do harm on purpose, and count what was lost and doubled."
    )
    parser.add_argument(
        "what", choices=["facts", "work"], help="facts on their way in, or the work that is done about them"
    )
    parser.add_argument("faults", nargs="*", metavar="|".join(NAMES), help="default: all of them")
    parser.add_argument("--events", type=int, default=100_000, help="how many in all; default: %(default)s")
    parser.add_argument("--engine", choices=ENGINES, help="default: both, where PostgreSQL is on this machine")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is chance; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    said = parser.parse_args(arguments)
    names = [name.upper() for name in said.faults]
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no fault {unknown[0]}: choose from {', '.join(NAMES)}")
    engines = ENGINES if said.engine is None else (said.engine,)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    share = -(-said.events // len(engines))
    # Side by side: most of the time is spent waiting for something to start.
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
        ThreadPoolExecutor(len(engines)) as pool,
    ):
        runs = [pool.submit(_run, engine, share, said.seed, names, progress) for engine in engines]
    outcomes = [outcome for run in runs for outcome in run.result()[0]]
    missing = [f"{engine} is not on this machine" for engine, run in zip(engines, runs, strict=True) if run.result()[2]]
    failed = [f"{engine}: {run.result()[1]}" for engine, run in zip(engines, runs, strict=True) if run.result()[1]]
    if said.engine is not None:
        failed += missing
    _tell(outcomes, failed, missing, is_json=said.json, seed=said.seed)
    sys.exit(0 if outcomes and not failed and all(outcome.is_good for outcome in outcomes) else 1)


def _run(engine: str, events: int, seed: int, names: list[str], progress: Progress) -> tuple[list[Outcome], str, bool]:
    """One engine's outcomes, why they broke off, and whether the engine is missing."""
    outcomes: list[Outcome] = []
    faults = [fault for fault in FAULTS if (not names or fault.name in names)]
    total = sum(engine == "postgresql" or not fault.needs_postgres for fault in faults)
    bar = progress.add_task(f"{engine}: starting", total=total)
    try:
        for outcome in _outcomes(engine, events, seed, names):
            outcomes.append(outcome)
            progress.update(bar, description=f"{engine}: {outcome.fault} done", advance=1)
    except RuntimeError as error:
        is_missing = f"{NotHere.__name__}: " in str(error)
        return outcomes, "" if is_missing else str(error), is_missing
    return outcomes, "", False


def _outcomes(engine: str, events: int, seed: int, names: list[str]) -> Iterator[Outcome]:
    """What a process of its own says of one engine. Raises RuntimeError when it ends in any other way."""
    command = [sys.executable, "-m", "recovery_ops.drill.engine", engine, str(events), str(seed), *names]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                given = json.loads(line)
                yield Outcome(**given | {"problems": tuple(given["problems"])})
        said = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise RuntimeError(said.strip().rpartition("\n")[2] or f"ended with {process.returncode}")


def _tell(outcomes: list[Outcome], failed: list[str], missing: list[str], *, is_json: bool, seed: int) -> None:
    totals = {name: sum(getattr(one, name) for one in outcomes) for name in ("sent", "acknowledged", "lost", "doubled")}
    if is_json:
        faults = [asdict(outcome) for outcome in outcomes]
        print(json.dumps({"seed": seed, **totals, "failed": failed, "missing": missing, "faults": faults}, indent=2))
        return
    table = Table(title=f"drill, seed {seed}", title_justify="left", box=None, pad_edge=False)
    table.add_column("fault")
    table.add_column("engine")
    for column in ("sent", "acknowledged", "lost", "doubled", "tries", "no answer", "503", "p99 s", "took s"):
        table.add_column(column, justify="right")
    table.add_column("")
    for one in outcomes:
        counts = (one.sent, one.acknowledged, one.lost, one.doubled, one.tries, one.unanswered, one.refused)
        cells = [f"{count:,}" for count in counts]
        told = "; ".join([one.note, *one.problems]) if one.note else "; ".join(one.problems)
        table.add_row(one.fault, one.engine, *cells, f"{one.p99_s:.2f}", f"{one.took_s:.1f}", told)
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(table)
    for sentence in dict.fromkeys([*failed, *missing]):
        console.print(sentence)
    counted = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    console.print(f"{counted}; every folded table is what its facts say: {_said(outcomes, failed)}")


def _said(outcomes: list[Outcome], failed: list[str]) -> str:
    return "yes" if outcomes and not failed and all(outcome.is_good for outcome in outcomes) else "no, see above"


if __name__ == "__main__":
    main(sys.argv[1:])
