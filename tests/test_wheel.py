"""What `pip install recovery-ops` brings: the agent's part and the operators' command, and nothing of the server's."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.support.processes import ROOT, clean_environment

ROOMS = ("recovery_ops/cli/", "recovery_ops/rules/", "recovery_ops/runtime/", "recovery_ops/wire/")
FILES = {"recovery_ops/__init__.py", "recovery_ops/py.typed"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built with the backend that is installed: no isolation, no network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    result = subprocess.run(build, cwd=ROOT, env=clean_environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_it_holds_the_agents_part_and_the_command_whole_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    here = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == here | FILES


def test_it_needs_nothing_of_the_servers(wheel: zipfile.ZipFile) -> None:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    needs = Parser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist") or []
    always = {need.split(">")[0].split("=")[0].split("<")[0] for need in needs if "extra ==" not in need}
    assert always == {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-common", "urllib3"}


def test_it_runs_by_itself(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    code = "import recovery_ops.runtime as it, recovery_ops; print(recovery_ops.__file__)"
    env = clean_environment({"PYTHONPATH": str(tmp_path)})
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert result.stdout == f"{tmp_path}/recovery_ops/__init__.py\n", result.stderr


@pytest.mark.full
def test_the_operators_command_runs_where_only_the_wheel_is(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Installed by pip into an environment without any other package: the command needs none."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "own")], check=True, capture_output=True)
    own = tmp_path / "own" / "bin"
    install = [str(own / "python"), "-m", "pip", "install", "--no-index", "--no-deps", str(wheel.filename)]
    result = subprocess.run(install, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    run = [str(own / "recovery-ops"), "status"]
    result = subprocess.run(run, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True)
    assert result.returncode == 2
    assert "usage: recovery-ops" in result.stderr
    assert "set RECOVERY_OPS_KEY" in result.stderr
