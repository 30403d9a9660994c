"""A click pauses the new work of another process: a real console, a real agent, by the stream, and seen as it says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.agents import manage_each
from tests.support.desk import Desk
from tests.support.processes import ROOT, Running, Server, eventually


def test_a_process_that_is_paused_drains_and_begins_again_when_it_is_resumed(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
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

    def takes() -> list[bool | None]:
        return [one["takes_new_work"] for one in desk.ask("fleet")["agents"]]

    command = [sys.executable, "-m", "tests.flows.paused_agent"]
    with Running(command, env=env, folder=ROOT, keeps_input=True) as agent:
        agent.said("holds")
        eventually(lambda: takes() == [True], what="its first heartbeat")
        desk.ask("fleet/pause", {**whom, "reason": "the ledger moves"})
        eventually(lambda: told() == [("draining", 1)], what="that it drains")
        assert agent.process.stdin is not None
        agent.process.stdin.write("go on\n")
        agent.process.stdin.flush()
        assert agent.said("refused: (.*)")[1].startswith(
            "the third was not begun: new work is paused (desk: the ledger moves)"
        )
        eventually(lambda: told() == [("drained", 0)], what="that none is left")
        desk.ask("fleet/resume", {**whom, "reason": "the ledger has moved"})
        agent.said("began the fourth")
        eventually(lambda: told() == [], what="that it takes work again")
        assert agent.wait() == 0
