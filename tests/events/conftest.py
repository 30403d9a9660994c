"""What tests of the store share: an empty store on either engine, a key, and the door that facts come in by."""

from __future__ import annotations

import pytest

from events import keys
from events.capacity.hits import forget_floods
from tests.support.engines import engine, store
from tests.support.otlp import Door

__all__ = ["engine", "store"]  # the fixtures


@pytest.fixture(autouse=True)
def _no_flood_of_another_test() -> None:
    forget_floods()


@pytest.fixture
def door(store: None) -> Door:
    """The way in for facts, with a key of the environment `dev`."""
    return Door(keys.create_key("tests", ["ingest"], "dev")[1])
