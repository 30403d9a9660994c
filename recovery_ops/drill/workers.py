"""The processes that work in the background: a Redis that can be flushed, workers and schedulers that can be killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import redis

from recovery_ops.drill.world import ROOT, NotHere, wait_until


class Program:
    """A process with a session of its own: a kill takes its children along, as a machine that loses its power would."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name, self._command = name, list(command)
        self._log_path = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """What it has said so far, since the first start."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, with this process's environment; PostgreSQL knows its connections by its name."""
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONUNBUFFERED": "1", "PGAPPNAME": self.name},
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill it and all that it started, at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Redis(Program):
    """A Redis of our own that keeps nothing, on a port that stays its own."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise NotHere("Redis")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = int(probe.getsockname()[1])
        words = ["--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        super().__init__("redis", [program, *words, "--dir", str(folder)], folder)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        super().start()
        wait_until(self._answers, "Redis")

    def flush(self) -> int:
        """Forget everything, as FLUSHALL does; return how many keys that was."""
        with redis.Redis(port=self._port) as client:
            count = int(client.dbsize())
            client.flushall()
        return count

    def is_read(self) -> bool:
        """Whether some worker waits for the next task."""
        with redis.Redis(port=self._port) as client:
            return int(client.info("clients")["blocked_clients"]) > 0

    def _answers(self) -> bool:
        try:
            with redis.Redis(port=self._port) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


def worker(name: str, folder: Path) -> Program:
    """A Celery worker as docs/operate/redis-and-workers.md starts one."""
    words = ["-A", "recovery_ops", "worker", "--concurrency", "2", "--hostname", f"{name}@%h"]
    return Program(name, [sys.executable, "-m", "celery", *words], folder)


def scheduler(name: str, folder: Path) -> Program:
    """A Celery scheduler with a file of its own, as on a machine of its own."""
    words = ["-A", "recovery_ops", "beat", "--schedule", str(folder / f"{name}.db")]
    return Program(name, [sys.executable, "-m", "celery", *words], folder)


def embedded(folder: Path, data: Path) -> Program:
    """`manage.py up`: web, worker and scheduler in one process."""
    words = ["up", "--no-demo", "--data", str(data), "--host", "127.0.0.1", "--port", "0"]
    return Program("embedded", [sys.executable, str(ROOT / "manage.py"), *words], folder)


def address_of(program: Program) -> str:
    """Host and port of a `manage.py up`, once it says that it runs."""
    wait_until(lambda: "Ctrl-C ends everything" in program.log, "manage.py up")
    line = next(line for line in program.log.splitlines() if line.split()[:1] == ["console"])
    return line.split()[1].removeprefix("http://").rstrip("/")
