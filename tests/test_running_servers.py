"""Which data directory a command works on when it names none, and what it says where there is no database."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from recovery_ops.server.running_servers import NEEDS_STORE, NoData, choose_data, registered, running
from tests.support.otlp import request
from tests.support.processes import ROOT, Server, clean_environment

StartServer = Callable[..., Server]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for the entries of servers, and no directory that is given."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("RECOVERY_OPS_DATA", "")
    return tmp_path / "state"


@contextmanager
def serving(data: Path) -> Iterator[Path]:
    """Hold the lock of a data directory with a database, as a server does."""
    data.mkdir()
    (data / "db.sqlite3").touch()
    with registered(data), (data / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield data


def manage(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "manage.py"), *words]
    return subprocess.run(argv, env=clean_environment(env), capture_output=True, text=True, check=False, timeout=180)


def test_command_finds_running_servers_data(start_server: StartServer, tmp_path: Path, state: Path) -> None:
    server = start_server(env={"XDG_STATE_HOME": str(state)})
    made = manage("key", "create", "--name", "agent", "--scope", "ingest", env={"XDG_STATE_HOME": str(state)})
    assert made.returncode == 0, made.stderr
    assert str(tmp_path / "data") in made.stderr
    headers = {"Authorization": f"Bearer {made.stdout.strip()}", "Content-Type": "application/json"}
    assert httpx.post(f"{server.url}/v1/logs", content=json.dumps(request()), headers=headers).status_code == 200


def test_only_running_server_is_chosen(tmp_path: Path) -> None:
    with registered(tmp_path / "killed"), serving(tmp_path / "one") as data:
        assert running() == [data]
        choose_data(["manage.py", "key", "list"], default=tmp_path / "other")
        assert os.environ["RECOVERY_OPS_DATA"] == str(data)


def test_two_running_servers_need_a_choice(tmp_path: Path) -> None:
    with serving(tmp_path / "one") as one, serving(tmp_path / "two") as two:
        with pytest.raises(NoData) as refused:
            choose_data(["manage.py", "key", "list"], default=tmp_path)
        assert str(one) in str(refused.value)
        assert str(two) in str(refused.value)


def test_given_directory_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "one") as one, serving(tmp_path / "two"):
        monkeypatch.setenv("RECOVERY_OPS_DATA", str(one))
        choose_data(["manage.py", "key", "list"], default=tmp_path)
        assert os.environ["RECOVERY_OPS_DATA"] == str(one)


def test_missing_database_is_named(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for command in sorted(NEEDS_STORE):
        with subtests.test(command=command):
            with pytest.raises(NoData) as refused:
                choose_data(["manage.py", command], default=tmp_path)
            assert str(tmp_path) in str(refused.value)
    choose_data(["manage.py", "key", "--help"], default=tmp_path)


def test_unreadable_database_ends_without_traceback(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for content in (b"", b"no database at all"):
        (tmp_path / "db.sqlite3").write_bytes(content)
        with subtests.test(content=content):
            done = manage("key", "list", "--data", str(tmp_path), env={})
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
            assert str(tmp_path) in done.stderr
