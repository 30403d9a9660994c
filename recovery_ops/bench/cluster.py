"""A PostgreSQL of our own for the time of a measurement, or a database in one that is named."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import psycopg

from recovery_ops.bench.usage import cpu_s_of_session

START_WITHIN_S = 30.0
_LOG_MB = 8192
"""What of its log a cluster keeps to write over."""
_STEP_MB = 128
_PAGES_EACH_MB = 128
_FILL = "INSERT INTO run_in SELECT repeat('x', 8000) FROM generate_series(1, %s)"
"""Each row fills a page."""


class NoPostgres(Exception):
    """There is none on this machine."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster; `pid` is its first process."""

    folder: str
    pid: int

    def new_database(self, name: str, *, like: str = "template1") -> str:
        """Make an empty database, or a copy of another one that nobody uses; return its URL."""
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like}")
        return self._url(name)

    def run_in(self, size_mb: int, told: Callable[[int], None] = lambda _: None) -> int:
        """Fill and drop a table of so many megabytes, as far as there are buffers; return how many those were.

        A cluster that has run has its memory, and files of its log to write over. A new one is given both while it is
        measured, which is dear where memory is the host's until it is touched (docs/decisions/0023). `told` hears how
        much is written, step by step.
        """
        written_mb = 0
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE TABLE run_in (filler text)")
            connection.execute("ALTER TABLE run_in ALTER filler SET STORAGE PLAIN")
            while written_mb + _STEP_MB <= min(size_mb, _buffers_mb(), _LOG_MB):
                connection.execute(_FILL, [_STEP_MB * _PAGES_EACH_MB])
                written_mb += _STEP_MB
                told(written_mb)
            connection.execute("DROP TABLE run_in")
            connection.execute("CHECKPOINT")
        return written_mb

    def cpu_s(self) -> float:
        """Processor seconds of all its processes."""
        return cpu_s_of_session(self.pid)

    def size_bytes(self, name: str) -> int:
        """How large a database is."""
        with psycopg.connect(self._url("postgres")) as connection:
            found = connection.execute("SELECT pg_database_size(%s)", [name]).fetchone()
        return int(found[0]) if found else 0

    def _url(self, name: str) -> str:
        return f"postgres://bench@/{name}?host={self.folder}"


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run one in a temporary directory, durable, as docs/operate/postgresql.md configures it. Raises NoPostgres."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="recovery-ops-bench-pg-"))
    owner = _unprivileged()
    if owner is not None:
        os.chown(folder, owner, -1)
    try:
        initdb = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "bench", "-A", "trust", "-E", "UTF8"]
        initdb.append("--lc-collate=C")  # as docs/operate/postgresql.md creates a database
        subprocess.run(initdb, user=owner, cwd=folder, check=True, capture_output=True)
        options = [
            "listen_addresses=",
            f"shared_buffers={_buffers_mb()}MB",
            f"min_wal_size={_LOG_MB}MB",
            "max_wal_size=16GB",
            "checkpoint_timeout=15min",
        ]
        command = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder)]
        process = subprocess.Popen(
            [*command, *(word for option in options for word in ("-c", option))],
            user=owner,
            cwd=folder,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_for(f"postgres://bench@/postgres?host={folder}")
            yield Cluster(str(folder), process.pid)
        finally:
            process.send_signal(signal.SIGINT)  # its fast end: the usual one waits for whoever is still connected
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _buffers_mb() -> int:
    """A quarter of the memory."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // 4 // 2**20


def _wait_for(url: str) -> None:
    until = time.monotonic() + START_WITHIN_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def _programs() -> Path:
    found = shutil.which("initdb")
    newest = sorted(glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if found is None and not newest:
        raise NoPostgres("PostgreSQL is not on this machine")
    return Path(found or newest[-1]).parent


def _unprivileged() -> int | None:
    """Whom PostgreSQL runs as when we are root, which it refuses to be."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_uid
    except KeyError:
        return pwd.getpwnam("nobody").pw_uid
