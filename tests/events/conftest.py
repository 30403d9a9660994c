"""What tests of the store share: an empty store on either engine, a key, and the door that facts come in by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.utils import ConnectionHandler

from events import keys
from events.ingest import writer
from recovery_ops import environment
from tests.events.posting import Door


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """An empty store on SQLite that the server's own threads see, too."""
    keys.forget_keys()
    yield
    writer.close(timeout_s=10)
    keys.forget_keys()


@pytest.fixture
def door(store: None) -> Door:
    """The way in for facts, with a key of the environment `dev`."""
    return Door(keys.create_key("tests", ["ingest"], "dev")[1])


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[str]:
    """An empty store on each engine, for this thread alone."""
    if request.param == "sqlite":
        yield "sqlite"
        return
    config = environment.database(request.getfixturevalue("postgres_url"), data=Path(), pool_size=2)
    theirs = ConnectionHandler({"default": config})["default"]
    ours, connections["default"] = connections["default"], theirs
    try:
        call_command("migrate", verbosity=0)
        yield "postgres"
    finally:
        connections["default"] = ours
        theirs.close()
        theirs.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has one
