"""The threat model claims nothing that no test shows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOLD = (ROOT / "docs/threats.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", TOLD)))


def names_in(path: Path) -> set[str]:
    return {one.name for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef)}


def test_every_test_it_names_exists() -> None:
    assert len(NAMED) > 30
    assert [f"{file}::{name}" for file, name in NAMED if name not in names_in(ROOT / file)] == []


def test_pytest_collects_every_test_it_names() -> None:
    """A function of that name may be a helper, or in a class that pytest passes by."""
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    files = sorted({file for file, _ in NAMED})
    told = subprocess.run([*asked, *files], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    collected = {
        (file, path[-1].partition("[")[0]) for file, *path in (line.split("::") for line in told.splitlines()) if path
    }
    assert len(collected) > len(NAMED)
    assert [f"{file}::{name}" for file, name in NAMED if (file, name) not in collected] == []


def test_every_claim_names_a_test_or_stands_under_not_defended() -> None:
    claimed, _, _ = TOLD.partition("## Not defended")
    claims = re.findall(r"^- .*?(?=^- |^#|\Z)", claimed, re.MULTILINE | re.DOTALL)
    assert len(claims) > 25
    assert [claim for claim in claims if "::test_" not in claim] == []
