"""Many rows into SQLite, by as few values and as few statements as it takes.

The driver looks at each value that a statement is given, and SQLite copies it. Most columns of a fact say the same for
many facts of a transaction, so those are given once, to a table in memory, and each fact names its row there: 10 values
instead of 23 (docs/decisions/0011).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from operator import attrgetter
from sqlite3 import Cursor
from typing import Any

from django.db import connection

from events.ingest.records import Row
from events.store import statements

_Values = Sequence[tuple[Any, ...]]
_ROWS_EACH = 256
"""Rows inserted by one statement, which takes at most 32,766 values. A power of two: see `_parts`."""
_FACTS_EACH = 4_096
"""Facts whose heads are kept at once: what is in memory keeps the largest size that it had."""
_shared_of = attrgetter(*statements.SHARED_COLUMNS)
_own_of = attrgetter(*("attributes_json" if name == "attributes" else name for name in statements.OWN_COLUMNS))


def insert(merge: statements.Merge, rows: _Values) -> None:
    """Insert these, or join them to those that are there."""
    with _own_cursor() as cursor:
        for part in _parts(rows):
            cursor.execute(merge.insert(len(part)), list(chain.from_iterable(part)))


def insert_facts(rows: Sequence[Row]) -> int:
    """Insert the facts that are not there; return how many those were."""
    with _own_cursor() as cursor:
        cursor.execute(statements.MAKE_HEADS)  # a connection has it from its first transaction that was committed
        return sum(
            _insert_part(cursor, rows[start : start + _FACTS_EACH]) for start in range(0, len(rows), _FACTS_EACH)
        )


def _insert_part(cursor: Cursor, rows: Sequence[Row]) -> int:
    numbers: dict[tuple[Any, ...], int] = {}
    told = [(numbers.setdefault(_shared_of(row), len(numbers)), *_own_of(row)) for row in rows]
    heads = [(number, *shared) for shared, number in numbers.items()]
    inserted = 0
    cursor.execute(statements.FORGET_HEADS)
    for part in _parts(heads):
        cursor.execute(statements.insert_heads(len(part)), list(chain.from_iterable(part)))
    for part in _parts(told):
        cursor.execute(statements.insert_facts(len(part)), list(chain.from_iterable(part)))
        inserted += cursor.rowcount
    return inserted


@contextmanager
def _own_cursor() -> Iterator[Cursor]:
    """The driver's own, because Django's would rewrite each statement."""
    with connection.wrap_database_errors, closing(connection.connection.cursor()) as cursor:
        yield cursor


def _parts(rows: _Values) -> Iterator[_Values]:
    """The rows in parts of a power of two each: so few different statements that the driver keeps all of them."""
    start = 0
    while start < len(rows):
        size = min(_ROWS_EACH, 1 << ((len(rows) - start).bit_length() - 1))
        yield rows[start : start + size]
        start += size
