"""`manage.py drill work`: the same facts to two ways of running the console, of which one is done harm to."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from recovery_ops.drill.world import ROOT, NotHere
from recovery_ops.server.progress_bars import progress_bar

WAYS = {
    "services": "PostgreSQL, Redis, two workers, two schedulers; harmed",
    "embedded": "one process on SQLite; left in peace",
}
_COUNTS = ("messages", "arrived", "in_doubt", "twice", "lost", "doubled")
_MOST_SHOWN = 5


def main(arguments: list[str]) -> None:
    """Run both ways; exit with 1 when anything was lost, doubled, or is not the same."""
    parser = argparse.ArgumentParser(
        prog="manage.py drill work", description="Kill workers and flush Redis, and count what was lost and doubled."
    )
    add_options(parser)
    parser.add_argument("--seed", type=int, default=1, help="of everything that is chance; default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    said = parser.parse_args(arguments)
    if said.rounds < 1 or said.questions < 1:
        parser.error("rounds and questions are at least 1")
    told = run(said.seed, said.questions, said.rounds, stores_of(said))
    if said.json:
        print(json.dumps(told, indent=2))
    else:
        _tell(told)
    sys.exit(0 if told["is_good"] else 1)


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much is done, and to which stores."""
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each fault; default: %(default)s")
    parser.add_argument("--questions", type=int, default=40, help="number of escalations; default: %(default)s")
    parser.add_argument("--postgres", default="", help="URL of an empty, migrated database; default: one of its own")
    parser.add_argument("--sqlite", default="", help="an empty, migrated store to copy; default: one of its own")


def stores_of(said: argparse.Namespace) -> dict[str, str]:
    """The stores to begin with, by way."""
    return {"services": said.postgres, "embedded": said.sqlite}


def run(seed: int, questions: int, rounds: int, stores: Mapping[str, str]) -> dict[str, Any]:
    """Both ways side by side, from the same moment; what they counted, and where they differ.

    `stores` are migrated stores to begin with, by way; empty: one is made.
    """
    began = time.monotonic()
    words = [str(one) for one in (seed, questions, rounds)]
    ways = {way: _started(way, [*words, stores[way]]) for way in WAYS}
    told: dict[str, Any] = {"seed": seed, "ways": {}, "failed": [], "missing": []}
    try:
        if all(_said(process) == "ready" for process in ways.values()):
            now = f"{time.time_ns()}\n"
            for process in ways.values():
                assert process.stdin is not None  # noqa: S101  # it is a pipe
                process.stdin.write(now)
                process.stdin.flush()
    finally:
        with progress_bar("doing harm to one way, and none to the other", len(ways)) as tell:
            for done, (way, process) in enumerate(ways.items(), 1):
                out, err = process.communicate()
                _hear(told, way, process.returncode, out, err)
                tell(done)
    found = [one.pop("found") for one in told["ways"].values()]
    told["differences"] = differences(*found) if len(found) == len(WAYS) else []
    told["took_s"] = round(time.monotonic() - began, 1)
    wrong = [
        one
        for one in told["ways"].values()
        if one["problems"] or any(counts["lost"] or counts["doubled"] for counts in (one["counts"], one["beside"]))
    ]
    told["is_good"] = len(found) == len(WAYS) and not (wrong or told["differences"])
    return told


def differences(one: Mapping[str, Sequence[Any]], other: Mapping[str, Sequence[Any]]) -> list[str]:
    """In words, what stands in the tables of one way and not in those of the other; at most a few of each table."""
    told = []
    first, second = WAYS
    for table, rows in one.items():
        for way, some, others in ((first, rows, other[table]), (second, other[table], rows)):
            missing = [row for row in some if row not in others]
            told += [f"{table}: {row} is {way} only" for row in missing[:_MOST_SHOWN]]
    return told


def words_of(beside: Mapping[str, Any]) -> str:
    """What became of the facts that came in while Redis was flushed, away, and back."""
    counts = ", ".join(f"{beside[name]:,} {name}" for name in ("sent", "acknowledged", "lost", "doubled"))
    return f"beside Redis {counts}; {beside['silent_s']:.2f} s at most without a 200"


def _started(way: str, words: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "recovery_ops.drill.work_world", way, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    return process.stdout.readline().strip()


def _hear(told: dict[str, Any], way: str, code: int, out: str, err: str) -> None:
    line = out.strip().rpartition("\n")[2]
    if code == 0 and line.startswith("{"):
        told["ways"][way] = json.loads(line)
        return
    why = err.strip().rpartition("\n")[2] or f"ended with {code}"
    told["missing" if f"{NotHere.__name__}: " in why else "failed"].append(f"{way}: {why}")


def _tell(told: Mapping[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(title=f"drill work, seed {told['seed']}", title_justify="left", box=None, pad_edge=False)
    table.add_column("way")
    for column in ("facts", "outages", "questions", *_COUNTS):
        table.add_column(column.replace("_", " "), justify="right")
    for way, one in told["ways"].items():
        counts = [one["facts"], one["outages"], one["questions"], *(one["counts"][name] for name in _COUNTS)]
        table.add_row(f"{way}: {WAYS[way]}", *(f"{count:,}" for count in counts))
    console.print(table)
    for one in told["ways"].values():
        for name, count in one["done"].items():
            console.print(f"{count:>3} {name}")
        if one["beside"]["sent"]:
            console.print(words_of(one["beside"]))
    problems = [
        f"{way}: {words}" for way, one in told["ways"].items() for words in (*one["problems"], *one["counts"]["which"])
    ]
    for sentence in (*told["missing"], *told["failed"], *problems, *told["differences"]):
        console.print(sentence)
    said = "yes" if told["is_good"] else "no, see above"
    console.print(f"nothing lost, nothing sent twice, and both ways the same: {said} ({told['took_s']:.0f} s)")
