"""What only whole processes can show of a workflow: kill -9 at any moment, two at once, and forks."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from recovery_ops.runtime.testing import Lab
from recovery_ops.runtime.workflows.checkpoint_store import Progress
from recovery_ops.runtime.workflows.sqlite_checkpoints import SqliteCheckpoints
from recovery_ops.runtime.workflows.workflow import Workflow
from tests.support.processes import ROOT, Running

pytestmark = pytest.mark.default

PRELUDE = """
import os, signal, sys
from pathlib import Path
from recovery_ops.rules.events import CheckpointRestored, CheckpointSaved
from recovery_ops.runtime import attempt
from recovery_ops.runtime.workflows.sqlite_checkpoints import SqliteCheckpoints
from recovery_ops.runtime.errors import WorkflowLocked
from recovery_ops.runtime.testing import Lab
from recovery_ops.runtime.workflows.workflow import Workflow

lab = Lab()
folder = Path(sys.argv[1])
world = folder / "world"  # what really happened: a line for each effect, with its number and its key

def workflow():
    return Workflow("long", "job-1", recovery=lab.recovery, store=SqliteCheckpoints(folder / "checkpoints.db"))

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def effects():
    return [line.split() for line in world.read_text().splitlines()] if world.exists() else []

def happen(number):
    with world.open("a") as lines:
        lines.write(f"{number} {attempt().idempotency_key}\\n")
"""

HUNDRED = """
moment, safety = sys.argv[2:4]

def work(number):
    if moment == "before" and number == 47: die()
    # The other side keeps a key it has seen, and answers as it did the first time.
    if safety != "key" or attempt().idempotency_key not in [key for _, key in effects()]:
        happen(number)
    if moment == "between" and number == 47: die()
    return number * 2

def find(number):
    return number * 2 if str(number) in [done for done, _ in effects()] else None

with workflow() as flow:
    for number in range(1, 101):
        result = flow.step(f"step-{number}", work, number, already_done=find if safety == "probe" else None)
        assert result == number * 2
        print("step", number, flush=True)
        if moment == "after" and number == 47: die()
restored, saved = len(lab.events_of(CheckpointRestored)), len(lab.events_of(CheckpointSaved))
print("whole", restored, saved, flush=True)
"""


def running(code: str, *arguments: object) -> Running:
    """A process of its own with the code, warnings as errors."""
    words = [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", PRELUDE + code]
    return Running([*words, *map(str, arguments)], env={"PYTHONPATH": str(ROOT)}, keeps_input=True)


def effects(folder: Path) -> Counter[str]:
    """How often each effect happened in the world."""
    return Counter(line.split()[0] for line in (folder / "world").read_text().splitlines())


def once_each(last: int = 100) -> Counter[str]:
    return Counter(str(number) for number in range(1, last + 1))


@pytest.mark.parametrize(
    ("moment", "safety", "restored"),
    [
        ("before", "none", 46),
        ("after", "none", 47),
        ("between", "key", 46),
        ("between", "probe", 46),
    ],
)
def test_killed_at_step_47_of_100_it_goes_on_and_does_nothing_twice(
    tmp_path: Path, moment: str, safety: str, restored: int
) -> None:
    with running(HUNDRED, tmp_path, moment, safety) as killed:
        assert killed.wait() == -signal.SIGKILL, killed.text
    assert effects(tmp_path) == once_each(46 if moment == "before" else 47)
    with running(HUNDRED, tmp_path, "never", safety) as resumed:
        assert resumed.wait() == 0, resumed.text
    assert f"whole {restored} {100 - restored}" in resumed.text
    assert effects(tmp_path) == once_each()
    steps = reader(tmp_path).steps()
    assert {one.progress for one in steps} == {Progress.FINISHED}
    assert {one.step for one in steps if one.attempts > 1} == ({"step-47"} if moment != "after" else set())


def reader(folder: Path) -> Workflow:
    return Workflow("long", "job-1", recovery=Lab().recovery, store=SqliteCheckpoints(folder / "checkpoints.db"))


def test_whatever_the_moment_of_the_kill_nothing_is_done_twice(tmp_path: Path) -> None:
    for lines in (1, 2, 3, 5, 8, 13, 21):
        with running(HUNDRED, tmp_path, "never", "key") as killed:
            killed.said(rf"(step \d+\n){{{lines}}}")
            killed.end(signal.SIGKILL)
    with running(HUNDRED, tmp_path, "never", "key") as resumed:
        assert resumed.wait() == 0, resumed.text
    assert effects(tmp_path) == once_each()


WAITING = """
def wait():
    print("in the step", flush=True)
    sys.stdin.readline()
    return "done"

try:
    print(workflow().step("wait", wait), flush=True)
except WorkflowLocked as held:
    print("held by", held.owner, flush=True)
"""


def test_two_processes_cannot_run_it_at_once_and_death_gives_it_free(tmp_path: Path) -> None:
    with running(WAITING, tmp_path) as first:
        first.said("in the step")
        with running(WAITING, tmp_path) as second:
            second.said("held by lab-1")
            assert second.wait() == 0
        first.end(signal.SIGKILL)
    with running(WAITING, tmp_path) as third:
        third.said("in the step")  # at once: the lease of the dead one would last another 30 s
        print(file=third.process.stdin, flush=True)
        third.said("done")


FORKING = """
flow = workflow()
with flow:
    flow.step("first", lambda: 1)
    child = os.fork()
    if child == 0:
        try:
            flow.step("second", lambda: "by the child")
        except WorkflowLocked:
            os._exit(7)
        os._exit(0)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    try:
        workflow().step("second", lambda: "by another")
    except WorkflowLocked:
        print("still held", flush=True)
    print(flow.step("second", lambda: "by the parent"), flush=True)
child = os.fork()
if child == 0:
    with flow:
        print("then", flow.step("second", lambda: "never"), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_child_does_not_run_what_its_parent_runs(tmp_path: Path) -> None:
    with running(FORKING, tmp_path) as forking:
        assert forking.wait() == 0, forking.text
    assert forking.text.splitlines() == ["child 7", "still held", "by the parent", "then by the parent"]
