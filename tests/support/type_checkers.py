"""What mypy and pyright find in a text, each in its strict mode, as a user of the library runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import ROOT, clean_environment


def _mypy(folder: Path, name: str) -> dict[int, str]:
    options = ["--strict", "--config-file", "", "--cache-dir", str(folder)]
    found = _run(["-m", "mypy", *options, name], folder, {"MYPYPATH": str(ROOT)})
    lines = [line.split(":", 2) for line in found.splitlines() if ": error:" in line]
    return {int(number): words for _, number, words in lines}


def _pyright(folder: Path, name: str) -> dict[int, str]:
    """basedpyright is pyright in a wheel: with Node.js inside, and nothing to download."""
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": [name], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    words = ["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    found = json.loads(_run(words, folder, {}))["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in found if one["severity"] == "error"}


def _run(words: list[str], folder: Path, env: dict[str, str]) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, env=clean_environment(env), cwd=folder, capture_output=True, text=True, timeout=170)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


_CHECKERS: dict[str, Callable[[Path, str], dict[int, str]]] = {"mypy": _mypy, "pyright": _pyright}
CHECKERS = tuple(_CHECKERS)


def faults_of(checker: str, source: str, folder: Path) -> dict[int, str]:
    """The faults of a module, by line."""
    (folder / "sample.py").write_text(source)
    return _CHECKERS[checker](folder, "sample.py")
