"""The SQLite connections of all threads, and their end with the process.

SQLite moves its log into the main file when the last connection closes. Connections that the end of a process cuts off
leave the log beside it, and a copy of the main file alone lacks what is in there.
"""

from __future__ import annotations

import threading
import time
from typing import Any
from weakref import WeakKeyDictionary

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver

STOP_S = 2.0
"""How long a thread may use its connection after the last request; then its query is interrupted."""
_INTERRUPTED_S = 1.0

_lock = threading.Lock()
_threads: WeakKeyDictionary[BaseDatabaseWrapper, threading.Thread] = WeakKeyDictionary()


@receiver(connection_created)
def _note(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        with _lock:
            _threads[connection] = threading.current_thread()


def close_all_connections() -> None:
    """Close the connections of all threads but the main one, and truncate the log. To be called at the end alone.

    A connection is closed once its thread has ended: SQLite's library does not allow it while a query runs.
    """
    if connection.vendor != "sqlite":
        return
    with _lock:
        opened = [(one, thread) for one, thread in _threads.items() if thread is not threading.main_thread()]
    _join(opened, STOP_S)
    for one, thread in opened:
        library = one.connection
        if thread.is_alive() and library is not None:
            library.interrupt()
    _join(opened, _INTERRUPTED_S)
    for one, thread in opened:
        if not thread.is_alive():
            one.inc_thread_sharing()
            one.close()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _join(opened: list[tuple[BaseDatabaseWrapper, threading.Thread]], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    for one, thread in opened:
        if one.connection is not None:
            thread.join(max(0.0, deadline - time.monotonic()))
