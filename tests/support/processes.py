"""Starts the product the way people do, as a process, and waits for what it says or does."""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
"""How long a test waits for what another process does. It costs time only where the test fails anyway; a busy machine
has been seen to take ten times as long as a quiet one."""


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what the tests' settings put there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RECOVERY_OPS_", "PYTEST_"))}
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    return {**kept, **(extra or {})}


def eventually(is_so: Callable[[], bool], *, timeout_s: float = PATIENCE_S, what: str = "the condition") -> None:
    """Return as soon as `is_so()`; fail after `timeout_s`. For what another process does: never for time to pass."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s:g} s")
        time.sleep(0.02)


def copy_migrated_sqlite(data: Path) -> None:
    """Put an empty, migrated store into the data directory `data`, unless it holds one."""
    from tests.support.databases import sqlite_template

    if (data / "db.sqlite3").exists():
        return
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(sqlite_template(), data / "db.sqlite3")


RUN_FOLDER = "RECOVERY_OPS_TEST_FOLDER"
"""The variable that names the folder of this run, which its processes share."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time go on; the kernel ends it however the process ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_outliving: list[subprocess.Popen[bytes]] = []
"""Processes that this one started and does not wait for."""


def end_with_run(process: subprocess.Popen[bytes]) -> None:
    """Have the first process of the run end another process when it ends itself."""
    _outliving.append(process)
    folder = Path(os.environ[RUN_FOLDER]) / "ended-with-it"
    folder.mkdir(exist_ok=True)
    (folder / str(process.pid)).touch()


def _share_a_folder() -> None:
    """The first process of a run makes a folder; those that it starts find its name in their environment."""
    if RUN_FOLDER not in os.environ:
        os.environ[RUN_FOLDER] = tempfile.mkdtemp(prefix="recovery-ops-run-")
        # Other users run PostgreSQL in it, where we are root.
        Path(os.environ[RUN_FOLDER]).chmod(0o711)
        # Servers of tests are not among those that the commands of the machine's user find.
        os.environ["XDG_STATE_HOME"] = f"{os.environ[RUN_FOLDER]}/state"
        atexit.register(_end_run, Path(os.environ[RUN_FOLDER]), os.getpid())


def _end_run(folder: Path, pid: int) -> None:
    if os.getpid() != pid:
        return  # a fork of it
    for one in (folder / "ended-with-it").glob("*"):
        with suppress(ProcessLookupError):
            os.kill(int(one.name), signal.SIGQUIT)  # at once: nothing of it is needed any more
    for process in _outliving:
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


_share_a_folder()


class Running:
    """A child process whose output is read as it comes; killed at the end of the block if it still lives."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        keeps_input: bool = False,
    ) -> None:
        self._spoke = threading.Condition()
        self._text = ""
        self.process = subprocess.Popen(
            list(argv),
            env=clean_environment(env),
            cwd=folder,
            stdin=subprocess.PIPE if keeps_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    @property
    def text(self) -> str:
        """All that it has said so far, standard output and error together."""
        return self._text

    def said(self, pattern: str, *, timeout_s: float = 2 * PATIENCE_S) -> re.Match[str]:
        """Wait until its output matches `pattern`; fail with the output when it ends or takes longer."""

        def is_settled() -> bool:
            return re.search(pattern, self._text) is not None or not self._reader.is_alive()

        with self._spoke:
            self._spoke.wait_for(is_settled, timeout_s)
        found = re.search(pattern, self._text)
        if found is None:
            raise AssertionError(f"{pattern!r} was not said. Exit code {self.process.poll()}, output:\n{self._text}")
        return found

    def end(self, number: signal.Signals = signal.SIGINT, *, timeout_s: float = PATIENCE_S) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.wait(timeout_s=timeout_s)

    def wait(self, *, timeout_s: float = 2 * PATIENCE_S) -> int:
        """Return the exit code; fail with the output when it takes longer."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still alive after {timeout_s:g} s, output:\n{self._text}") from None
        self._reader.join()
        return code

    def _read(self) -> None:
        stream = self.process.stdout
        for line in stream or ():
            with self._spoke:
                self._text += line
                self._spoke.notify_all()
        with self._spoke:
            self._spoke.notify_all()


class Server(Running):
    """`manage.py up` on a free port, without the demonstration fleet unless `has_demo`; answers when entered.

    It finds an empty store that is migrated already, unless `is_first_start` or `env` names another database.
    """

    def __init__(
        self,
        data: Path,
        *options: str,
        env: Mapping[str, str] | None = None,
        has_demo: bool = False,
        is_first_start: bool = False,
    ) -> None:
        if not is_first_start and "RECOVERY_OPS_DATABASE_URL" not in (env or {}):
            copy_migrated_sqlite(data)
        words = [sys.executable, str(ROOT / "manage.py"), "up", "--data", str(data), *options]
        if "--port" not in options:
            words += ["--port", "0"]
        if not has_demo:
            words.append("--no-demo")
        super().__init__(words, env=env)

    def __enter__(self) -> Self:
        try:
            self.said("Ctrl-C ends everything")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return self.said(r"console\s+(http://\S+)/")[1]

    @property
    def sign_in(self) -> tuple[str, str]:
        """Name and password of the first account."""
        found = self.said(r"sign in\s+(\S+)\s+(\S+)")
        return found[1], found[2]
