"""What a client does now: as plain data, in a status file, and as a table for a person at the machine."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from recovery_ops.runtime import Recovery
from recovery_ops.runtime.__main__ import main
from recovery_ops.runtime.process import status_files
from recovery_ops.runtime.testing import HttpError, Lab


def test_snapshot_counts_calls_failures_and_breakers() -> None:
    lab = Lab(default_source="main_agent")
    guarded = lab.recovery.guard("search", idempotent=True, breaker="web")(lab.script("ok", TimeoutError(), "ok", 404))
    guarded()
    guarded()
    with pytest.raises(HttpError):
        guarded()
    lab.trip("search")
    with lab.recovery.run():
        found = lab.recovery.snapshot()
    operation = found["operations"]["search"]
    assert (operation["calls"], operation["attempts"], operation["successes"], operation["retries"]) == (3, 4, 2, 1)
    assert operation["failures"] == {"timeout": 1, "not_found": 1}
    assert found["breakers"]["web"]["state"] == "forced_open"
    assert found["breakers"]["web"]["since"] is not None
    assert (found["runs_in_flight"], found["undelivered"]) == (1, 0)
    assert json.loads(json.dumps(found)) == found


def test_status_file_lives_as_long_as_its_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recovery = Recovery("agent", url="", directory=tmp_path)
    try:
        recovery.guard("search")(len)("abc")
        recovery.housekeep()
        status_files.write(recovery, undelivered=0)
        (one,) = status_files.read(tmp_path, time.time())
        assert (one["pid"], one["is_alive"], one["operations"]["search"]["calls"]) == (os.getpid(), True, 1)
        assert main(["status", str(tmp_path)]) == 0
        assert "search" in capsys.readouterr().out
        assert main(["status", "--json", str(tmp_path)]) == 0
        assert json.loads(capsys.readouterr().out)[0]["service"] == "agent"
    finally:
        recovery.close()
    assert status_files.read(tmp_path, time.time()) == []
    assert main(["status", str(tmp_path)]) == 1


@pytest.mark.parametrize(("age_s", "is_shown"), [(60.0, True), (90_000.0, False)])
def test_ended_process_is_shown_for_a_day(tmp_path: Path, age_s: float, is_shown: bool) -> None:
    path = tmp_path / "status" / "agent-1.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"service": "agent", "pid": 2**22 + 1, "host": socket.gethostname()}))
    found = status_files.read(tmp_path, path.stat().st_mtime + age_s)
    assert [one["is_alive"] for one in found] == ([False] if is_shown else [])
    assert path.exists() is is_shown


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_broken_status_file_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "status").mkdir()
    (tmp_path / "status" / "x.json").write_text(text)
    assert status_files.read(tmp_path, 0.0) == []


def test_without_directory_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOVERY_OPS_DIR", raising=False)
    recovery = Recovery("agent", url="", is_background_work_wanted=False)
    assert status_files.path_of(recovery) is None
    status_files.write(recovery, undelivered=0)
