"""A run whose process was killed is begun again from its checkpoint by a word: a real console, real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.support.agents import manage_each
from tests.support.desk import Desk
from tests.support.processes import ROOT, Running, Server, eventually


def test_a_killed_run_is_begun_again_once_with_the_input_it_is_given(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = start_server()
    desk = Desk(server.url.rsplit(":", 1)[1].rstrip("/"), tmp_path)
    desk.key, desk.desk_key = manage_each(
        tmp_path / "data", "key create --name flow --scope ingest,desired", "key create --name desk --scope read,act"
    )
    env = {"RECOVERY_OPS_URL": f"http://127.0.0.1:{desk.port}", "RECOVERY_OPS_KEY": desk.key}
    env["RECOVERY_OPS_DIR"] = str(tmp_path / "agent")
    command = [sys.executable, "-m", "tests.flows.retried_agent", str(desk.ledger)]

    def retry() -> dict[str, Any]:
        found: dict[str, Any] = desk.ask("runs/run-7")["retry"]
        return found

    with Running([*command, "doomed"], env=env, folder=ROOT) as doomed:
        assert doomed.wait() == -9
    assert desk.lines() == ["paid run-7"]
    wanted = {"reason": "the host was replaced", "input": "ana"}
    with Running(command, env=env, folder=ROOT, keeps_input=True) as agent:
        agent.said("up")
        # Until the next process has reported under the name of the killed one, the run is still in its hands.
        eventually(lambda: is_taken(desk, wanted | {"dry_run": True}), what="somebody who begins it again")
        assert is_taken(desk, wanted)
        agent.said("asked by desk: the host was replaced")
        agent.said("done")
        eventually(lambda: retry()["state"] == "begun", what="that it was begun")
        eventually(lambda: desk.ask("runs?show=all")["runs"][0]["standing"] == "succeeded", what="its end")
    assert desk.lines() == ["paid run-7", "told ana"], "what was done is not done again"


def is_taken(desk: Desk, wanted: dict[str, Any]) -> bool:
    """Whether the console agrees that the run be begun again."""
    try:
        desk.ask("runs/run-7/retry", wanted)
    except HTTPError as refused:
        refused.close()
        return False
    return True
