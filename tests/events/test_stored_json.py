"""JSON columns read back what was stored, also what only the standard library understands."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from events.models import Fact
from events.stored_json import StoredJSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELD = Fact._meta.get_field("attributes")


def read(text: str | None) -> Any:
    return StoredJSON().from_db_value(text, FIELD.get_col("events_fact"), connection)


@given(VALUES)
def test_what_was_stored_is_read(value: Any) -> None:
    assert read(json.dumps(value)) == value


@pytest.mark.parametrize(("text", "value"), [('"\\ud800"', "\ud800"), ("Infinity", math.inf), (None, None)])
def test_what_only_the_standard_library_reads_is_read(text: str | None, value: Any) -> None:
    assert read(text) == value


def test_migrations_know_it_as_a_json_field() -> None:
    assert StoredJSON().deconstruct()[1] == "django.db.models.JSONField"
