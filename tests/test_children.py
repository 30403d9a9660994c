"""A child process ends with us, however we end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from recovery_ops.server.child_process import Child
from tests.support.processes import ROOT, Running, eventually

POLITE = "import sys; print('up', flush=True); sys.stdin.read(); print('ended by itself')"
STUBBORN = "import signal, threading; signal.signal(15, 1); print('up', flush=True); threading.Event().wait()"


@pytest.fixture
def deaths() -> list[int]:
    """Exit codes of children that ended without being told to."""
    return []


def start(code: str, folder: Path, deaths: list[int]) -> tuple[Child, Path]:
    log = folder / "child" / "log"
    child = Child([sys.executable, "-c", code], env=dict(os.environ), folder=folder, log=log, on_death=deaths.append)
    child.start()
    eventually(lambda: log.read_text().startswith("up"), what="the child's first word")
    return child, log


def test_it_may_end_by_itself_when_its_input_does(tmp_path: Path, deaths: list[int]) -> None:
    code = f"import signal; signal.signal(15, signal.SIG_IGN)\n{POLITE}"  # the signal alone would end it too
    child, log = start(code, tmp_path, deaths)
    assert child.stop(10)
    assert log.read_text().split("\n")[1] == "ended by itself"
    assert deaths == []


def test_a_stubborn_one_is_killed_and_that_is_said(tmp_path: Path, deaths: list[int]) -> None:
    child, _ = start(STUBBORN, tmp_path, deaths)
    assert not child.stop(0.1)


def test_what_it_leaves_behind_is_killed_with_it(tmp_path: Path, deaths: list[int]) -> None:
    code = (
        f"import subprocess, sys\nprint('up', subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]).pid, flush=True)"
    )
    _, log = start(code, tmp_path, deaths)
    eventually(lambda: deaths == [0], what="the news of its end")
    eventually(lambda: is_gone(int(log.read_text().split()[1])), what="the grandchild's end")


def test_it_can_be_stopped_before_it_was_started(tmp_path: Path, deaths: list[int]) -> None:
    assert Child([], env={}, folder=tmp_path, log=tmp_path / "log", on_death=deaths.append).stop(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_a_kill_of_the_parent_ends_it_too(tmp_path: Path) -> None:
    parent = f"""
import os, sys, threading
from pathlib import Path
from recovery_ops.server.child_process import Child
deaf = "import os, time; print(os.getpid(), flush=True); [time.sleep(1) for _ in iter(int, 1)]"
log = Path({str(tmp_path)!r}, "log")
Child([sys.executable, "-c", deaf], env=dict(os.environ), folder=Path("/"), log=log, on_death=print).start()
print("started", flush=True)
threading.Event().wait()
"""
    with Running([sys.executable, "-c", parent], folder=ROOT) as running:
        running.said("started")
        log = tmp_path / "log"
        eventually(lambda: log.read_text().endswith("\n"), what="the child's number")
        running.end(signal.SIGKILL)
        eventually(lambda: is_gone(int(log.read_text())), what="the child's end")


def is_gone(pid: int) -> bool:
    """Say whether the process ended; one that nobody has collected yet counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
