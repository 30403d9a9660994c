"""A server of our own in a process of its own, with an empty store that goes away afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from recovery_ops.bench.usage import cpu_s_of, rss_mb_of

ROOT = Path(__file__).resolve().parent.parent.parent
STOP_WITHIN_S = 15.0
START_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers; `key` may do everything in the environment `dev`."""

    url: str
    key: str
    pid: int
    data: Path

    def cpu_s(self) -> float:
        """Processor seconds used so far (Linux; 0 where that cannot be read)."""
        return cpu_s_of(self.pid)

    def rss_mb(self) -> float:
        """Resident memory (Linux; 0 where that cannot be read)."""
        return rss_mb_of(self.pid)


@contextmanager
def served(database_url: str = "", broker_url: str = "") -> Iterator[Server]:
    """Start `manage.py up --no-demo` on a free port; stop it at the end. Without a URL it has a SQLite of its own.

    With a broker it is the web alone: whoever wants a worker and a scheduler starts them.
    """
    with tempfile.TemporaryDirectory(prefix="recovery-ops-bench-") as folder:
        env = environment_of(Path(folder), database_url, broker_url)
        with _running(env) as (url, pid):
            yield Server(url, _key(env), pid, Path(folder))


@contextmanager
def one_more_web(server: Server, database_url: str) -> Iterator[Server]:
    """A second web process on the same store, as `docs/production` runs several; what looks runs in the first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "recovery_ops.asgi:application", "--port", str(port)]
    process = subprocess.Popen(  # our own command
        [*command, "--no-access-log", "--log-level", "warning"],
        env=environment_of(server.data, database_url),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        more = replace(server, url=f"http://127.0.0.1:{port}", pid=process.pid)
        _wait_for(more)
        yield more
    finally:
        process.kill()
        process.wait()


def _wait_for(server: Server) -> None:
    give_up_at = time.monotonic() + START_WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(f"{server.url}/healthz", timeout=1):  # noqa: S310  # nosec B310  # our own
                return
        except OSError:
            if time.monotonic() > give_up_at:
                raise RuntimeError("the second web process did not start") from None
            time.sleep(0.1)


def commanded(server: Server, *words: str, database_url: str = "") -> str:
    """What `python WORDS` prints, on the store of a server. Raises RuntimeError with what it said when it fails."""
    env = environment_of(server.data, database_url)
    done = subprocess.run(  # our own command
        [sys.executable, *words], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:3])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


class Restartable:
    """A server that can be ended and started again where it was: the same store, the same port, the same key."""

    def __init__(self, database_url: str = "") -> None:
        self._database_url = database_url
        self._stack = ExitStack()
        self._run = ExitStack()

    def __enter__(self) -> Self:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="recovery-ops-bench-")))
        env = environment_of(folder, self._database_url)
        url, pid = self._run.enter_context(_running(env))
        self.server = Server(url, _key(env), pid, folder)
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()
        self._stack.close()

    def restart(self) -> None:
        """End it as a person would, and wait until it answers again."""
        self._run.close()
        env = environment_of(self.server.data, self._database_url)
        url, pid = self._run.enter_context(_running(env, port=urlsplit(self.server.url).port or 0))
        self.server = replace(self.server, url=url, pid=pid)


def environment_of(data: Path, database_url: str, broker_url: str = "") -> dict[str, str]:
    """The variables of a process on this store."""
    env = os.environ | {"RECOVERY_OPS_DATA": str(data), "RECOVERY_OPS_DATABASE_URL": database_url}
    env["RECOVERY_OPS_BROKER_URL"] = broker_url
    env.pop("DJANGO_SETTINGS_MODULE", None)  # whoever measures may have settings of its own
    return env


@contextmanager
def _running(env: dict[str, str], port: int = 0) -> Iterator[tuple[str, int]]:
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-demo", "--port", str(port)]
    process = subprocess.Popen(  # our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env, start_new_session=True
    )
    try:
        yield _address(process), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        if line.strip().startswith("console"):
            return line.split()[1].rstrip("/")
    raise RuntimeError("the server did not start:\n" + "".join(lines))


def _key(env: dict[str, str]) -> str:
    command = [sys.executable, str(ROOT / "manage.py"), "key", "create", "--name", "bench"]
    command += ["--scope", "ingest,desired,read,act"]
    found = subprocess.run(command, env=env, capture_output=True, text=True, check=True)  # our own command
    return found.stdout.strip().splitlines()[-1]
