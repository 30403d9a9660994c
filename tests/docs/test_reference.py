"""The pages of docs/reference are those that the code makes, and the code reads every variable that they list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from recovery_ops.control import api_urls
from recovery_ops.control.api_docs.openapi import openapi
from recovery_ops.control.api_docs.summaries import SUMMARIES
from recovery_ops.runtime.process.identity import VARIABLES
from recovery_ops.server.variables import PREFIX, SECTIONS
from tests.docs import reference
from tests.docs.test_operate import is_address
from tests.support.guide import LINK, anchors, snippets
from tests.support.processes import ROOT

WRITTEN_BY_HAND = {"README"}
INTERNAL = {"DEMO_DIR", "DEMO_MAIL_PORT", "DEMO_OPERATOR_KEY", "DEMO_PERSON", "DEMO_PORT", "DEMO_SECRET"}
INTERNAL |= {"DRILL_MOUNTS", "ENTERED_VENV", "NO_VENV"}
"""Between our own processes, and for developers."""
LONGEST_SUMMARY = 60


@pytest.mark.parametrize("name", reference.PAGES)
def test_page_is_what_the_code_makes(name: str) -> None:
    assert (reference.FOLDER / f"{name}.md").read_text() == reference.PAGES[name](), f"run {reference.COMMAND}"


def test_named_urls_of_the_console_exist() -> None:
    pages = {name: (reference.FOLDER / f"{name}.md").read_text() for name in reference.PAGES}
    found = {
        url for text in pages.values() for url in re.findall(r"`(?:GET )?(/(?:api/v1/|docs/|metrics)[\w./-]*)`", text)
    }
    assert found
    assert {url for url in found if not is_address(url)} == set()


def test_folder_has_no_other_pages() -> None:
    there = {path.stem for path in reference.FOLDER.glob("*.md")}
    assert there == {*reference.PAGES, *WRITTEN_BY_HAND}


def test_index_lists_every_page() -> None:
    links = set(LINK.findall((reference.FOLDER / "README.md").read_text()))
    assert {f"{name}.md" for name in reference.PAGES} <= links


def variables_in(*folders: str) -> set[str]:
    """Names of variables in the code below the folders, without prefix."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    code = "\n".join(path.read_text() for path in [*files, ROOT / "manage.py"])
    return {name.removeprefix(PREFIX) for name in re.findall(rf"{PREFIX}[A-Z_]*[A-Z]\b", code)}


def test_variables_of_the_code_are_documented() -> None:
    documented = {name for section in SECTIONS.values() for name in section} | set(VARIABLES)
    assert variables_in("recovery_ops", "events") - documented - INTERNAL == set()


def test_documented_variables_are_read() -> None:
    declared = "recovery_ops/server/variables.py"
    files = [path for path in (ROOT / "recovery_ops").rglob("*.py") if str(path.relative_to(ROOT)) != declared]
    code = "\n".join(path.read_text() for path in files)
    names = {name for section in SECTIONS.values() for name in section}
    unread = {name for name in names if PREFIX + name not in code}
    limits = {name for name in names if name.startswith("MOST_")}  # read by kind
    assert limits == {f"MOST_{kind.upper()}S" for kind in settings.MOST_NAMES}
    assert unread - limits == set()


def test_summaries_are_short_and_all_in_use() -> None:
    paths = openapi(api_urls.urlpatterns)["paths"]
    found = {f"{method.upper()} {path.removeprefix('/api/v1/')}" for path, its in paths.items() for method in its}
    assert found == set(SUMMARIES)
    assert [one for one in SUMMARIES.values() if len(one) > LONGEST_SUMMARY or one.endswith(".")] == []


def test_snippets_run() -> None:
    for snippet in snippets((reference.FOLDER / "runtime.md").read_text()):
        exec(snippet, {})


@pytest.mark.parametrize("path", sorted(reference.FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text()):
        target, _, anchor = link.partition("#")
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), link
        assert not anchor or anchor in anchors(there.read_text()), link
