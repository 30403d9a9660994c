"""`python -m recovery_ops.runtime status [--json] [DIR]`: the agents of this machine, and what they do now."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from recovery_ops.runtime.process import status_files
from recovery_ops.runtime.process.files import state_directory

_COLUMNS = ("process", "operation", "calls", "failures", "retries", "breaker", "state", "since")


def rows(processes: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """One row for each operation of each process."""
    found = []
    for one in processes:
        process = f"{one.get('service', '')} {one.get('pid', '')}" + ("" if one["is_alive"] else " (ended)")
        operations = one.get("operations") or {"-": {}}
        for name, counts in operations.items():
            breaker = str(counts.get("breaker", ""))
            held = one.get("breakers", {}).get(breaker, {})
            cells = (counts.get("calls", 0), sum(counts.get("failures", {}).values()), counts.get("retries", 0))
            state = (held.get("state") or "", held.get("since") or "")
            found.append((process, name, *map(str, cells), breaker, *state))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Print the status of every process that wrote one; 1 where there is none."""
    parser = argparse.ArgumentParser(prog="python -m recovery_ops.runtime")
    status = parser.add_subparsers(required=True).add_parser("status", help="the agents of this machine")
    status.add_argument("--json", action="store_true", help="as JSON")
    status.add_argument("directory", nargs="?", type=Path, help="default: RECOVERY_OPS_DIR")
    said = parser.parse_args(argv)
    directory = said.directory or state_directory()
    processes = status_files.read(directory, time.time())
    if said.json:
        sys.stdout.write(json.dumps(processes, indent=2) + "\n")
    elif processes:
        table = [_COLUMNS, *rows(processes)]
        widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
        for row in table:
            sys.stdout.write(
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
            )
    else:
        sys.stdout.write(f"No agent has written its status below {directory}: give agents RECOVERY_OPS_DIR.\n")
    return 0 if processes else 1


if __name__ == "__main__":
    sys.exit(main())
