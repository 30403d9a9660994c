"""In which order open escalations are listed: breached, by severity, by deadline, by number; a default action last."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control import models
from recovery_ops.control.core.cursors import place_of
from recovery_ops.control.escalations.selectors import queue
from recovery_ops.rules.policy.escalation_terms import HIGH, NORMAL
from tests.support.rows import row
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db

JUST, HOUR = timedelta(microseconds=1), timedelta(hours=1)
LATER: dict[str, Any] = {"acknowledge_by": NOW + HOUR, "resolve_by": NOW + 2 * HOUR, "severity": NORMAL}
IN_ORDER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("breached", {"resolve_by": NOW - JUST}),
    ("acknowledged too late", {"acknowledge_by": NOW - HOUR, "acknowledged_at": NOW - HOUR + JUST}),
    ("high severity", {"severity": HIGH}),
    ("due now, in time", {"resolve_by": NOW, "acknowledge_by": NOW}),
    ("due an hour later", {}),
    ("due an hour later, with a higher number", {}),
    ("due when it was acknowledged", {"acknowledged_at": NOW, "acknowledge_by": NOW}),
    ("default action carried out", {"default_done_at": NOW - HOUR, "resolve_by": NOW - HOUR, "severity": HIGH}),
)


def test_open_escalations_are_listed_most_urgent_first() -> None:
    named: dict[int, str] = {}
    first, second = "due an hour later", "due an hour later, with a higher number"
    said = dict(IN_ORDER)
    for name in (*(one for one, _ in reversed(IN_ORDER) if one not in (first, second)), first, second):
        made = row(models.Escalation, environment="dev", key=name, seen_at=NOW, **LATER | said[name])
        named[made.pk] = name
    listed = queue.rows_of("dev", "open", by=None, now=NOW)
    assert [named[one.number] for one in listed] == [name for name, _ in IN_ORDER]
    walked, after = [], None
    for _ in IN_ORDER:
        [one], cursor = queue.page_of("dev", "open", by=None, now=NOW, after=after, most=1)
        walked.append(named[one.number])
        after = place_of(cursor, queue.PLACE) if cursor else None
    assert walked == [name for name, _ in IN_ORDER]
