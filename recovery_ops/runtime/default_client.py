"""The client that a process uses where none is named, and the end of every client with its process."""

from __future__ import annotations

import atexit
import logging
import threading

from recovery_ops.runtime.client import OPEN, Recovery
from recovery_ops.runtime.process import forks
from recovery_ops.runtime.runs.context import current_scope


class _OwnClient(forks.InChild):
    """The process's own client: the first open one, else one made from the environment. Thread-safe and fork-safe."""

    def __init__(self) -> None:
        self._found: Recovery | None = None
        self._lock = threading.RLock()  # making one calls functions of the caller, which may ask for it
        forks.follow(self)

    def get(self) -> Recovery:
        """One that is not closed."""
        with self._lock:
            if self._found is None or self._found.is_closed:
                self._found = next((one for one in tuple(OPEN) if not one.is_closed), None) or Recovery()
            return self._found

    def after_fork_in_child(self) -> None:
        """Another thread of the parent may have held the lock: it will never give it back here."""
        self._lock = threading.RLock()


_own = _OwnClient()


def default() -> Recovery:
    """The process's own `Recovery`: the first that it made and has not closed, else one made from the environment."""
    return _own.get()


def in_force() -> Recovery:
    """The `Recovery` of the run that we are in, else the process's own."""
    scope = current_scope()
    owner = scope.owner if scope is not None else None
    return owner if isinstance(owner, Recovery) else default()


def _close_all() -> None:
    for recovery in tuple(OPEN):  # each takes itself out of the list
        try:
            recovery.close()
        except Exception:  # the others are still to be closed
            logging.getLogger(__name__).exception("recovery-ops could not close a client")


atexit.register(_close_all)
