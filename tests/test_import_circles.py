"""No two modules of the agent's part import each other, in functions and for type checkers included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.processes import ROOT

ROOMS = ("rules", "wire", "runtime")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, modules: Mapping[str, object]) -> Iterator[str]:
    """Yield each imported module: of `from package import name` the submodule, else the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in names)


def circle(trees: Mapping[str, ast.Module]) -> list[str]:
    """Return the modules of one circle in order; an empty list without a circle."""
    graph = {name: {one for one in imported(tree, trees) if one in trees} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize(
    ("sources", "has_circle"),
    [
        ({"a": "import b", "b": "import c", "c": ""}, False),
        ({"a": "import b", "b": "def f():\n    from a import x"}, True),
        ({"a": "import b", "b": "if TYPE_CHECKING:\n    from a import x"}, True),
        ({"a": "from b import c", "b": "", "b.c": "import a"}, True),
        ({"a": "from b import x", "b": "", "b.c": "import a"}, False),
    ],
)
def test_circle_finder_counts_lazy_imports(sources: dict[str, str], has_circle: bool) -> None:
    assert bool(circle({name: ast.parse(text) for name, text in sources.items()})) is has_circle


def test_agent_modules_have_no_import_circle() -> None:
    paths = [path for room in ROOMS for path in sorted((ROOT / "recovery_ops" / room).rglob("*.py"))]
    assert circle({module_name(path): ast.parse(path.read_text()) for path in paths}) == []
