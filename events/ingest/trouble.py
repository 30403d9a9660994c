"""Logs a trouble with its traceback when it begins, and not again for every request that meets it."""

from __future__ import annotations

import logging
import threading
import time

AGAIN_S = 60.0
_MOST = 100


class TroubleLog:
    """Logs each kind of trouble once a minute at most; a kind is an exception's type and place. For all threads."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._last: dict[tuple[type[BaseException], int], float] = {}

    def note(self, what: str, error: BaseException) -> None:
        """Log `what` happened because of `error`, if it was not logged a moment ago."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        kind = (type(error), trace.tb_lineno if trace is not None else 0)
        now = time.monotonic()
        with self._lock:
            if now - self._last.get(kind, float("-inf")) < AGAIN_S:
                return
            if len(self._last) >= _MOST:
                self._last.clear()
            self._last[kind] = now
        self._logger.error("%s: %r", what, error, exc_info=error)
