"""Columns of rows reach PostgreSQL as arrays that we write, whatever is in them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events import statements
from events.copying import array_of
from events.deployments.told import Told
from events.statements import Merge

on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00")) | st.sampled_from(
    ["", "NULL", "null", "{}", '"', "\\", '","', "a,b", "' or 1", " ", "\t\n", "\\x00", "%s", "Äpfel 🍏"]
)
WHOLE = st.integers(-(2**63), 2**63 - 1)
COLUMNS = [("text", TEXTS), ("bigint", WHOLE), ("boolean", st.booleans()), ("bytea", st.binary())]
COLUMNS += [("double precision", st.floats(allow_nan=False))]


@on_postgres
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_written_is_read(engine: str, data: st.DataObject) -> None:
    for kind, values in COLUMNS:
        column = data.draw(
            st.lists(values, min_size=1, max_size=5) | st.lists(values | st.none(), min_size=1, max_size=5)
        )
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT one FROM unnest(%s::{kind}[]) WITH ORDINALITY AS told(one, at) ORDER BY at", [array_of(column)]
            )
            found = [bytes(one) if isinstance(one, memoryview) else one for (one,) in cursor.fetchall()]
        assert found == column, kind


@on_postgres
def test_every_table_takes_its_columns_as_arrays(engine: str) -> None:
    """Their types are those of the models."""
    merges = [one for one in vars(statements).values() if isinstance(one, Merge) and one is not statements.FACTS]
    assert len(merges) == 7
    for merge in merges:
        with connection.cursor() as cursor:
            cursor.execute(merge.by_arrays(), ["{}"] * len(merge.columns))
            assert cursor.rowcount == 0


@on_postgres
def test_a_text_that_is_too_long_is_refused_and_not_cut(engine: str) -> None:
    row: Sequence[object] = ("dev", "s" * 1000, "v", *([1] * len(Told._fields)))
    with pytest.raises(DatabaseError, match="too long"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statements.VERSIONS.by_arrays(), [array_of([one]) for one in row])
