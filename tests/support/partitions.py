"""PostgreSQL keeps a day in a partition of its own: made ahead, dropped when its time is over, and never doubled."""

from __future__ import annotations

from datetime import timedelta

from events.ingest.records import Row, read_records
from events.otlp.sent import Batch, Sent
from events.store.retention import micros
from tests.support.stores import TODAY


def rows(event: str, days_ago: float, numbers: range, *, received_days_ago: float | None = None) -> list[Row]:
    """Facts of so many days before this one began; the same event, day and number is the same fact."""
    at = TODAY - timedelta(days=days_ago)
    received = at if received_days_ago is None else TODAY - timedelta(days=received_days_ago)
    sent = [
        Sent(event, micros(at) * 1000, 0, 13, "", {"log.record.uid": f"{event} {days_ago} {number}"}, "", "")
        for number in numbers
    ]
    return read_records([Batch({"service.name": "billing"}, "t", sent)], "dev", micros(received)).rows
