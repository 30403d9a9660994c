"""The room that is left on the disk of SQLite's file."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.db import connection

LEAST_FREE_BYTES = 64 * 2**20
"""With less, no event is stored: SQLite would notice only in the middle of a commit, and people need room to act."""


def free_bytes() -> int | None:
    """The free bytes beside SQLite's file; None for PostgreSQL, whose disk may be another machine's."""
    if connection.vendor != "sqlite":
        return None
    return shutil.disk_usage(Path(connection.settings_dict["NAME"]).absolute().parent).free


def has_room() -> bool:
    """Whether events may be stored. `/readyz` and the intake both go by it."""
    free = free_bytes()
    return free is None or free >= LEAST_FREE_BYTES
