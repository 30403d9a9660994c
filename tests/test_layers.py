"""The laws of the house that neither ruff nor mypy can say: who may import whom, and how large things may grow.

Each law is a function from a parsed file to the breaches in it, and carries a good and a bad line that test it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.processes import ROOT, clean_environment

pytestmark = pytest.mark.xdist_group("layers")  # each file is parsed once

LONGEST_FUNCTION = 50
LONGEST_FILE = 500
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "service"}
IMPURE = {
    "asyncio", "concurrent", "contextvars", "http", "io", "logging", "multiprocessing", "os", "pathlib", "queue",
    "random", "secrets", "select", "shutil", "signal", "socket", "ssl", "sched", "subprocess", "sys", "tempfile",
    "threading", "time", "urllib", "uuid",
}  # fmt: skip
CLOCKS = {"now", "utcnow", "today"}
DOORS = {"open", "print", "input", "breakpoint"}


def ours() -> list[Path]:
    """Every Python file of the product: what migrations write and what tests say follows other laws."""
    files = [ROOT / "manage.py", *(ROOT / "recovery_ops").rglob("*.py"), *(ROOT / "events").rglob("*.py")]
    return [path for path in files if "migrations" not in path.parts]


def room(name: str) -> list[Path]:
    return sorted((ROOT / "recovery_ops" / name).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and full name of each module that is imported, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def impurities(tree: ast.AST) -> list[str]:
    """Return what would let a rule know when it runs, or reach outside."""
    found = [f"line {line}: imports {name}" for line, name in imports(tree) if name.split(".")[0] in IMPURE]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in CLOCKS:
                found.append(f"line {node.lineno}: asks the clock with .{called.attr}()")
            if isinstance(called, ast.Name) and called.id in DOORS:
                found.append(f"line {node.lineno}: calls {called.id}()")
    return found


def names_opentelemetry(tree: ast.AST) -> list[str]:
    return [f"line {line}: imports {name}" for line, name in imports(tree) if name.split(".")[0] == "opentelemetry"]


def long_functions(tree: ast.AST, longest: int = LONGEST_FUNCTION) -> list[str]:
    """Return functions whose statements take too many lines; a long list of options is no long function."""
    return [
        f"line {node.lineno}: {node.name} has {length} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (length := lines_of_body(node)) > longest
    ]


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of its statements; a function inside is counted by itself."""
    body = function.body[ast.get_docstring(function) is not None :]
    inner = [one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    first, last = body[0].lineno if body else 1, (body[-1].end_lineno or 0) if body else 0
    return last - first + 1 - sum((one.end_lineno or 0) - one.lineno + 1 for one in inner)


def outsiders(tree: ast.AST) -> list[str]:
    """Return imports that are neither the standard library's nor our own."""
    roots = sys.stdlib_module_names | {"recovery_ops"}
    return [f"line {line}: imports {name}" for line, name in imports(tree) if name.split(".")[0] not in roots]


def departures(tree: ast.AST) -> list[str]:
    """Return imports of ours that an agent does not have installed."""
    rooms = ("rules", "wire", "runtime", "__version__")
    ours = [(line, name.split(".")) for line, name in imports(tree) if name.split(".")[0] in {"recovery_ops", "events"}]
    return [
        f"line {line}: imports {'.'.join(parts)}"
        for line, parts in ours
        if parts != ["recovery_ops"] and (parts[0] == "events" or parts[1] not in rooms)
    ]


@pytest.mark.parametrize(
    ("law", "good", "bad"),
    [
        (impurities, "from datetime import datetime\ndef f(now: datetime): ...", "from time import monotonic"),
        (impurities, "retime = 1", "def f():\n    import threading"),
        (impurities, "moment.isoformat()", "datetime.now(UTC)"),
        (impurities, "opened()", "open('x')"),
        (names_opentelemetry, "import opentelemetry_like", "from opentelemetry.sdk import _logs"),
        (long_functions, "def f():\n" + "    x = 1\n" * 50, "async def f():\n" + "    x = 1\n" * 51),
        (departures, "from recovery_ops import __version__", "from recovery_ops import settings"),
        (departures, "from recovery_ops.wire import names", "import events.models"),
        (outsiders, "import json, recovery_ops.rules", "import requests"),
    ],
)
def test_each_law_tells_good_from_bad(law: object, good: str, bad: str) -> None:
    assert callable(law)
    assert law(ast.parse(good)) == []
    assert len(law(ast.parse(bad))) >= 1


def breaches(law: object, files: list[Path]) -> list[str]:
    assert callable(law)
    assert files, "a law without files to hold for is none"
    return [f"{path.relative_to(ROOT)}, {breach}" for path in files for breach in law(parsed(path))]


def test_rules_know_no_clock_no_chance_and_no_outside() -> None:
    assert breaches(impurities, room("rules")) == []


def test_rules_and_wire_need_the_standard_library_alone() -> None:
    assert breaches(outsiders, [*room("rules"), *room("wire")]) == []


def test_the_agents_part_stays_among_itself() -> None:
    assert breaches(departures, [*room("rules"), *room("wire"), *room("runtime")]) == []


def test_the_bootstrap_needs_the_standard_library_alone() -> None:
    assert (
        breaches(outsiders, [ROOT / "recovery_ops" / "server" / f"{name}.py" for name in ("bootstrap", "environment")])
        == []
    )


def test_only_telemetry_names_opentelemetry_in_the_runtime() -> None:
    assert breaches(names_opentelemetry, [path for path in room("runtime") if path.parent.name != "telemetry"]) == []


def test_functions_stay_short() -> None:
    assert breaches(long_functions, ours()) == []


def test_files_stay_short() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in ours()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [str(path.relative_to(ROOT)) for path in ours() if EMPTY_NAMES & {path.stem, path.parent.name}] == []


def test_every_module_opens_by_saying_what_it_is_for() -> None:
    silent = [path for path in ours() if path.read_text().strip() and ast.get_docstring(parsed(path)) is None]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_the_import_contracts_hold() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    result = fresh("-c", code, "--no-cache")
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_runtime_starts_where_the_server_is_not_installed() -> None:
    blocked = ["django", "celery", "plotly", "rest_framework", "uvicorn", "events", "recovery_ops.control"]
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); import recovery_ops.runtime"
    result = fresh("-c", code)
    assert result.returncode == 0, result.stderr


def test_importing_the_package_alone_pulls_in_nothing() -> None:
    code = "import sys; before = set(sys.modules); import recovery_ops; print(sorted(set(sys.modules) - before))"
    assert fresh("-c", code).stdout == "['recovery_ops']\n"


def fresh(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a new interpreter that knows the checkout and nothing of this one."""
    env = clean_environment({"PYTHONPATH": str(ROOT)})
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True)
