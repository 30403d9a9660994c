"""The threat model claims nothing that no test shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOLD = (ROOT / "docs/threats.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", TOLD)))


def collected_in(path: Path) -> set[str]:
    """What pytest would run of a file: functions of the module and of its classes `Test…`, and no fixtures."""
    module = ast.parse(path.read_text())
    rooms: list[ast.Module | ast.ClassDef] = [module]
    rooms += [one for one in module.body if isinstance(one, ast.ClassDef) and one.name.startswith("Test")]
    functions = (one for room in rooms for one in room.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return {one.name for one in functions if not any("pytest.fixture" in ast.unparse(by) for by in one.decorator_list)}


def test_every_test_it_names_is_one_that_runs() -> None:
    assert len(NAMED) > 30
    found = {file: collected_in(ROOT / file) for file, _ in NAMED}
    assert [f"{file}::{name}" for file, name in NAMED if name not in found[file]] == []


def test_every_claim_names_a_test_or_stands_under_not_defended() -> None:
    claimed, _, _ = TOLD.partition("## Not defended")
    claims = re.findall(r"^- .*?(?=^- |^#|\Z)", claimed, re.MULTILINE | re.DOTALL)
    assert len(claims) > 25
    assert [claim for claim in claims if "::test_" not in claim] == []
