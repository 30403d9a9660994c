"""A click ends a run that waits in another process: a real console, a real agent, by the stream."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.agents import manage_each
from tests.support.desk import Desk
from tests.support.processes import ROOT, Running, Server, eventually


@pytest.mark.default
def test_a_run_that_waits_ends_when_a_person_wants_it_to(start_server: Callable[..., Server], tmp_path: Path) -> None:
    server = start_server()
    port = server.url.rsplit(":", 1)[1].rstrip("/")
    desk = Desk(port, tmp_path)
    desk.key, desk.desk_key = manage_each(
        tmp_path / "data", "key create --name flow --scope ingest,desired", "key create --name desk --scope read,act"
    )
    env = {"RECOVERY_OPS_URL": f"http://127.0.0.1:{port}", "RECOVERY_OPS_KEY": desk.key}
    env["RECOVERY_OPS_DIR"] = str(tmp_path / "agent")

    def run() -> list[str]:
        return [one["standing"] for one in desk.ask("runs?show=all")["runs"] if one["run"] == "run-7"]

    command = [sys.executable, "-m", "tests.flows.waiting_agent", "run-7"]
    with Running(command, env=env, folder=ROOT) as agent:
        agent.said("called")
        eventually(lambda: bool(run()), what="the run")
        desk.ask("runs/run-7/abort", {"reason": "the ledger is the old one"})
        assert agent.said("ended: (.*)")[1] == "load_ledger was called off by desk: the ledger is the old one"
        assert agent.wait() == 0
    eventually(lambda: run() == ["aborted"], what="its end")
