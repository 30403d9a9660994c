"""Starts a PostgreSQL or a Redis of the tests' own, where the machine has the programs."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import psycopg
import redis
from playwright.sync_api import sync_playwright

from tests.support import databases, stores
from tests.support.processes import RUN_FOLDER, end_with_run, eventually, locked


class Missing(Exception):
    """The machine lacks `name`; `hint` says what would bring it."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"{name}: {hint}")
        self.name, self.hint = name, hint


def browser() -> str:
    """Return the path of a Chromium or Chrome: the system's, else the one Playwright installed.

    The one without windows first, where the system has it: the same engine for four fifths of the processor time.
    """
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        with sync_playwright() as playwright:
            installed = Path(playwright.chromium.executable_path)
        found = str(installed) if installed.exists() else None
    if found is None:
        raise Missing("Chromium", "apt install chromium")
    return found


def postgres(template: str, make: Callable[[str], None]) -> str:
    """The URL of the `postgres` database of this run's cluster; its database `template` is a migrated one to copy.

    The first process of a run starts it, on a socket alone: no port to collide on. It ends with the run. `make` fills
    the database at a URL; the cluster that holds it is kept for the next run.
    """
    programs, owner = _postgres_programs(), _unprivileged()

    def make_cluster(folder: Path) -> None:
        if owner is not None:
            os.chown(folder, owner, -1)
        options = ["-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync"]
        initdb = [str(programs / "initdb"), "-D", str(folder / "data"), *options]
        subprocess.run(initdb, user=owner, cwd=folder, check=True, capture_output=True)
        with tempfile.TemporaryDirectory(prefix="recovery-ops-pg-") as sockets:
            process, url = _start_postgres(programs, folder / "data", Path(sockets), owner)
            make(stores.create_database(url, template))
            process.terminate()
            process.wait()

    here = Path(os.environ[RUN_FOLDER]) / "postgres"
    with locked(here.with_suffix(".lock")):
        if (here / "url").exists():
            return (here / "url").read_text()
        kept = databases.template(f"postgres-{programs.parent.name}-{template}", make_cluster)
        here.mkdir()
        subprocess.run(["cp", "-a", str(kept / "data"), str(here / "data")], check=True)
        if owner is not None:
            os.chown(here, owner, -1)
        process, url = _start_postgres(programs, here / "data", here, owner)
        end_with_run(process)
        (here / "url").write_text(url)
        return url


def _start_postgres(
    programs: Path, data: Path, sockets: Path, owner: int | None
) -> tuple[subprocess.Popen[bytes], str]:
    if owner is not None:
        os.chown(sockets, owner, -1)
    quick = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "listen_addresses=", "-c", "max_connections=300"]
    process = subprocess.Popen(
        [str(programs / "postgres"), "-D", str(data), "-k", str(sockets), *quick],
        user=owner,
        cwd=data,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"postgres://tests@/postgres?host={sockets}"
    eventually(lambda: _answers(url), what="PostgreSQL")
    return process, url


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a Redis that keeps nothing, on a free port of this machine; yield its URL."""
    program = shutil.which("redis-server")
    if program is None:
        raise Missing("Redis", "apt install redis-server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            with redis.Redis(port=port) as client:
                eventually(lambda: _pings(client), what="Redis")
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


def nginx() -> str:
    """Return the path of nginx."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Missing("nginx", "apt install nginx-light")
    return found


def _postgres_programs() -> Path:
    found = shutil.which("initdb")
    newest = sorted(glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if found is None and not newest:
        raise Missing("PostgreSQL", "apt install postgresql, or set RECOVERY_OPS_TEST_POSTGRES_URL")
    return Path(found or newest[-1]).parent


def _unprivileged() -> int | None:
    """Return whom PostgreSQL runs as when we are root, which it refuses to be."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_uid
    except KeyError:
        return pwd.getpwnam("nobody").pw_uid


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _pings(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
