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
from collections.abc import Callable, Mapping, Sequence
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
    if (data / "db.sqlite3").exists():
        return
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(_migrated_sqlite(), data / "db.sqlite3")


def _migrated_sqlite() -> Path:
    """One for all the processes of a test run: the first makes it while the others wait."""
    folder = Path(os.environ[RUN_FOLDER])
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            words = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0", "--data", str(folder)]
            subprocess.run(words, env=clean_environment(), check=True, capture_output=True)
            done.touch()
    return folder / "db.sqlite3"


def _share_a_folder() -> None:
    """The first process of a run makes a folder; those that it starts find its name in their environment."""
    if RUN_FOLDER not in os.environ:
        os.environ[RUN_FOLDER] = tempfile.mkdtemp(prefix="recovery-ops-run-")
        atexit.register(shutil.rmtree, os.environ[RUN_FOLDER], ignore_errors=True)


RUN_FOLDER = "RECOVERY_OPS_TEST_FOLDER"
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
