"""Runs one child process that ends with us, however we end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class Child:
    """A child process with its output in a file.

    Three ropes tie it to us: `stop` (SIGTERM, then SIGKILL to its whole group), the end of its standard input, and on
    Linux a signal from the kernel when we are killed. It has a session of its own, so Ctrl-C in the terminal reaches
    it through us, once.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        folder: Path,
        log: Path,
        on_death: Callable[[int], None],
    ) -> None:
        self._argv = list(argv)
        self._env = env
        self._folder = folder
        self._log = log
        self._on_death = on_death
        self._is_stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None

    def start(self) -> None:
        """Start it. The calling thread has to live as long as the child: the kernel's signal watches that thread."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._argv,
                env=self._env,
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509  # one system call, looked up before the fork
            )
        self._watcher = threading.Thread(target=self._watch, args=(self._process,), name="child-watch", daemon=True)
        self._watcher.start()

    def stop(self, timeout_s: float) -> bool:
        """End it within `timeout_s`, by force if need be; say whether force was not needed."""
        self._is_stopping = True
        if self._process is None or self._watcher is None:
            return True
        _close_input(self._process)
        if self._watcher.is_alive():
            _signal_group(self._process, signal.SIGTERM)
        self._watcher.join(timeout_s)
        if not self._watcher.is_alive():
            return True
        _signal_group(self._process, signal.SIGKILL)
        self._watcher.join()
        return False

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        # What it started itself may have stayed behind. At once: later the number may belong to someone else.
        _signal_group(process, signal.SIGKILL)
        if not self._is_stopping:
            _close_input(process)
            self._on_death(code)


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it was quicker
        os.killpg(process.pid, number)


def _die_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)  # before the fork: loading a library after it could wait for a lock nobody holds any more

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask
