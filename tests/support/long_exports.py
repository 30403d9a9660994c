"""Lists that are too long for an answer: the dialog that says so, the job, its tray, its file, and whose it is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from recovery_ops.control.audit import export as audit
from recovery_ops.control.escalations import export as escalations
from recovery_ops.control.exports import job
from recovery_ops.control.exports.models import Export
from recovery_ops.control.runs import export as runs
from tests.support.pages import text_of
from tests.support.stories import NOW


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list is too long for an answer, and is read a row or two at a time."""
    for one in (audit.AuditFile, escalations.EscalationsFile, runs.RunsFile):
        monkeypatch.setattr(one, "at_once_most", -1)
    monkeypatch.setattr(audit, "_AT_ONCE", 2)
    monkeypatch.setattr(escalations, "_AT_ONCE", 1)
    monkeypatch.setattr(runs, "_AT_ONCE", 1)


def asked_for(client: Client, what: str = "audit", query: str = "", **form: Any) -> Export:
    """What somebody asked for in the dialog of a list, as the dialog sends it."""
    shown = client.get(f"/exports/new?of={what}{'&' if query else ''}{query}").content.decode()
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', shown)) | {"format": "csv"} | form
    fields["query"] = fields["query"].replace("&amp;", "&")
    answer = client.post(f"/exports/new?of={what}", fields)
    assert answer.status_code == 303, text_of(answer)
    return Export.objects.get(number=answer.headers["Location"].rpartition("/")[2])


def written(export: Export, **more: Any) -> Export:
    """The export after the worker has had its turn."""
    assert job.start_next(now=NOW, start=lambda one: job.run(one, **more)) == export
    export.refresh_from_db()
    return export
