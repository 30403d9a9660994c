"""Which tests a run holds: tiers by folder and mark, slices by what changed, and the closing lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from recovery_ops.server import bootstrap
from tests import tiers
from tests.support import closing
from tests.support.processes import ROOT, clean_environment

pytestmark = pytest.mark.quick


def test_every_test_file_has_tier_and_slice() -> None:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "packages" not in path.parts]
    assert [path for path in files if tiers.place_of(path) is None] == []
    full = [path.relative_to(ROOT).as_posix() for path in files if tiers.place_of(path) == "full"]
    assert {tiers.slice_of(path) for path in full} <= tiers.SLICES.keys()


def test_workflow_runs_every_slice() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    [listed] = re.findall(r"slice: \[(.*)\]", workflow)
    [beside_default] = re.findall(r"RECOVERY_OPS_CI_SLICES: (\w+)", workflow)
    assert {*listed.split(", "), beside_default} == tiers.SLICES.keys()


def test_unknown_folder_has_no_tier() -> None:
    assert tiers.place_of(ROOT / "tests" / "unheard" / "test_x.py") is None
    with pytest.raises(pytest.UsageError):
        tiers.slice_of("tests/unheard/test_x.py")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("events/store/writes.py", {"events", "seeded"}),
        ("recovery_ops/rules/resilience/call_steps.py", {"agent", "events"}),
        ("recovery_ops/control/core/permissions.py", {"control", "browser", "flows"}),
        ("static/app.css", {"looks", "browser"}),
        ("docs/changelog.md", {"control"}),
        ("tests/flows/test_pauses.py", {"flows"}),
        ("manage.py", {"process"}),
        ("tests/support/golden.py", {"control"}),
        ("tests/support/databases.py", set(tiers.SLICES)),
        ("pyproject.toml", set(tiers.SLICES)),
        ("README.md", set()),
        (".ci/run", set(tiers.SLICES)),
        (".ci/passed", set()),
    ],
)
def test_changed_path_asks_for_its_slices(path: str, expected: set[str]) -> None:
    assert set(tiers.slices_for([path])) == expected


def test_every_product_folder_asks_for_a_slice() -> None:
    """A folder in no row would be tested only when its slice's turn comes."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    product = [path for path in listed if path.startswith(("recovery_ops/", "events/", "templates/", "static/"))]
    assert [path for path in product if not tiers.slices_for([path])] == []


def test_without_base_every_slice_runs() -> None:
    assert tiers.slices_since("") == list(tiers.SLICES)
    assert tiers.slices_since("0" * 40) == list(tiers.SLICES)


def test_without_changes_one_slice_runs_in_turn() -> None:
    listed = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout")
    assert len(tiers.slices_since("HEAD")) == 1


@pytest.mark.parametrize(
    ("marks", "code", "problem"),
    [("quick", 0, ""), ("full", 5, ""), ("quick,full", 4, "is of 2 tiers")],
)
def test_marks_decide_and_two_fail_the_collection(marks: str, code: int, problem: str) -> None:
    folder = ROOT / "tests" / "wire"
    lines = [f"@pytest.mark.{name}\n" for name in marks.split(",")]
    file = folder / f"test_made_{uuid4().hex}.py"
    file.write_text(f"import pytest\n\n{''.join(lines)}def test_x() -> None: ...\n")
    try:
        words = [sys.executable, "-m", "pytest", "--tier=quick", "-q", "-p", "no:cacheprovider", str(file)]
        done = subprocess.run(words, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)
    finally:
        file.unlink()
    assert done.returncode == code, done.stdout
    assert problem in done.stdout + done.stderr


def report(tier: str, duration: float = 1.0, when: str = "call") -> Any:
    return SimpleNamespace(user_properties=[("tier", tier)], duration=duration, when=when)


@pytest.mark.parametrize(("took_s", "is_over"), [(100.0, False), (151.0, True)])
def test_closing_lines_name_a_run_over_budget(took_s: float, is_over: bool) -> None:
    stats = {"passed": [report("quick", 40.0), report("quick", 2.0, "setup")], "deselected": [object()]}
    *counted, last = closing.lines(stats, "quick", took_s)
    assert [line.split()[:3] for line, _ in counted] == [["tier", "quick:", "1"]]
    assert last[1] is is_over


def test_run_of_a_path_has_no_budget() -> None:
    assert [is_over for _, is_over in closing.lines({"passed": [report("full")]}, "", 1e6)] == [False]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["--tier=default"]),
        (["--quick"], ["--tier=quick"]),
        (["--all", "--durations=30"], ["--tier=all", "--durations=30"]),
        (["--slice", "events"], ["--slice=events"]),
        (["tests/wire"], ["tests/wire"]),
        (["tests/wire", "--quick"], ["--tier=quick", "tests/wire"]),
        (["tests/test_tiers.py::test_x", "-x"], ["tests/test_tiers.py::test_x", "-x"]),
    ],
)
def test_words_of_manage_become_words_of_pytest(
    words: list[str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _, argv: run.append(argv))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name in ("prepare_integrations", "_get_browser"):
        monkeypatch.setattr(bootstrap, name, lambda: None)
    bootstrap.run_tests(words)
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ, "its processes share what the first one compiles"
    passed_on = run[0][3:]
    if passed_on[:1] == ["-n"]:
        passed_on = passed_on[2:]
    assert passed_on == expected
