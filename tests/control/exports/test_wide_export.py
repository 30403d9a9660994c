"""A list of fifty thousand rows as a file: held by nothing as a whole, on either engine."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.models.signals import post_save
from django.test.utils import CaptureQueriesContext

from recovery_ops.control.audit import export as audit
from recovery_ops.control.exports import job
from recovery_ops.control.exports.lists import Batch
from recovery_ops.control.exports.models import Export, ExportPart
from recovery_ops.rules.roles import Role
from tests.support.engines import engine
from tests.support.long_exports import asked_for, long, written
from tests.support.pages import signed_in

__all__ = ["engine", "long"]  # the fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.mark.usefixtures("long")
def test_fifty_thousand_rows_are_written_and_sent_part_by_part(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing holds them all: parts are stored before the last row is read, and sent before the last part is."""
    rows, step, read = 50_000, 1_000, 0

    def batches(_: Any, __: Any) -> Iterator[Batch]:
        nonlocal read
        for first in range(0, rows, step):
            read += step
            wide = ("the provider answers 529 " * 16,) * (len(audit.AuditFile.columns) - 1)
            yield Batch([(number, *wide) for number in range(first, first + step)], step)

    monkeypatch.setattr(audit.AuditFile, "batches", batches)
    monkeypatch.setattr(audit.AuditFile, "total", lambda *_, **__: rows)
    monkeypatch.setattr(job, "MOST_CHARS", 10**9)
    client = signed_in(Role.ADMIN)
    export = asked_for(client, only=["number", "who"])
    read_when_stored: list[int] = []

    def stored(**_: Any) -> None:
        read_when_stored.append(read)

    post_save.connect(stored, sender=ExportPart)
    tracemalloc.start()
    try:
        written(export)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        post_save.disconnect(stored, sender=ExportPart)
    assert (export.state, export.rows, export.is_cut) == (Export.DONE, rows, False)
    assert export.size_bytes > 15_000_000 > 2 * most_bytes
    assert read_when_stored[0] <= rows // 10
    answer: Any = client.get(f"/exports/{export.number}/file")
    parts = iter(answer.streaming_content)
    with CaptureQueriesContext(connection) as asked:
        first = next(parts)
    assert (len(asked), len(read_when_stored) > 10) == (1, True)
    assert first.startswith(b'"number","who"')
    assert sum(part.count(b"\n") for part in parts) + first.count(b"\n") == rows + 1
