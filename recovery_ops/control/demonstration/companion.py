"""The demonstration beside the server: first its history in a process of its own, then its agents until a removal."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connections

from recovery_ops.control.demonstration.selectors import demonstration_of
from recovery_ops.server.child_process import Child

_LOOKED_EVERY_S = 1.0
_STOP_S = 5.0


class DemonstrationCompanion:
    """Starts the agents of an environment when its history is stored, and stops them when a user removes them."""

    def __init__(self, agents: Child, *, environment: str, folder: Path) -> None:
        self._agents, self._environment, self._folder = agents, environment, folder
        self._is_stored, self._is_ending = threading.Event(), threading.Event()
        self._starting = threading.Lock()
        self._history = _history_process(environment, folder / "history.log", self._is_stored)
        self._thread = threading.Thread(target=self._run, name="demonstration", daemon=True)

    def start(self) -> None:
        """Begin, in a thread that lives as long as its processes do."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End its processes; whether force was not needed."""
        with self._starting:
            self._is_ending.set()
        self._is_stored.set()
        ended = [one.stop(timeout_s) for one in (self._history, self._agents) if one is not None]
        return all(ended)

    def _run(self) -> None:
        try:
            if self._history is not None:
                self._history.start()
                self._is_stored.wait()
            with self._starting:
                if self._is_ending.is_set():
                    return
                self._agents.start()
            while not self._is_ending.wait(_LOOKED_EVERY_S):
                if self._is_removed():
                    self._agents.stop(_STOP_S)
                    shutil.rmtree(self._folder, ignore_errors=True)
                    return
        finally:
            connections.close_all()

    def _is_removed(self) -> bool:
        with suppress(DatabaseError):  # busy just now; there is a next time
            found = demonstration_of(self._environment)
            return found is not None and found.removed_at is not None
        return False


def _history_process(environment: str, log: Path, is_over: threading.Event) -> Child | None:
    """The process that stores the history; None where one is stored, or the environment is of a user's own."""
    if environment != settings.DEMO_ENVIRONMENT or demonstration_of(environment) is not None:
        return None
    return Child(
        [sys.executable, "-m", "django", "generate_history", environment],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "recovery_ops.settings"),
            "RECOVERY_OPS_DATA": str(settings.DATA_DIR),
        },
        folder=settings.BASE_DIR,
        log=log,
        on_death=lambda code: is_over.set(),
    )
