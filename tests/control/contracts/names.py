"""The table of old and new names in docs/glossary.md, and golden files translated through it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = Path(__file__).parent / "golden"
KINDS = ("verb", "url", "field", "column", "command", "wire")
NONE = "–"


@cache
def renamed() -> Mapping[str, Mapping[str, str]]:
    """New names by kind and old name. A removed name maps to an empty text; an added one stands under `+name`."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if len(cells) == 4 and cells[0] in KINDS:
            kind, old, new, _ = cells
            if old == NONE:
                found[kind][f"+{new}"] = new
            else:
                found[kind][old] = "" if new == NONE else new
    return found


def translated(kind: str, names: set[str]) -> set[str]:
    """Old names as the table says that they are called now."""
    table = renamed().get(kind, {})
    kept = {table.get(name, name) for name in names} - {""}
    return kept | {new for old, new in table.items() if old.startswith("+")}


def golden(name: str) -> Any:
    """A frozen document."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


def freeze(name: str, document: Any) -> None:
    """Write a document as the golden one. Done once; from then on the table says what changed."""
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{name}.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
