"""The `up` command: the first account, the options, the words about them."""

from __future__ import annotations

import signal
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.contrib.auth import get_user_model

from events.keys import revoke_key
from events.models import AgentKey
from recovery_ops.control.access.first_account import FILE_NAME, ensure_first_account
from recovery_ops.control.access.selectors import grants_of
from recovery_ops.control.demo_fleet import fleet_key
from recovery_ops.rules.roles import Role
from tests.support.processes import ROOT, Running, Server, eventually

StartServer = Callable[..., Server]


@pytest.mark.django_db
def test_the_first_account_is_told_again_until_its_password_is_changed(tmp_path: Path) -> None:
    first = ensure_first_account(tmp_path)
    assert first is not None
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert ensure_first_account(tmp_path) == first
    person = get_user_model().objects.get(username=first.name)
    assert grants_of(person).role("any") is Role.ADMIN
    person.set_password("one of my own")
    person.save()
    assert ensure_first_account(tmp_path) is None
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.django_db
def test_no_account_is_made_where_there_are_people(tmp_path: Path) -> None:
    get_user_model().objects.create_user("alice", password="of her own")
    assert ensure_first_account(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert get_user_model().objects.count() == 1


@pytest.mark.django_db
def test_an_account_whose_password_cannot_be_kept_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ensure_first_account(tmp_path / "missing")
    assert not get_user_model().objects.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 0), pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.full)],
)
def test_the_demonstration_reports_and_nothing_of_it_stays(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with Server(tmp_path / "data", has_demo=True, is_first_start=True) as server:
        server.said("the first facts are in", timeout_s=180)
        members = playing(tmp_path / "data")
        assert "/?environment=demo" in server.text
        assert len(members) > 8
        assert server.end(number) == code
        eventually(lambda: playing(tmp_path / "data") == set(), what="the end of the fleet")
        assert "cut off" not in server.text
        assert ("Ending" in server.text) == (number is signal.SIGINT)


def playing(data: Path) -> set[str]:
    """Return the numbers of the processes that play in the demonstration of this data directory."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended while we looked, or belongs to somebody else
            if f"RECOVERY_OPS_DEMO_DIR={data}/demo".encode() in (process / "environ").read_bytes():
                found.add(process.name)
    return found


@pytest.mark.django_db
def test_the_fleets_key_is_kept_while_it_lets_the_fleet_in(tmp_path: Path) -> None:
    first = fleet_key(tmp_path, "dev")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert fleet_key(tmp_path, "dev") == first
    elsewhere = fleet_key(tmp_path, "staging")
    assert elsewhere != first
    revoke_key(AgentKey.objects.get(environment="staging").prefix)
    assert fleet_key(tmp_path, "staging") != elsewhere


def test_the_data_directory_is_for_its_owner_alone(start_server: StartServer, tmp_path: Path) -> None:
    start_server()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


@pytest.mark.full
def test_it_answers_to_the_name_it_was_told_to_listen_on(start_server: StartServer) -> None:
    server = start_server("--host", "127.0.0.2")
    assert server.url.startswith("http://127.0.0.2:")
    assert httpx.get(f"{server.url}/no-such-page").status_code == 404
    assert httpx.get(f"{server.url}/no-such-page", headers={"host": "elsewhere.example"}).status_code == 400


@pytest.mark.full
def test_it_believes_no_program_of_this_machine_whom_it_comes_for(start_server: StartServer) -> None:
    server = start_server()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        client.get("/sign-in")
        typed = {"password": "not this one", "csrfmiddlewaretoken": client.cookies[settings.CSRF_COOKIE_NAME]}
        answers = [
            client.post(
                "/sign-in",
                data={**typed, "username": f"nobody-{number}"},
                headers={"x-forwarded-for": f"203.0.113.{number}", "referer": server.url},
            )
            for number in range(11)
        ]
    assert ["Too many" in answer.text for answer in answers] == [False] * 10 + [True]


@pytest.mark.full
def test_options_may_come_from_the_environment(start_server: StartServer, tmp_path: Path) -> None:
    env = {"RECOVERY_OPS_HOST": "127.0.0.3", "RECOVERY_OPS_DATA": str(tmp_path / "elsewhere")}
    with Running(
        [sys.executable, str(ROOT / "manage.py"), "up", "--port", "0"], env={**env, "RECOVERY_OPS_NO_DEMO": "1"}
    ) as running:
        running.said(r"console   http://127\.0\.0\.3:\d+/")
        running.said("agents    none yet")
        assert (tmp_path / "elsewhere" / "db.sqlite3").exists()
        assert running.end() == 0


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--port", "x"], "'x' is not a port: give a number from 0 to 65535"),
        (["--port", "70000"], "'70000' is not a port"),
        (["--host", "203.0.113.9"], "Give an address of this machine with --host"),
        (["--host", "no such name"], "Give an address of this machine with --host"),
        (["--data", "/dev/null/x"], "give another with --data"),
        (["--data"], "--data needs a directory"),
    ],
)
def test_bad_options_are_answered_with_what_to_do(options: list[str], answer: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-demo"]
    if "--data" not in options:
        command += ["--data", str(tmp_path)]
    with Running([*command, *options]) as running:
        assert running.wait() in {1, 2}
    assert answer in running.text
    assert "Traceback" not in running.text


@pytest.mark.full
def test_a_database_that_is_away_is_told_with_the_variable_to_look_at(tmp_path: Path) -> None:
    env = {"RECOVERY_OPS_DATABASE_URL": f"postgres:///nothing?host={tmp_path}&connect_timeout=2"}
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-demo", "--port", "0", "--data", str(tmp_path)]
    with Running(command, env=env) as running:
        assert running.wait() == 1
    assert "Cannot use the database" in running.text
    assert "RECOVERY_OPS_DATABASE_URL" in running.text
    assert "Traceback" not in running.text
