"""The guide: snippets run, tables are those of the rules, outputs are what examples print, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import recovery_ops.runtime
from recovery_ops.rules import events
from recovery_ops.rules.enums import FOUNDATIONAL_FAILED, TERMINAL
from recovery_ops.rules.tools.results import RUN_TELLINGS, ResultKind
from recovery_ops.runtime import default_client as own_client
from recovery_ops.runtime.guards.options import AllGuardOptions
from recovery_ops.runtime.process.identity import VARIABLES
from recovery_ops.runtime.testing import Lab
from tests.docs import generated
from tests.docs.worlds import ANSWER, WORLDS
from tests.support.guide import FENCE, LINK, anchors, snippets
from tests.support.processes import ROOT

PAGES = [page.stem for page in generated.pages()]
MOST_WORDS = 1_200
"""Five minutes at 240 words a minute."""


def text_of(page: str) -> str:
    return (generated.GUIDE / f"{page}.md").read_text()


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """A laboratory that stands in for every `Recovery` that a snippet makes or takes for granted."""
    lab = Lab(directory=tmp_path / "state")
    monkeypatch.setattr(recovery_ops.runtime, "Recovery", lambda *args, **said: lab.recovery)
    monkeypatch.setattr(own_client._own, "_found", lab.recovery)
    return lab


def run_page(page: str, lab: Lab, folder: Path) -> dict[str, Any]:
    """Run the snippets of a page, one after the other, in one namespace; each failure names its line."""
    names: dict[str, Any] = {"recovery": lab.recovery, **WORLDS[page](lab, folder)}
    path = generated.GUIDE / f"{page}.md"
    text = path.read_text()
    for snippet in snippets(text):
        line = text[: text.index(snippet)].count("\n")
        exec(compile("\n" * line + snippet, str(path), "exec"), names)  # as the page has it, at its own lines
    return names


@pytest.mark.parametrize("page", sorted(WORLDS))
def test_every_snippet_runs(page: str, lab: Lab, tmp_path: Path) -> None:
    run_page(page, lab, tmp_path)


def test_each_page_runs_here_or_with_the_packages() -> None:
    assert set(PAGES) - set(WORLDS) == {"integrations"}  # tests/integrations/packages runs it


class TestWhatTheSnippetsCameTo:
    def test_the_three_lines_guard(self, lab: Lab, tmp_path: Path) -> None:
        names = run_page("README", lab, tmp_path)
        assert names["search_web"]("breakers") == ["a page"]
        assert names["search_web"].operation.name == "search_web"

    def test_fallback_warning_and_missing_part(self, lab: Lab, tmp_path: Path) -> None:
        names = run_page("fallbacks", lab, tmp_path)
        assert names["offer"] == {"LX 38": 420, "mood": "not known"}
        assert names["told"] == ["prices up to 1 h old"]

    def test_the_chain_starts_with_its_first_model(self, lab: Lab, tmp_path: Path) -> None:
        names = run_page("models", lab, tmp_path)
        assert names["ask"](["hello"]) == {"model": "large", "max_tokens": 8000, "messages": ["hello"]}

    def test_the_loop_ends_with_a_whole_transcript(self, lab: Lab, tmp_path: Path) -> None:
        names = run_page("tools", lab, tmp_path)
        assert [message["role"] for message in names["taken_up"].messages] == ["user", "assistant", "user"]
        assert names["messages"][-1] == {"role": "user", "content": names["taken_up"].briefing}
        assert (names["reply"], names["ask_in_words"].calls) == (ANSWER, 2)
        assert [fact.turns for fact in lab.events_of(events.RunFinished)] == [2]

    def test_the_workflow_sends_a_key_and_the_failure_names_its_resume_id(self, lab: Lab, tmp_path: Path) -> None:
        names = run_page("workflows", lab, tmp_path)
        assert (names["receipt"], len(names["keys"]), names["saved"]) == ("refunded ch-1", 1, ["refund/order-8"])
        assert names["keys"][0]
        assert [step.step for step in names["flow"].steps()] == ["refund"]

    def test_the_playbook_booked_in_the_end(self, lab: Lab, tmp_path: Path) -> None:
        assert run_page("failures", lab, tmp_path)["invoice"] == "booked"


@pytest.mark.parametrize("page", PAGES)
def test_tables_and_outputs_are_those_of_the_code(page: str) -> None:
    for found in generated.MARKED.finditer(text_of(page)):
        assert found["content"] == generated.part(found["name"]), (
            f"{found['name']} in {page}.md is stale: PYTHONPATH=. python -m tests.docs.generated"
        )


def test_every_table_and_every_program_stands_somewhere() -> None:
    marked = {found["name"] for page in PAGES for found in generated.MARKED.finditer(text_of(page))}
    programs = {path.stem for path in generated.EXAMPLES.glob("*.py") if "__main__" in path.read_text()}
    assert marked == {*generated.TABLES, *(f"output {program}" for program in programs)}


def rows(text: str, title: str) -> list[list[str]]:
    """The first cells' words in backticks, of the table whose head begins so; one list for each row."""
    _, _, rest = text.partition(f"\n| {title} |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", line.split(" | ")[0]) for line in lines]


def test_every_word_of_a_guard_is_told() -> None:
    told = [word for cell in rows(text_of("guard-options"), "option") for word in cell]
    assert sorted(told) == sorted(AllGuardOptions.__annotations__)


def test_every_reason_to_end_a_run_is_told() -> None:
    told = [word for cell in rows(text_of("run-limits"), "`reason`") for word in cell]
    assert set(told) == {*TERMINAL, FOUNDATIONAL_FAILED, *RUN_TELLINGS}


@pytest.mark.parametrize("page", PAGES)
def test_page_reads_in_five_minutes(page: str) -> None:
    prose = FENCE.sub("", text_of(page))
    assert len(prose.split()) <= MOST_WORDS


def test_every_kind_of_result_is_told() -> None:
    told = [word for cell in rows(text_of("tools"), "`kind`") for word in cell]
    assert sorted(told) == sorted(kind.value for kind in ResultKind)


def test_the_variables_are_those_that_the_runtime_reads() -> None:
    named = {name for page in PAGES for name in re.findall(r"RECOVERY_OPS_[A-Z]+", text_of(page))}
    code = "".join(path.read_text() for path in (ROOT / "recovery_ops" / "runtime").rglob("*.py"))
    read = set(re.findall(r"\"(RECOVERY_OPS_[A-Z]+)\"", code))
    assert read == {f"RECOVERY_OPS_{name}" for name in VARIABLES}
    assert named <= read


def test_integrations_that_are_named_exist() -> None:
    told = {name for page in PAGES for name in re.findall(r"runtime\.integrations\.(\w+)", text_of(page))}
    assert told
    folder = ROOT / "recovery_ops" / "runtime" / "integrations"
    assert all((folder / f"{name}.py").exists() for name in told)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in LINK.findall(text_of(page)):
        path, _, anchor = link.partition("#")
        target = (generated.GUIDE / path).resolve() if path else generated.GUIDE / f"{page}.md"
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


def test_every_page_and_example_is_in_the_index() -> None:
    links = set(LINK.findall(text_of("README")))
    assert {f"{page}.md" for page in PAGES if page != "README"} <= links
    assert {f"examples/{path.name}" for path in generated.EXAMPLES.glob("*.py")} <= links
