"""Migrated databases that are made once and copied, and a quick way to empty one.

A template is kept between runs, under a hash of the migrations and of the packages that bring some of their own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.support.processes import ROOT, clean_environment, locked

CACHE = ROOT / ".pytest_cache" / "databases"
"""Templates of this checkout; it may be removed at any time."""

KEPT_TABLES = frozenset({"auth_permission", "django_content_type", "django_migrations", "events_schemastamp"})
"""What the migrations fill and no test writes."""


@cache
def template_key() -> str:
    """What a template depends on, as a name: other migrations or packages make another one."""
    digest = hashlib.sha256((ROOT / "recovery_ops" / "locks" / "test.txt").read_bytes())
    for pattern in (
        "events/migrations/0*.py",
        "recovery_ops/control/migrations/0*.py",
        "events/store/migration_operations.py",
    ):
        for path in sorted(ROOT.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def sqlite_template() -> Path:
    """The file of a migrated and otherwise empty SQLite database."""

    def make(folder: Path) -> None:
        words = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0", "--data", str(folder)]
        subprocess.run(words, env=clean_environment(), check=True, capture_output=True)

    return template(f"sqlite-{template_key()}", make) / "db.sqlite3"


def template(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache; `make` fills it where it is missing, while other processes wait.

    Folders of the same kind (the word before the first dash) that were not used for a day are removed.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    done = CACHE / name
    with locked(CACHE / "lock"):
        if not done.exists():
            begun = CACHE / f"begun-{os.getpid()}"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            make(begun)
            begun.rename(done)
        os.utime(done)
        for old in CACHE.glob(f"{name.partition('-')[0]}-*"):
            if old.stat().st_mtime < done.stat().st_mtime - 86_400:
                shutil.rmtree(old, ignore_errors=True)
    return done


def empty_written_tables(database: BaseDatabaseWrapper) -> None:
    """Delete what a test left behind. Tables without rows are not touched, and nothing is told of it."""
    with database.cursor() as cursor:
        names = [name for name in database.introspection.table_names(cursor) if name not in KEPT_TABLES]
        # Each is asked on its own: one statement over all of them is longer than SQLite takes.
        written = [name for name in names if _has_rows(cursor, name)]
    if not written:
        return
    with database.constraint_checks_disabled(), transaction.atomic(using=database.alias), database.cursor() as cursor:
        for name in written:
            cursor.execute(f"DELETE FROM {database.ops.quote_name(name)}")


def _has_rows(cursor: Any, name: str) -> bool:
    cursor.execute(f'SELECT EXISTS (SELECT 1 FROM "{name}")')
    return bool(cursor.fetchone()[0])
