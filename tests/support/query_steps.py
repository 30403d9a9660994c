"""How much of the store a question visits, which no other work on the machine changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection


def steps(ask: Callable[[], object], each: int = 1000) -> int:
    """So many times `each` steps of SQLite's machine."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    raw: Any = connection.connection
    raw.set_progress_handler(step, each)
    try:
        ask()
    finally:
        raw.set_progress_handler(None, 0)
    return count
