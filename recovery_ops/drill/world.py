"""The processes that things are done to: servers that can be killed, and a PostgreSQL of our own that can be, too."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from glob import glob
from pathlib import Path

import psycopg

from recovery_ops.drill.room import Room

ROOT = Path(__file__).resolve().parent.parent.parent
_START_S = 60.0
MOST_NAMES = 200
"""Operations that have a place, in every server of a drill."""


class NotHere(Exception):
    """What a drill needs is not on this machine."""


class Server:
    """A process that takes facts in, on a port that stays its own. `door` is a name of `recovery_ops.asgi`.

    `root` is the checkout whose code it runs. With `workers` above 1 it is a master with so many children.
    """

    def __init__(self, data: Path, database_url: str, *, door: str = "facts", workers: int = 1) -> None:
        self._door, self._workers = door, workers
        self.root = ROOT
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._env = os.environ | {
            "RECOVERY_OPS_DATA": str(data),
            "RECOVERY_OPS_DATABASE_URL": database_url,
            "RECOVERY_OPS_MOST_OPERATIONS": str(MOST_NAMES),
        }
        self._log = (data / f"server-{self.port}.log").open("ab")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        words = ["-m", "uvicorn", f"recovery_ops.asgi:{self._door}", "--port", str(self.port), "--no-access-log"]
        words += ["--workers", str(self._workers)] if self._workers > 1 else []
        command = [sys.executable, *words, "--log-level", "warning"]
        self.process = subprocess.Popen(
            command, cwd=self.root, env=self._env, stdout=self._log, stderr=self._log, start_new_session=True
        )
        wait_until(self._answers, f"the server on port {self.port}")

    def kill(self) -> None:
        """Kill it at once, as a machine that loses its power would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def children(self) -> list[int]:
        """The processes that serve in its place and run now. Raises NotHere where that cannot be read."""
        if not Path("/proc/self/task").exists():
            raise NotHere("a list of processes (Linux)")
        parents = {int(path.name): _parent(path) for path in Path("/proc").glob("[0-9]*")}
        mine = [pid for pid, parent in parents.items() if self.process is not None and parent == self.process.pid]
        return [pid for pid in mine if b"spawn_main" in _command(pid)]  # beside them stands Python's own tracker

    def restart(self) -> None:
        """Tell it to end, as a deploy does; when it has finished what it was at, start it again."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(_START_S)
        self.start()

    def limit_files(self, most_bytes: int) -> None:
        """Let no file of it grow beyond so many bytes, from now on; -1 for no limit."""
        if self.process is not None:
            _limit(self.process.pid, most_bytes)

    def rss_mb(self) -> float:
        """Resident memory, 0 where that cannot be read."""
        pid = self.process.pid if self.process is not None else 0
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            return pages * resource.getpagesize() / 2**20
        return 0.0

    def close(self) -> None:
        """End it for good, with whatever it has started."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.kill()
        self._log.close()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/healthz", timeout=1) as answer:  # nosec B310  # our own address
                return bool(answer.status == 200)
        except OSError:
            return False


class Postgres:
    """A cluster of our own in a temporary directory, as durable as it comes."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._owner = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="recovery-ops-drill-pg-"))
        self.process: subprocess.Popen[bytes] | None = None
        self._limited: list[int] = []
        (self.folder / "data").mkdir(mode=0o700)
        if self._owner is not None:
            os.chown(self.folder, self._owner, -1)
            os.chown(self.folder / "data", self._owner, -1)
        self.room = Room(self.folder / "data", self._owner)
        command = [str(self._programs / "initdb"), "-D", str(self.folder / "data"), "-U", "drill", "-A", "trust"]
        subprocess.run([*command, "-E", "UTF8"], user=self._owner, cwd=self.folder, check=True, capture_output=True)

    @property
    def url(self) -> str:
        """The database of the drill."""
        return f"postgres://drill@/drill?host={self.folder}"

    def start(self) -> None:
        """Start it, and wait until it answers, with whatever it has to recover from."""
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        self.process = subprocess.Popen(
            [*command, "-c", "listen_addresses=", "-c", "shared_buffers=256MB"],
            user=self._owner,
            cwd=self.folder,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(self._answers, "PostgreSQL")

    @property
    def has_ended(self) -> bool:
        """Whether it has given up by itself, as it does where its log cannot be written."""
        return self.process is None or self.process.poll() is not None

    def make_database(self) -> None:
        """The empty database that servers use."""
        with psycopg.connect(self._other, autocommit=True) as connection:
            connection.execute("CREATE DATABASE drill")

    def kill(self) -> None:
        """Kill every process of it at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop_at_once(self) -> None:
        """The `immediate` stop: no checkpoint, no goodbye."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def drop_connections(self) -> int:
        """Terminate every connection to the drill's database; return how many."""
        with psycopg.connect(self._other, autocommit=True) as connection:
            found = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'drill'"
            ).fetchone()
        return int(found[0]) if found else 0

    def limit_files(self, most_bytes: int) -> None:
        """Let no file of a connection grow beyond so many bytes, from now on; -1 for no limit."""
        if most_bytes >= 0:
            with psycopg.connect(self._other, autocommit=True) as connection:
                found = connection.execute("SELECT pid FROM pg_stat_activity WHERE datname = 'drill'").fetchall()
            self._limited = [pid for (pid,) in found]
        program = shutil.which("prlimit")
        if program is None:
            raise NotHere("prlimit")
        limit = "unlimited" if most_bytes < 0 else str(most_bytes)
        for pid in self._limited:  # those that are gone by then took their limit with them
            # As the one whose processes they are: limits of somebody else's are not even root's to set everywhere.
            command = [program, "--pid", str(pid), f"--fsize={limit}:"]
            subprocess.run(command, user=self._owner, check=False, capture_output=True)

    def close(self) -> None:
        """End it and remove all it had."""
        self.kill()
        self.room.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _other(self) -> str:
        return f"postgres://drill@/postgres?host={self.folder}"

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._other, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    return _parent(Path(f"/proc/{pid}")) is not None


def _parent(process: Path) -> int | None:
    """Who started it; None for one that has ended."""
    try:
        state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(parent)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _limit(pid: int, most_bytes: int) -> None:
    if not hasattr(resource, "prlimit"):
        raise NotHere("limits of other processes (Linux)")
    with contextlib.suppress(ProcessLookupError):
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if most_bytes < 0 else most_bytes, hard))


def wait_until(is_so: Callable[[], bool], what: str, *, within_s: float = _START_S) -> None:
    """Return as soon as `is_so()`. Raises RuntimeError when it takes too long for something to start."""
    until = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(f"{what} did not answer within {within_s:g} s")
        time.sleep(0.05)


def _programs() -> Path:
    found = shutil.which("initdb")
    newest = sorted(glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if found is None and not newest:
        raise NotHere("PostgreSQL")
    return Path(found or newest[-1]).parent


def _unprivileged() -> int | None:
    """Whom PostgreSQL runs as when we are root, which it refuses to be."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_uid
    except KeyError:
        return pwd.getpwnam("nobody").pw_uid
