"""The statements on both engines: what is stored comes back, and what was there is not stored again."""

from __future__ import annotations

from django.db import transaction

from events.ingest.records import Row, read_records
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from tests.support.records import NOW_US


def failures(numbers: range, **attributes: object) -> list[Row]:
    """A failure for each number; the same number is the same fact."""
    records = [
        Sent("failure", (NOW_US - number) * 1000, 0, 13, "", {"log.record.uid": f"{number}", **attributes}, "", "")
        for number in numbers
    ]
    return read_records([Batch({"service.name": "billing"}, "t", records)], "dev", NOW_US).rows


def stored(rows: list[Row]) -> int:
    with transaction.atomic():
        return store_facts(rows)
