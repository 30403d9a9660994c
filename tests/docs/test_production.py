"""The examples for production: systemd understands the units, and they start what there is."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from recovery_ops.server import environment
from tests.support.processes import ROOT, Running, clean_environment, copy_migrated_sqlite
from tests.support.production import copied

EXAMPLES = ROOT / "docs" / "production"
CONTAINER = (EXAMPLES / "Containerfile").read_text()
UNITS = sorted(EXAMPLES.glob("*.service"))
TIMERS = sorted(EXAMPLES.glob("*.timer"))
HOME = "/opt/recovery-ops"


def started(unit: Path) -> list[str]:
    """The words with which a unit starts its process."""
    [line] = [one for one in unit.read_text().splitlines() if one.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=").split()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to be asked")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.stem))
def test_systemd_has_nothing_to_say_against_a_unit(unit: Path, tmp_path: Path) -> None:
    program = tmp_path / started(unit)[0].removeprefix(f"{HOME}/")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    named = tmp_path / unit.name.replace("@", "@01")
    named.write_text(unit.read_text().replace(HOME, str(tmp_path)))
    words = ["systemd-analyze", "verify", "--man=no", str(named)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    # What else is wrong with this machine's units is not ours.
    assert [line for line in done.stderr.splitlines() if named.name in line] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to be asked")
@pytest.mark.parametrize("timer", TIMERS, ids=lambda timer: str(timer.stem))
def test_a_timer_starts_a_unit_that_there_is(timer: Path) -> None:
    assert timer.with_suffix(".service") in UNITS
    [moment] = [line.partition("=")[2] for line in timer.read_text().splitlines() if line.startswith("OnCalendar=")]
    asked = subprocess.run(["systemd-analyze", "calendar", moment], capture_output=True, text=True, timeout=60)
    assert asked.returncode == 0, asked.stderr


def test_the_proxy_leads_to_units_that_are_told_to_be_started() -> None:
    ports = re.findall(r"server 127\.0\.0\.1:80(\d\d)", (EXAMPLES / "nginx.conf").read_text())
    template = (EXAMPLES / "recovery-ops-web@.service").read_text()
    assert "--port 80%i " in template
    assert len(ports) > 1
    assert " ".join(f"recovery-ops-web@{port}" for port in ports) in template


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.stem))
def test_what_a_unit_starts_is_there(unit: Path) -> None:
    words = started(unit)
    if words[1] == "manage.py":
        assert words[2:4] == ["audit", "anchor"]
        assert f"{words[5][2:-1]}=" in (EXAMPLES / "recovery-ops.env").read_text()
        return
    assert words[0] in (f"{HOME}/.venv/bin/uvicorn", f"{HOME}/.venv/bin/celery")
    place, _, name = (words[1] if ":" in words[1] else "recovery_ops.celery:app").partition(":")
    assert hasattr(import_module(place), name)


def test_the_environment_is_one_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (EXAMPLES / "recovery-ops.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    text = "\n".join(page.read_text() for page in (ROOT / "docs" / "operate").glob("*.md"))
    assert [name for name in given if name not in text] == []
    database = environment.database(given["RECOVERY_OPS_DATABASE_URL"], data=Path(), pool_size=1)
    assert (database["HOST"], database["NAME"]) == ("db.example.org", "recovery")
    monkeypatch.setenv("RECOVERY_OPS_PUBLIC_URL", given["RECOVERY_OPS_PUBLIC_URL"])
    assert environment.public_url(default="") == given["RECOVERY_OPS_PUBLIC_URL"]


def test_the_container_installs_what_is_locked() -> None:
    [install] = [line.split() for line in CONTAINER.splitlines() if "pip install" in line]
    assert "recovery_ops/locks/server.txt" in install
    assert {"--no-deps", "--require-hashes", "-r"} <= set(install)
    assert (ROOT / "recovery_ops" / "locks" / "server.txt").exists()


def test_nothing_of_a_checkout_gets_into_the_image_but_the_product(tmp_path: Path) -> None:
    beside = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    found = {path.name for path in copied(tmp_path / "image").rglob("*")}
    assert found & (beside | {".git", ".venv", ".data", "db.sqlite3", "secret-key"}) == set()
    assert {"manage.py", "recovery_ops", "events", "templates", "static", "server.txt"} <= found


@pytest.mark.full
def test_what_the_container_file_says_makes_a_console_that_is_healthy(tmp_path: Path) -> None:
    """Its steps in a fresh directory, with the packages that these tests have: no test builds the image itself."""
    home, port = copied(tmp_path / "image"), _free_port()
    (home / ".venv").symlink_to(sys.prefix)
    (home / ".venv/bin/uvicorn").resolve(strict=True)
    env = {"RECOVERY_OPS_DATA": str(tmp_path / "data"), "RECOVERY_OPS_BROKER_URL": "redis://127.0.0.1:1/0"}
    copy_migrated_sqlite(tmp_path / "data")
    before = re.findall(r"recovery-ops (\.venv/bin/python manage\.py .+)", CONTAINER)
    assert [words.split()[2] for words in before] == ["migrate", "collectstatic"]
    for words in before:
        done = subprocess.run(words.split(), cwd=home, env=clean_environment(env), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    [command] = re.findall(r"^CMD (\[.*\])", CONTAINER, re.MULTILINE)
    [health] = re.findall(r"^ +CMD (\[.*\])", CONTAINER, re.MULTILINE)
    started = [word.replace("0.0.0.0", "127.0.0.1") for word in json.loads(command)]
    with Running([port if word == "8000" else word for word in started], env=env, folder=home) as web:
        web.said("Uvicorn running on")
        asked = [word.replace(":8000", f":{port}").replace("timeout=2", "timeout=60") for word in json.loads(health)]
        looked = subprocess.run(asked, cwd=home, env=clean_environment(), capture_output=True, text=True)
        assert looked.returncode == 0, looked.stderr


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])
