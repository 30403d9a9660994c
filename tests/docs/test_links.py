"""Links between documents: each leads to a file and, where it names one, to a heading."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.support.processes import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_links_lead_to_files_and_headings() -> None:
    links = [(page, target) for page in PAGES for target in _links_of(page)]
    assert len(links) > 100
    assert [f"{page.relative_to(ROOT)}: {target}" for page, target in links if not _is_there(page, target)] == []


def _links_of(page: Path) -> list[str]:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(([^()\s]+)\)", prose) if not re.match(r"\w+:", link)]


def _is_there(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.exists() and (not anchor or file.suffix != ".md" or anchor in _anchors_of(file))


@cache
def _anchors_of(file: Path) -> set[str]:
    """Anchors of a page's headings, as forges make them: small letters, hyphens for spaces, no other signs."""
    text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    anchors = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\]\([^)]*\)", "", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        anchors.add(slug if slug not in found else f"{slug}-{found[slug]}")
        found[slug] = found.get(slug, 0) + 1
    return anchors
