"""Which tier each test is of, and what a tier may take.

`quick` is what one runs after every change, `default` what `manage.py test` runs beside it, `full` all the rest, which
`manage.py test --all` runs. A test is of the tier of its closest mark, else of its place below; one without either
fails the collection, and so does one with two marks at the same level.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TIERS = ("quick", "default", "full")
BUDGET_S = {"quick": 150, "default": 600, "full": 3600}
"""How long a run of a tier, with those before it, takes on two cores at most."""

PLACES = {
    "tests": "default",
    "tests/bench": "full",
    "tests/browser": "full",
    "tests/cli": "default",
    "tests/control": "default",
    "tests/demo": "full",
    "tests/docs": "default",
    "tests/events": "default",
    "tests/exporters": "full",
    "tests/flows": "full",
    "tests/fuzz": "full",
    "tests/integrations": "full",
    "tests/rules": "quick",
    "tests/runtime": "quick",
    "tests/wire": "quick",
}


@dataclass(frozen=True)
class Slice:
    """A part of the `full` tier, and the paths of the product whose change asks for it."""

    tests: tuple[str, ...]
    product: tuple[str, ...]


_AGENT = ("recovery_ops/rules", "recovery_ops/wire", "recovery_ops/runtime")
_LOOSE = tuple(path.name for path in (ROOT / "recovery_ops").iterdir() if path.suffix)
_PAGES = ("recovery_ops/control", "templates", "static", "events/queries")
SLICES = {
    "agent": Slice(
        ("tests/rules", "tests/wire", "tests/runtime", "tests/integrations", "tests/fuzz", "tests/test_any_journey.py"),
        _AGENT,
    ),
    "events": Slice(("tests/events", "tests/exporters"), ("events", *_AGENT[:2])),
    "control": Slice(
        ("tests/control", "tests/cli", "tests/docs"), ("recovery_ops/control", "recovery_ops/cli", "docs")
    ),
    "seeded": Slice(("tests/browser/test_seeded.py",), ("events", "recovery_ops/bench")),
    "looks": Slice(
        ("tests/browser/test_axe.py", "tests/browser/test_looks.py", "tests/browser/test_printed.py"),
        ("templates", "static"),
    ),
    "browser": Slice(("tests/browser",), _PAGES),
    "flows": Slice(("tests/flows", "tests/demo"), ("recovery_ops/control", "recovery_ops/demo", "docs/production")),
    "process": Slice(
        ("tests/test_", "tests/bench"),
        ("manage.py", *(f"recovery_ops/{name}" for name in ("bench", "drill", "locks", "server", *_LOOSE))),
    ),
}
"""A test of the `full` tier is in the first slice whose path begins its own; `tests/test_` is every loose file."""

_EVERYWHERE = ("tests/conftest.py", "tests/settings.py", "tests/tiers.py", "pyproject.toml", ".ci/run")
"""Paths that every slice depends on; `.ci/passed` is none: it changes with every commit that passed. A change of
a module in tests/support asks for the slices that import it.
"""


def tier_of(item: pytest.Item) -> str:
    """The tier of a test; raises `pytest.UsageError` where there is none, or more than one."""
    for node in reversed(item.listchain()):
        marks: set[str] = {mark.name for mark in getattr(node, "own_markers", ()) if mark.name in TIERS}
        if len(marks) > 1:
            raise pytest.UsageError(f"{item.nodeid} is of {len(marks)} tiers: {', '.join(sorted(marks))}")
        if marks:
            return marks.pop()
    tier = place_of(item.path)
    if tier is None:
        raise pytest.UsageError(f"{item.path.relative_to(ROOT)} has no tier: add its folder to tests/tiers.py")
    return tier


def place_of(file: Path) -> str | None:
    """The tier of a file's folder; None where that is in no row."""
    path = file.relative_to(ROOT)
    places = [str(place) for place in path.parents if str(place) in PLACES]
    return PLACES[places[0]] if places and (places[0] != "tests" or len(path.parts) == 2) else None


def slice_of(path: str) -> str:
    """The slice of a test file, as a path from the root; raises `pytest.UsageError` where there is none."""
    for name, one in SLICES.items():
        if any(path.startswith(begin) for begin in one.tests):
            return name
    raise pytest.UsageError(f"{path} is in no slice: add its folder to tests/tiers.py")


def slices_for(changed: Iterable[str]) -> list[str]:
    """The slices that changed files ask for, in the order of the table."""
    paths = {path for one in changed for path in _with_importers(one)}
    if any(path.startswith(_EVERYWHERE) for path in paths):
        return list(SLICES)
    return [name for name, one in SLICES.items() if any(path.startswith((*one.product, *one.tests)) for path in paths)]


def _with_importers(path: str) -> set[str]:
    """A module of tests/support with the files of tests that import it, also through others; else the path alone."""
    found, waiting = {path}, [path]
    while waiting:
        if (one := waiting.pop()).startswith("tests/support/"):
            new = _importers_by_module().get(one.removesuffix(".py").replace("/", "."), set()) - found
            found |= new
            waiting.extend(new)
    return found


@cache
def _importers_by_module() -> dict[str, set[str]]:
    """The files below tests that import a module of tests/support, by its dotted name."""
    importers: dict[str, set[str]] = defaultdict(set)
    for file in (ROOT / "tests").rglob("*.py"):
        text, path = file.read_text(), str(file.relative_to(ROOT))
        for module in re.findall(r"\btests\.support\.\w+", text):
            importers[module].add(path)
        for names in re.findall(r"^from tests\.support import (.+)$", text, re.MULTILINE):
            for name in re.findall(r"\w+", names):
                importers[f"tests.support.{name}"].add(path)
    return importers


def wanted_tiers(chosen: str) -> tuple[str, ...]:
    """The tiers that a run of `chosen` holds."""
    return TIERS[: TIERS.index(chosen) + 1]


def slices_since(base: str) -> list[str]:
    """What CI runs of the full tier: the slices that the changes since a commit ask for, and one more in turn.

    Without such a commit: all of them.
    """
    changed = _git("diff", "--name-only", f"{base}...HEAD") if base else None
    if changed is None:
        return list(SLICES)
    commits = _git("rev-list", "--count", "HEAD") or ["0"]
    in_turn = list(SLICES)[int(commits[0]) % len(SLICES)]
    return [name for name in SLICES if name in {*slices_for(changed), in_turn}]


def _git(*words: str) -> list[str] | None:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else None


if __name__ == "__main__":
    print(",".join(slices_since(sys.argv[1] if len(sys.argv) > 1 else "")))
