"""`manage.py drill`: faults on purpose; prints what was sent, acknowledged, lost and doubled in each.

`drill facts` is what is done to facts on their way in, `drill work` (in `drill.work`) what is done to the work about
them; without either word it is the whole list.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from recovery_ops.drill import whole, work
from recovery_ops.drill.catalogue import FAULTS
from recovery_ops.drill.engine import Outcome
from recovery_ops.drill.room import beside_the_others
from recovery_ops.drill.world import ROOT, NotHere

ENGINES = ("sqlite", "postgresql")
FULL_NAMES, FEWEST_NAMES = 1_000_000, 2_000
NAMES = tuple(fault.name for fault in FAULTS)


def main(arguments: list[str]) -> None:
    """Run the faults; exit with 1 when anything was lost, doubled or otherwise wrong."""
    if arguments[:1] == ["work"]:
        work.main(arguments[1:])
        return
    parser = argparse.ArgumentParser(
        prog="manage.py drill", description="Inject faults, and count lost and duplicated events."
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=["all", "facts", "work"],
        help="faults of the intake, or of background work; default: all, J1 to J18",
    )
    parser.add_argument("faults", nargs="*", metavar="|".join(NAMES), help="faults of the intake; default: all")
    parser.add_argument("--events", type=int, default=100_000, help="number of events; default: %(default)s")
    parser.add_argument("--engine", choices=ENGINES, help="default: both, if PostgreSQL is installed")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers; default: %(default)s")
    parser.add_argument(
        "--full", action="store_true", help=f"{FULL_NAMES:,} different names (J13); default: an eighth of the events"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    work.add_options(parser)
    said = parser.parse_intermixed_args(arguments)
    names = [name.upper() for name in said.faults]
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no fault {unknown[0]}: choose from {', '.join(NAMES)}")
    if said.what == "all" and (names or said.engine):
        parser.error("to choose among faults or engines, say which part: drill facts")
    endless = FULL_NAMES if said.full else min(FULL_NAMES, max(FEWEST_NAMES, said.events // 8))
    outcomes, failed, missing = _facts(said.engine, said.events, said.seed, endless, names)
    if said.what == "all":
        _whole(said, outcomes, failed, missing)
    _tell(outcomes, failed, missing, is_json=said.json, seed=said.seed)
    sys.exit(0 if outcomes and not failed and all(outcome.is_good for outcome in outcomes) else 1)


def _facts(
    only: str | None, events: int, seed: int, endless: int, names: list[str]
) -> tuple[list[Outcome], list[str], list[str]]:
    """What was found on each engine, what broke off, and what this machine lacks."""
    engines = ENGINES if only is None else (only,)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    share = -(-events // len(engines))
    # Side by side: most of the time is spent waiting for something to start.
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as progress,
        ThreadPoolExecutor(len(engines)) as pool,
    ):
        runs = [pool.submit(_run, engine, share, seed, endless, names, progress) for engine in engines]
    outcomes = [outcome for run in runs for outcome in run.result()[0]]
    missing = [f"{engine} is not on this machine" for engine, run in zip(engines, runs, strict=True) if run.result()[2]]
    failed = [f"{engine}: {run.result()[1]}" for engine, run in zip(engines, runs, strict=True) if run.result()[1]]
    return outcomes, [*failed, *(missing if only is not None else [])], missing


def _whole(said: argparse.Namespace, outcomes: list[Outcome], failed: list[str], missing: list[str]) -> None:
    """Do the harm to the work as well, tell the whole list, and end."""
    worked = work.run(said.seed, said.questions, said.rounds, work.stores_of(said))
    found = whole.lines(outcomes, worked)
    failed, missing = [*failed, *worked["failed"], *worked["differences"]], [*missing, *worked["missing"]]
    not_run = whole.missing(found)
    is_good = bool(found) and not (failed or not_run) and all(line.is_good for line in found)
    if said.json:
        told = {"seed": said.seed, "faults": whole.document(found), "facts": [asdict(one) for one in outcomes]}
        told |= {"work": worked, "failed": failed, "missing": missing, "not_run": not_run, "is_good": is_good}
        print(json.dumps(told, indent=2))
    else:
        _tell_whole(said.seed, found, [*failed, *missing], not_run, is_good=is_good)
    sys.exit(0 if is_good else 1)


def _tell_whole(seed: int, found: list[whole.Line], wrong: list[str], not_run: list[str], *, is_good: bool) -> None:
    table = Table(title=f"drill, seed {seed}", title_justify="left", box=None, pad_edge=False)
    for column in ("", "fault", "way"):
        table.add_column(column)
    for column in ("sent", "acknowledged", "lost", "doubled"):
        table.add_column(column, justify="right")
    table.add_column("what was seen")
    for line in found:
        counts = (line.sent, line.acknowledged, line.lost, line.doubled)
        cells = ["–" if count is None else f"{count:,}" for count in counts]
        table.add_row(line.fault, line.words, line.way, *cells, line.note)
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(table)
    for sentence in dict.fromkeys(wrong):
        console.print(sentence)
    if not_run:
        console.print(f"not run: {', '.join(not_run)}")
    console.print(
        f"nothing lost, nothing doubled, and everything as it has to be: {'yes' if is_good else 'no, see above'}"
    )


def _run(
    engine: str, events: int, seed: int, endless: int, names: list[str], progress: Progress
) -> tuple[list[Outcome], str, bool]:
    """One engine's outcomes, why they broke off, and whether the engine is missing."""
    outcomes: list[Outcome] = []
    faults = [fault for fault in FAULTS if (not names or fault.name in names)]
    total = sum(engine == "postgresql" or not fault.needs_postgres for fault in faults)
    bar = progress.add_task(f"{engine}: starting", total=total)
    try:
        for outcome in _outcomes(engine, events, seed, endless, names):
            outcomes.append(outcome)
            progress.update(bar, description=f"{engine}: {outcome.fault} done", advance=1)
    except RuntimeError as error:
        is_missing = f"{NotHere.__name__}: " in str(error)
        return outcomes, "" if is_missing else str(error), is_missing
    return outcomes, "", False


def _outcomes(engine: str, events: int, seed: int, endless: int, names: list[str]) -> Iterator[Outcome]:
    """What a process of its own says of one engine. Raises RuntimeError when it ends in any other way."""
    before, said = beside_the_others()
    words = ["-m", "recovery_ops.drill.engine", engine, str(events), str(seed), str(endless), *names]
    command, env = [*before, sys.executable, *words], os.environ | said
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            if line.startswith("{"):
                given = json.loads(line)
                yield Outcome(**given | {"problems": tuple(given["problems"])})
        complaint = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise RuntimeError(complaint.strip().rpartition("\n")[2] or f"ended with {process.returncode}")


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
