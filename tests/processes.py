"""Starts the product the way people do, as a process, and waits for what it says or does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what the tests' settings put there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RECOVERY_OPS_", "PYTEST_"))}
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    return {**kept, **(extra or {})}


def eventually(is_so: Callable[[], bool], *, timeout_s: float = 15.0, what: str = "the condition") -> None:
    """Return as soon as `is_so()`; fail after `timeout_s`. For what another process does: never for time to pass."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s:g} s")
        time.sleep(0.02)


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

    def said(self, pattern: str, *, timeout_s: float = 30.0) -> re.Match[str]:
        """Wait until its output matches `pattern`; fail with the output when it ends or takes longer."""

        def is_settled() -> bool:
            return re.search(pattern, self._text) is not None or not self._reader.is_alive()

        with self._spoke:
            self._spoke.wait_for(is_settled, timeout_s)
        found = re.search(pattern, self._text)
        if found is None:
            raise AssertionError(f"{pattern!r} was not said. Exit code {self.process.poll()}, output:\n{self._text}")
        return found

    def end(self, number: signal.Signals = signal.SIGINT, *, timeout_s: float = 15.0) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.wait(timeout_s=timeout_s)

    def wait(self, *, timeout_s: float = 30.0) -> int:
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
    """`manage.py up` on a free port, without the demonstration fleet unless `has_demo`; answers when entered."""

    def __init__(self, data: Path, *options: str, env: Mapping[str, str] | None = None, has_demo: bool = False) -> None:
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
