"""Runs the tests that need the integrations' packages, in the environment that `manage.py test` makes for them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from recovery_ops.server import bootstrap
from tests.support.processes import ROOT, clean_environment

_SKIPPED = "not on this machine: the integrations' packages: python3 manage.py test brings them"


GROUPS = {
    "http": ["test_httpx.py"],
    "models": ["packages/test_anthropic.py", "packages/test_openai.py"],
    "failover": ["packages/test_failover.py"],
    "classification": [
        *("packages/test_classification.py", "packages/test_classification_of_calls.py"),
        "packages/test_inner_retries.py",
    ],
    "listeners": ["packages/test_listeners.py", "packages/test_litellm.py"],
    "frameworks": ["packages/test_frameworks.py"],
    "tools": ["packages/test_tools.py", "packages/test_docs.py", "packages/test_migrating.py"],
}
"""Each in a process of its own: a test may take three minutes, and all of them together might."""


def test_every_file_is_in_one_group() -> None:
    folder = ROOT / "tests" / "integrations"
    files = [str(path.relative_to(folder)) for path in folder.rglob("test_*.py") if path.name != "test_packages.py"]
    assert sorted(files) == sorted(file for files in GROUPS.values() for file in files)


@pytest.mark.parametrize("group", GROUPS)
def test_the_integrations_hold_against_the_real_packages(group: str) -> None:
    if not bootstrap.integrations_stamp().exists():
        if os.environ.get("CI") == "true":
            pytest.fail(_SKIPPED, pytrace=False)
        pytest.skip(_SKIPPED)
    python = str(bootstrap.INTEGRATIONS / "bin" / "python")
    here = "tests/integrations"
    options = ["-q", "-c", f"{here}/packages/pytest.ini", f"--rootdir={ROOT}", f"--confcutdir={here}"]
    files = [f"{here}/{file}" for file in GROUPS[group]]
    env = clean_environment({"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
    result = subprocess.run(
        [python, "-m", "pytest", *options, *files], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, f"{result.stdout[-20_000:]}\n{result.stderr[-4_000:]}"
    assert re.search(r"^\d+ passed in ", result.stdout, re.MULTILINE), result.stdout[-2_000:]


def test_the_runtime_imports_no_integration() -> None:
    code = (
        "import sys, recovery_ops.runtime, recovery_ops.runtime.integrations as them\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in {'httpx', 'httpx2', 'openai', 'mcp'}))\n"
        "print(sorted(name for name in sys.modules if name.startswith(them.__name__ + '.')))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout.splitlines() == ["[]", "[]"], result.stderr


def test_an_integration_without_its_package_says_what_to_install() -> None:
    code = "import sys; sys.modules['httpx'] = None; import recovery_ops.runtime.integrations.httpx"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: recovery_ops.runtime.integrations.httpx needs httpx: pip install httpx"
    )
