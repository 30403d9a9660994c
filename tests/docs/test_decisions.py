"""The index of decisions: every record is in it once, under its own title."""

from __future__ import annotations

import re

from tests.support.processes import ROOT

FOLDER = ROOT / "docs" / "decisions"


def title_of(name: str) -> str:
    first = next(line for line in (FOLDER / name).read_text().splitlines() if line.startswith("# "))
    return re.sub(r"^# \d+\.?\s*", "", first)


def test_index_has_every_decision_by_its_title() -> None:
    rows = re.findall(r"^\| \[(\d{4})\]\(([\w-]+\.md)\) \| (.+) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    records = sorted(path.name for path in FOLDER.glob("0*.md"))
    assert rows == [(name[:4], name, title_of(name)) for name in records]
