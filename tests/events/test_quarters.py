"""Sums over quarters of an hour for a database that has them over five minutes only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import connection

from events.models import SpanSum
from events.sum_views import View
from tests.events.seeding import Story, failed

_COLUMNS = [field.attname for field in SpanSum._meta.fields if field.attname != "id"]


def quarters() -> set[tuple[Any, ...]]:
    found = SpanSum.objects.filter(view=View.EACH, minutes=15).values_list(*_COLUMNS)
    return {tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in found}


def test_they_are_made_of_what_is_there_and_made_once(store: None) -> None:
    story = Story()
    for minute in range(40):
        story.tell(failed(operation="one"), failed(operation="two"), at=60 * minute)
    story.store()
    told = quarters()
    assert len(told) >= 6
    [step] = import_module("events.migrations.0033_quarters_of_each").Migration.operations
    with connection.cursor() as cursor:
        cursor.execute(step.reverse_sql)
        assert quarters() == set()
        for _ in range(2):
            cursor.execute(step.sql)
            assert quarters() == told
