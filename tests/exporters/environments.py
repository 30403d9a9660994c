"""Makes the environments of other exporters, once for a checkout: `.venv-exporters/` holds them, by what is in them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes import ROOT
from tests.support.services import Missing

HERE = Path(__file__).parent
CACHE = ROOT / ".venv-exporters"
_INSTALL_S = 120


def python_of_ours() -> list[str]:
    """The command that emits through the exporter that stands in our own lock, the newest."""
    return [sys.executable, str(HERE / "emit.py")]


def python_with(version: str) -> list[str]:
    """The command that emits through Python's exporter of this version. Raises Missing."""
    lock = HERE / f"python-{version}.txt"
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    folder = _made(
        f"python-{version}",
        [lock],
        [
            [uv, "venv", "--quiet", "--python", sys.executable, "."],
            [uv, "pip", "install", "--quiet", "--python", "bin/python", "--require-hashes", "-r", str(lock)],
        ],
    )
    return [str(folder / "bin" / "python"), str(HERE / "emit.py")]


def node_with(encoding: str) -> list[str]:
    """The command that emits through JavaScript's exporter. Raises Missing."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Missing("Node.js", "apt install nodejs npm")
    files = [HERE / name for name in ("package.json", "package-lock.json", "emit.mjs")]
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    folder = _made("javascript", files, [["cp", *map(str, files), "."], install])
    return [node, str(folder / "emit.mjs"), encoding]


def _made(name: str, contents: Sequence[Path], commands: Sequence[Sequence[str]]) -> Path:
    """The folder of an environment, made by these commands unless it is there; one maker at a time."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in contents) + sys.version.encode()).hexdigest()
    folder = CACHE / f"{name}-{digest[:12]}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        begun = folder.with_suffix(f".{os.getpid()}")
        begun.mkdir()
        try:
            for command in commands:
                subprocess.run(command, cwd=begun, check=True, capture_output=True, timeout=_INSTALL_S)
            begun.rename(folder)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", b"") or b""
            reason = said.decode(errors="replace").strip()[-2000:] or str(error)
            raise Missing(f"OpenTelemetry's exporter ({name})", f"its packages cannot be had: {reason}") from error
        finally:
            shutil.rmtree(begun, ignore_errors=True)
    return folder
