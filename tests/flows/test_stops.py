"""A click stops another process: a real console, a real agent, by the stream, and seen as the agent reports it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.agents import manage_each
from tests.support.desk import Desk
from tests.support.processes import ROOT, Running, Server, eventually


def test_stopped_process_aborts_its_run_until_resumed(start_server: Callable[..., Server], tmp_path: Path) -> None:
    server = start_server()
    port = server.url.rsplit(":", 1)[1].rstrip("/")
    desk = Desk(port, tmp_path)
    desk.key, desk.desk_key = manage_each(
        tmp_path / "data", "key create --name flow --scope ingest,desired", "key create --name desk --scope read,act"
    )
    env = {"RECOVERY_OPS_URL": f"http://127.0.0.1:{port}", "RECOVERY_OPS_KEY": desk.key}
    env["RECOVERY_OPS_DIR"] = str(tmp_path / "agent")
    whom = {"targets": [{"service": "batch-agent", "instance": "batch-1"}]}

    def told() -> list[tuple[str, int]]:
        return [
            (one["told"], one["runs_in_hand"])
            for activity in desk.ask("fleet/pauses")["activities"]
            for one in activity["instances"]
        ]

    def in_flight() -> list[tuple[bool | None, int]]:
        return [(one["takes_new_work"], one["runs_in_flight"]) for one in desk.ask("fleet")["agents"]]

    command = [sys.executable, "-m", "tests.flows.stopped_agent"]
    with Running(command, env=env, folder=ROOT, keeps_input=True) as agent:
        agent.said("works")
        eventually(lambda: in_flight() == [(True, 1)], what="its heartbeat with a run in flight")
        desk.ask("fleet/stop", {**whom, "reason": "it reads too much"})
        assert agent.said("aborted: (.*)")[1] == "desk: it reads too much"
        assert agent.said("rejected: (.*)")[1] == "True"
        assert agent.said("refused: (.*)")[1] == "True"
        eventually(lambda: told() == [("stopped", 0)], what="that it is stopped")
        desk.ask("fleet/resume", {**whom, "reason": "it was mended"})
        assert agent.said("began the third: (.*)")[1] == "found"
        eventually(lambda: desk.ask("runs/run-1")["run"]["standing"] == "aborted", what="the end of the aborted run")
        assert agent.wait() == 0
