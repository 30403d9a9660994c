"""Stores on both engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from events import keys
from events.ingest.cardinality import known_names
from events.ingest.commits import writer
from events.ingest.reporters import reporters
from tests.support.stores import store_at


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """An empty store on SQLite that the server's own threads see, too."""
    keys.forget_keys()
    reporters.forget()
    known_names.forget()
    yield
    writer.close(timeout_s=10)
    keys.forget_keys()


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """An empty store on each engine, for this thread alone."""
    reporters.forget()
    if request.param == "sqlite":
        request.getfixturevalue("transactional_db")
        yield "sqlite"
        return
    with django_db_blocker.unblock(), store_at(request.getfixturevalue("migrated_postgres_url")):
        yield "postgres"
