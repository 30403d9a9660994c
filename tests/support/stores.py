"""PostgreSQL stores, copies of one that is migrated once, as migrations take most of the time; and SQLite files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import psycopg
from django.core.management import call_command
from django.db import connections
from django.db.utils import ConnectionHandler
from psycopg import sql

from events.store import partitions
from recovery_ops.server import environment
from tests.support import databases, services
from tests.support.processes import RUN_FOLDER, locked

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
"""The day on which stores are made: that of the beginning, also where the tests go on past midnight."""


@contextmanager
def store_at(url: str, *, pool_size: int = 2) -> Iterator[dict[str, Any]]:
    """Make the PostgreSQL at `url` this thread's store; yield its settings, with which other threads may enter it."""
    config = environment.database(url, data=Path(), pool_size=pool_size)
    theirs = ConnectionHandler({"default": config})["default"]
    ours, connections["default"] = connections["default"], theirs
    try:
        yield config
    finally:
        connections["default"] = ours
        theirs.close()
        theirs.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has one


@contextmanager
def sqlite_at(path: Path) -> Iterator[None]:
    """Make the file this thread's store."""
    config: dict[str, Any] = environment.database(f"sqlite:///{path}", data=Path(), pool_size=1)
    ours, connections["default"] = connections["default"], ConnectionHandler({"default": config})["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections["default"] = ours


def server() -> str:
    """The URL of a PostgreSQL: the one that `RECOVERY_OPS_TEST_POSTGRES_URL` names, or this run's own."""
    given = os.environ.get("RECOVERY_OPS_TEST_POSTGRES_URL")
    if not given:
        return services.postgres(template_name(), migrate_postgres)
    with locked(Path(os.environ[RUN_FOLDER]) / "postgres.lock"), psycopg.connect(given, autocommit=True) as server:
        known = server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [template_name()]).fetchone()
        if known is None:
            begun = f"begun_{uuid4().hex}"
            migrate_postgres(create_database(given, begun))
            words = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            server.execute(words.format(sql.Identifier(begun), sql.Identifier(template_name())))
    return given


def template_name() -> str:
    """The database that is copied for each test. Its partitions are those of a day, so the day is in its name."""
    return f"migrated_{databases.template_key()}_{TODAY:%Y%m%d}"


def migrate_postgres(url: str) -> None:
    """Bring the empty database at `url` to what the product expects; nobody is connected to it afterwards."""
    make_ahead = partitions.make_ahead

    def as_of_today(_: date, **more: Any) -> int:
        return make_ahead(TODAY.date(), **more)

    with store_at(url), patch.object(partitions, "make_ahead", as_of_today):
        call_command("migrate", verbosity=0)


def create_database(server: str, name: str, *, template: str = "template1") -> str:
    """Return the URL of a new database on `server`, a copy of `template`."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
    base, _, query = server.partition("?")
    return f"{base.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")


def drop_database(server: str, name: str) -> None:
    """Remove it, whoever is still connected."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
