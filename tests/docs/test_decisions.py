"""The records of decisions: their form, the index, and every reference to one."""

from __future__ import annotations

import re

import pytest

from tests.support.processes import ROOT

FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(path.name for path in FOLDER.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Consequences", "Alternatives"]
PLACES = ("recovery_ops", "events", "tests", "templates", "static", "docs")
SUFFIXES = {".py", ".md", ".js", ".html"}


def test_records_have_title_date_status_and_sections_in_order(subtests: pytest.Subtests) -> None:
    for name in RECORDS:
        with subtests.test(name):
            text = (FOLDER / name).read_text()
            title, date, status, *_ = (line for line in text.splitlines() if line)
            assert title.startswith(f"# {name[:4]} ")
            assert re.fullmatch(r"Date: \d{4}-\d\d-\d\d", date)
            assert re.fullmatch(r"Status: (accepted|replaced by \d{4})", status)
            assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS


def test_index_lists_every_record_with_title_date_and_status() -> None:
    rows = re.findall(r"^\| \[\d{4}\]\((.+)\) \| (.+) \| (.+) \| (.+) \|$", (FOLDER / "README.md").read_text(), re.M)
    assert rows == [(name, *_head_of(name)) for name in RECORDS]


def test_numbers_follow_each_other() -> None:
    assert [int(name[:4]) for name in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_references_from_code_and_documents_name_records() -> None:
    found = {
        (str(path.relative_to(ROOT)), number)
        for place in PLACES
        for path in (ROOT / place).rglob("*")
        if path.suffix in SUFFIXES
        for number in re.findall(r"decisions/(\d{4})\b", path.read_text())
    }
    known = {name[:4] for name in RECORDS}
    assert len(found) > 10
    assert {one for one in found if one[1] not in known} == set()


def test_named_paths_exist() -> None:
    paths = re.compile(r"`((?:recovery_ops|events|tests|docs|templates|static)/[\w./-]+)`")
    named = [(name, path) for name in RECORDS for path in paths.findall((FOLDER / name).read_text())]
    assert named
    assert [(name, path) for name, path in named if not (ROOT / path).exists()] == []


def _head_of(name: str) -> tuple[str, str, str]:
    title, date, status, *_ = (line for line in (FOLDER / name).read_text().splitlines() if line)
    return title[len("# 0000 ") :], date.removeprefix("Date: "), status.removeprefix("Status: ")
