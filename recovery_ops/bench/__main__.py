"""`manage.py bench [runtime|ingest|control|pages|outages|queries|replay|work]`: our own figures, beside others."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from recovery_ops.bench import control, detection, guarded, ingest, outages, pages, queries, replays, work
from recovery_ops.bench.figures import Figure, Report

NAMES = ("runtime", "ingest", "control", "pages", "outages")
ON_REQUEST = ("queries", "replay", "work")
"""What takes long, and is measured only by its name."""
SUSTAINED_S = 120.0


def main(arguments: list[str]) -> None:
    """Measure what was asked for, and print a table, or JSON."""
    parser = argparse.ArgumentParser(
        prog="manage.py bench",
        description="Measure guarded calls, intake, propagation of overrides, pages, queries, replay and workers.",
    )
    parser.add_argument(
        "what", nargs="*", metavar="|".join((*NAMES, *ON_REQUEST)), help=f"default: all but {', '.join(ON_REQUEST)}"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="duration of the intake test, in s; default: %(default)s"
    )
    parser.add_argument("--senders", type=int, default=ingest.SENDERS, help="number of senders; default: %(default)s")
    parser.add_argument("--sustained", action="store_true", help=f"intake test of {SUSTAINED_S:.0f} s")
    parser.add_argument("--engine", choices=ingest.ENGINES, help="database; default: all that are installed")
    parser.add_argument("--clients", type=int, default=1000, help="open streams during overrides; default: %(default)s")
    parser.add_argument("--runtimes", type=int, default=40, help="agents with the real runtime; default: %(default)s")
    parser.add_argument("--opamp", type=int, default=1000, help="OpAMP agents; default: %(default)s")
    parser.add_argument(
        "--facts", type=int, help=f"events of queries or replay; default: {queries.FACTS} or {replays.FACTS}"
    )
    parser.add_argument("--clicks", type=int, default=10, help="overrides, each set and cleared; default: %(default)s")
    parser.add_argument(
        "--scale", choices=pages.SCALES, default="small", help="size of the database behind pages; default: %(default)s"
    )
    said = parser.parse_args(arguments)
    unknown = [name for name in said.what if name not in (*NAMES, *ON_REQUEST)]
    if unknown:
        parser.error(f"nothing is called {unknown[0]}: choose from {', '.join((*NAMES, *ON_REQUEST))}")
    screen = Console(stderr=True)
    reports: list[Report] = []
    for name in said.what or NAMES:
        reports += _measured(name, said, screen)
    if said.json:
        print(json.dumps([report.document() for report in reports], indent=2))
        return
    for report in reports:
        _print(report, Console())


def _measured(name: str, said: argparse.Namespace, screen: Console) -> list[Report]:
    if name == "ingest":
        return ingest.measure(SUSTAINED_S if said.sustained else said.seconds, said.engine, screen, said.senders)
    if name == "queries":
        return queries.measure(said.facts or queries.FACTS, said.engine, screen)
    if name == "replay":
        return replays.measure(said.facts or replays.FACTS, said.engine, screen)
    with screen.status(f"measuring {name} …"):
        if name == "pages":
            return pages.measure(pages.SCALES[said.scale])
        if name == "control":
            return control.measure(control.Size(said.clients, said.runtimes, said.clicks, said.opamp), said.engine)
        if name == "work":
            return work.measure(said.engine)
        if name == "outages":
            return [outages.measure(), *detection.measure(said.engine)]
        return [guarded.measure()]


def _print(report: Report, console: Console) -> None:
    table = Table(title=report.name, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_column("of raw", justify="right")
    has_floor = any(figure.of_floor is not None for figure in report.figures)
    if has_floor:
        table.add_column("of floor", justify="right")
    table.add_column("aim", justify="right")
    table.add_column("")
    for figure in report.figures:
        table.add_row(*_cells(figure, has_floor=has_floor))
    console.print(table)


def _cells(figure: Figure, *, has_floor: bool) -> list[str]:
    if figure.value is None:
        return [figure.what, "–", "", *([""] if has_floor else []), "", figure.note]
    ratio = "" if figure.ratio is None else f"{figure.ratio:.0%}" if figure.ratio < 2 else f"{figure.ratio:,.1f} ×"
    floor = [f"{figure.of_floor:.2f} ×" if figure.of_floor is not None else ""] if has_floor else []
    aim = "" if figure.aim is None else f"{_number(figure.aim)} {figure.unit}"
    return [figure.what, f"{_number(figure.value)} {figure.unit}", ratio, *floor, aim, figure.note]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


if __name__ == "__main__":
    main(sys.argv[1:])
