"""Requests that are refused in part."""

from __future__ import annotations

import pytest

from events.ingest import records
from events.ingest.cardinality import known_names
from events.ingest.quarantine import set_aside
from events.ingest.records import read_records
from events.otlp.sent import Batch, Encoding, Sent

NOW_US = 1_795_000_000_000_000


def refused(count: int = 1, *, environment: str = "dev", name: str = "k") -> None:
    """As many records with too many attributes are set aside."""
    many: dict[str, object] = {f"{name}{number}": number for number in range(1100)}
    sent = [
        Sent("recovery.exhausted", NOW_US * 1000 - one, 0, 13, "", {**many, "log.record.uid": f"{name}{one}"}, "", "")
        for one in range(count)
    ]
    intake = read_records([Batch({"service.name": "s"}, "t", sent)], environment, NOW_US, "ro_abc")
    intake.encoding = Encoding.JSON
    assert len(intake.refused) == count
    set_aside([intake])


def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    known_names.forget()
    monkeypatch.setattr(records, "MOST_ATTRIBUTES", 5000)
