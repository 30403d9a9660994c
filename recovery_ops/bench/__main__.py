"""`manage.py bench [runtime] [ingest] [control]`: the project's own figures, each beside the same work without it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from recovery_ops.bench import control, guarded, ingest
from recovery_ops.bench.figures import Figure, Report

MEASURES: dict[str, Callable[[], Report]] = {
    "runtime": guarded.measure,
    "ingest": ingest.measure,
    "control": control.measure,
}


def main(arguments: list[str]) -> None:
    """Measure what was asked for, and print a table, or JSON."""
    parser = argparse.ArgumentParser(
        prog="manage.py bench",
        description="Measure what a guard costs, how fast facts are taken in, and how soon a click is obeyed.",
    )
    parser.add_argument("what", nargs="*", metavar="|".join(MEASURES), help="default: everything")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    said = parser.parse_args(arguments)
    unknown = [name for name in said.what if name not in MEASURES]
    if unknown:
        parser.error(f"nothing is called {unknown[0]}: choose from {', '.join(MEASURES)}")
    screen, reports = Console(stderr=True), []
    for name in said.what or MEASURES:
        with screen.status(f"measuring {name} …"):
            reports.append(MEASURES[name]())
    if said.json:
        print(json.dumps([report.document() for report in reports], indent=2))
        return
    for report in reports:
        _print(report, Console())


def _print(report: Report, console: Console) -> None:
    table = Table(title=report.name, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_column("of raw", justify="right")
    table.add_column("aim", justify="right")
    table.add_column("")
    for figure in report.figures:
        table.add_row(*_cells(figure))
    console.print(table)


def _cells(figure: Figure) -> tuple[str, str, str, str, str]:
    ratio = f"{figure.ratio:.0%}" if figure.ratio is not None else ""
    aim = "" if figure.aim is None else f"{_number(figure.aim)} {figure.unit}"
    return figure.what, f"{_number(figure.value)} {figure.unit}", ratio, aim, figure.note


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


if __name__ == "__main__":
    main(sys.argv[1:])
