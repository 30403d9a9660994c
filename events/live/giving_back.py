"""Gives a thread's connection back once a question is answered, so that none is held while a request is read."""

from __future__ import annotations

from django.db import close_old_connections, transaction


def give_back() -> None:
    """As Django does after a request. Inside the caller's transaction, as when lines are replayed, nothing happens."""
    if not transaction.get_connection().in_atomic_block:
        close_old_connections()
