"""PostgreSQL keeps a day in a partition of its own: made ahead, dropped when its time is over, and never doubled."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from events.records import Row
from events.store import store_facts


def stored(given: list[Row]) -> int:
    with transaction.atomic():
        return store_facts(given)


def asked(statement: str, *, wants_rows: bool = True) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()] if wants_rows else []


on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)
