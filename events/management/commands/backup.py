"""`manage.py backup FILE`: a copy of the SQLite store, whole also while the server writes."""

from __future__ import annotations

import os
import sqlite3
from argparse import ArgumentParser
from contextlib import closing
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from recovery_ops.server.progress_bars import progress_bar

_STEP_PAGES = 2_000
"""Copied between two looks at the bar."""


class Command(BaseCommand):
    """Copy the store, look whether the copy is sound, and put it in its place only then."""

    help = "Copy the SQLite database to a file, also while the server runs. PostgreSQL has `pg_dump`."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where to."""
        parser.add_argument("file", type=Path, help="new file")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write it, readable by its owner alone. Raises CommandError, and leaves nothing behind, where it cannot."""
        target: Path = options["file"]
        if connection.vendor != "sqlite":
            raise CommandError("The store is PostgreSQL: back it up with pg_dump --format=custom.")
        if target.exists():
            raise CommandError(f"{target} is there already; a backup overwrites nothing.")
        draft = target.with_name(f"{target.name}.part")
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _copy(str(connection.settings_dict["NAME"]), draft)
            os.replace(draft, target)
        except (OSError, sqlite3.Error) as error:
            draft.unlink(missing_ok=True)
            raise CommandError(f"The backup could not be made: {error}") from None
        self.stdout.write(f"{target}: {target.stat().st_size:,} bytes, and sound")


def _copy(name: str, draft: Path) -> None:
    with (
        closing(sqlite3.connect(name, uri=name.startswith("file:"))) as source,
        closing(sqlite3.connect(draft)) as copy,
    ):
        source.execute("BEGIN")  # one moment for all steps: a backup begins anew when it sees that its source changed
        count = source.execute("PRAGMA page_count").fetchone()[0]
        with progress_bar("pages", count) as tell:
            source.backup(copy, pages=_STEP_PAGES, progress=lambda _, left, total: tell(total - left), sleep=0)
        source.rollback()
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, whatever it was copied from
        with progress_bar("looking whether the copy is sound", None):
            found = copy.execute("PRAGMA integrity_check").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
