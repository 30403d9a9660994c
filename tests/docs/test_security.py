"""The threat model claims nothing without a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/security.md").read_text()
NAMED = sorted(set(re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", TEXT)))
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))


def test_named_tests_are_collected() -> None:
    assert len(NAMED) > 60
    collected = {file: _collected_in(ROOT / file) for _, file in NAMED}
    assert [f"{file}::{name}" for name, file in NAMED if name not in collected[file]] == []


def test_every_threat_names_a_test() -> None:
    rows = [row for title, body in SECTIONS.items() if title.startswith("Threats") for row in _rows_of(body)]
    assert len(rows) > 40
    assert [row for row in rows if "[`test_" not in row] == []


def test_threats_without_cover_name_no_test() -> None:
    rows = _rows_of(SECTIONS["Not covered"])
    assert rows
    assert [row for row in rows if "[`test_" in row] == []


def _rows_of(section: str) -> list[str]:
    """The rows of a section's table without its head."""
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def _collected_in(path: Path) -> set[str]:
    """Names of a file's tests, in the module and in classes `Test…`, without fixtures."""
    module = ast.parse(path.read_text())
    places: list[ast.Module | ast.ClassDef] = [module]
    places += [one for one in module.body if isinstance(one, ast.ClassDef) and one.name.startswith("Test")]
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = [one for place in places for one in place.body if isinstance(one, kinds)]
    return {one.name for one in functions if not any("pytest.fixture" in ast.unparse(by) for by in one.decorator_list)}
