"""What the environment may say, and what is answered to nonsense."""

from __future__ import annotations

import stat
import sys
import threading
from pathlib import Path

import pytest

from recovery_ops.server import environment
from recovery_ops.server.environment import Misconfigured
from tests.support.processes import ROOT, Running

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("value", "is_on"),
    [("1", True), ("yes", True), (" TRUE ", True), ("on", True), ("0", False), ("", False), ("No", False)],
)
def test_flags(monkeypatch: pytest.MonkeyPatch, value: str, is_on: bool) -> None:
    monkeypatch.setenv("A_FLAG", value)
    assert environment.flag("A_FLAG", default=not is_on) is is_on


@pytest.mark.parametrize("value", ["x", "-1", "65536", "8.0", "٣"])
def test_numbers_out_of_range_are_refused_with_the_range(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("A_PORT", value)
    with pytest.raises(Misconfigured, match=r"A_PORT: is .* it has to be a whole number from 0 to 65535"):
        environment.number("A_PORT", default=8000, least=0, most=65535)


def test_a_flag_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_FLAG", "maybe")
    with pytest.raises(Misconfigured, match="A_FLAG: is 'maybe'; it has to be 1 or 0"):
        environment.flag("A_FLAG")


def test_sqlite_is_the_default_and_survives_a_power_cut(tmp_path: Path) -> None:
    settings = environment.database("", data=tmp_path, pool_size=4)
    assert settings["NAME"] == str(tmp_path / "db.sqlite3")
    assert "synchronous=FULL" in str(settings["OPTIONS"])
    assert "IMMEDIATE" in str(settings["OPTIONS"])  # anything else fails at once where a reader becomes a writer


def test_postgres_by_address() -> None:
    url = "postgres://me:p%40ss@db.example:5433/facts?sslmode=require"
    settings = environment.database(url, data=Path("/nowhere"), pool_size=4)
    assert [settings[name] for name in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        "me", "p@ss", "db.example", "5433", "facts",
    ]  # fmt: skip
    assert settings["OPTIONS"] == {
        "sslmode": "require",
        "options": "-c synchronous_commit=on -c jit=off -c max_parallel_workers_per_gather=0 -c array_nulls=on",
        "pool": {"min_size": 1, "max_size": 4, "timeout": 5},
    }


def options_of(database: dict[str, object]) -> dict[str, str]:
    options = database["OPTIONS"]
    assert isinstance(options, dict)
    return options


def test_what_postgres_commits_is_written_unless_the_address_says_otherwise() -> None:
    plain = environment.database("postgres://me@db/facts", data=Path("/nowhere"), pool_size=4)
    assert "-c synchronous_commit=on" in options_of(plain)["options"]
    said = "postgres://me@db/facts?options=-c%20synchronous_commit%3Dremote_apply"
    other = environment.database(said, data=Path("/nowhere"), pool_size=4)
    assert options_of(other)["options"].endswith("synchronous_commit=remote_apply")


def test_postgres_by_socket_directory() -> None:
    settings = environment.database("postgres:///facts?host=/run/postgresql", data=Path("/nowhere"), pool_size=4)
    assert (settings["HOST"], settings["NAME"]) == ("/run/postgresql", "facts")


@pytest.mark.parametrize("url", ["mysql://a:secret@b/c", "postgres://a:secret@b:x/c", "postgres://a:secret@b/"])
def test_an_address_we_cannot_use_is_refused_without_repeating_its_password(url: str) -> None:
    with pytest.raises(Misconfigured, match="RECOVERY_OPS_DATABASE_URL") as refused:
        environment.database(url, data=Path("/nowhere"), pool_size=4)
    assert "secret" not in str(refused.value)


def test_the_signing_key_is_made_once_whoever_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOVERY_OPS_SECRET_KEY")
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda: keys.append(environment.secret_key(tmp_path / "data"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert stat.S_IMODE((tmp_path / "data" / "secret-key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["secret-key"]


def test_nonsense_is_told_in_one_sentence(tmp_path: Path) -> None:
    env = {"RECOVERY_OPS_DATA": str(tmp_path), "RECOVERY_OPS_PORT": "eight"}
    with Running([sys.executable, str(ROOT / "manage.py"), "up"], env=env) as running:
        assert running.wait() == 1
    wanted = "Cannot start: RECOVERY_OPS_PORT: is 'eight'; it has to be a whole number from 0 to 65535.\n"
    assert running.text == wanted


def test_production_settings_pass_djangos_deployment_check(tmp_path: Path) -> None:
    env = {"RECOVERY_OPS_DATA": str(tmp_path), "RECOVERY_OPS_TLS": "1", "RECOVERY_OPS_HOSTS": "ops.example"}
    command = [sys.executable, str(ROOT / "manage.py"), "check", "--deploy", "--fail-level", "INFO"]
    with Running(command, env=env) as running:
        assert running.wait() == 0, running.text
