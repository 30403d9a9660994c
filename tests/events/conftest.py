"""What tests of the store share: an empty store on either engine, a key, and the door that facts come in by."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from events import keys
from events.capacity.hits import forget_floods
from events.cardinality import known_names
from events.ingest import writer
from events.reporters import reporters
from tests.support.otlp import Door
from tests.support.stores import store_at


@pytest.fixture(autouse=True)
def _no_flood_of_another_test() -> None:
    forget_floods()


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """An empty store on SQLite that the server's own threads see, too."""
    keys.forget_keys()
    reporters.forget()
    known_names.forget()
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
    with store_at(request.getfixturevalue("migrated_postgres_url")):
        yield "postgres"
