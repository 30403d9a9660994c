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
from events.queries.readings import text_of
from events.store.stored_json import StoredJSON, text_at
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names
from tests.support import any_events
from tests.support.engines import engine
from tests.support.stories import NOW

__all__ = ["engine"]  # the fixture

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


@pytest.mark.parametrize("value", ["a", "", "\u200b", "9" * 23, -1, 1.5, True, None, {"a": [1]}, ["a"]])
def test_sql_reads_text_like_python(engine: str, value: Any) -> None:
    given = {} if value is None else {names.ATTRIBUTES["fingerprint"]: value}
    kind = FailureClassified
    assert any_events.store(NOW, {kind: [any_events.bare(kind) | given]}) == 1
    stored = Fact.objects.annotate(mark=text_at(names.ATTRIBUTES["fingerprint"])).get()
    assert (stored.mark or "") == text_of(stored.attributes.get(names.ATTRIBUTES["fingerprint"]))


def test_migrations_know_it_as_a_json_field() -> None:
    assert StoredJSON().deconstruct()[1] == "django.db.models.JSONField"
