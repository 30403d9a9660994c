"""Which `Recovery` is meant where none is named: that of the run, else the one that the process has made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recovery_ops.rules.events import CheckpointSaved, CompensationFinished
from recovery_ops.runtime import Deadline, ToolRegistry, Workflow, build_tool
from recovery_ops.runtime.testing import Lab
from tests.support.processes import ROOT, clean_environment


def test_inside_a_run_it_is_that_of_the_run() -> None:
    lab = Lab()
    with lab.recovery.run(source="main_agent"), Deadline(60.0):
        Workflow("refund", "order-7").step("pay", lambda: "paid")
        lab.recovery.dispatch_failure(ConnectionResetError(), operation="pay", idempotent=True, retry=lambda: "paid")
        assert ToolRegistry().recovery is lab.recovery
        assert lab.recovery.intervene(lambda request: request, "hello") == "hello"
    assert [fact.step for fact in lab.events_of(CheckpointSaved)] == ["pay"]
    assert len(lab.events_of(CompensationFinished)) == 1
    assert lab.waits == [pytest.approx(0.2)]


def test_a_registry_that_is_named_counts_for_more_than_the_run() -> None:
    outer, inner = Lab(), Lab()
    registry = ToolRegistry(inner.recovery, tools=[build_tool("asked", lambda: 1)])
    with outer.recovery.run():
        registry.run_tool({"id": "1", "name": "none", "input": {}})
    assert {type(fact).__name__ for fact in inner.events} == {"FailureClassified", "ToolErrorReturned"}


OUTSIDE = """
from recovery_ops.runtime import Recovery, Workflow
from recovery_ops.runtime.default_client import in_force

mine = Recovery("shop", url="")
Workflow("refund", "order-7").step("pay", lambda: "paid")

@in_force().guard("search")
def search(): ...

print(sorted(mine.operations))
mine.close()
print(in_force().guard("other")(search).operation.place.service)
"""


def test_outside_it_is_the_one_that_the_process_has_made(tmp_path: Path) -> None:
    """A second one would be another service: with an outbox, a connection and checkpoints of its own."""
    env = clean_environment({"PYTHONPATH": str(ROOT), "RECOVERY_OPS_DIR": str(tmp_path)})
    run = subprocess.run([sys.executable, "-W", "error", "-c", OUTSIDE], env=env, capture_output=True, text=True)
    assert (run.stdout.splitlines(), run.stderr) == (["['search']", "agent"], "")
    assert [path.name.partition("-")[0] for path in (tmp_path / "checkpoints").glob("*.db")] == ["shop"]


def test_switched_off_it_is_the_same_so_that_no_step_is_done_again(tmp_path: Path) -> None:
    code = """
from recovery_ops.runtime import Recovery, Workflow

mine = Recovery("shop", url="")
Workflow("refund", "order-7").step("pay", lambda: print("paid"))
"""
    env = clean_environment({"PYTHONPATH": str(ROOT), "RECOVERY_OPS_DIR": str(tmp_path)})
    argv = [sys.executable, "-W", "error", "-c", code]
    told = [
        subprocess.run(argv, env=env | switch, capture_output=True, text=True, check=True).stdout
        for switch in ({}, {"RECOVERY_OPS_OFF": "1"})
    ]
    assert told == ["paid\n", ""]
