"""The wall clock that dates in headers are measured from, given as callers have it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from recovery_ops.rules.classification.classify import Signal, classify
from recovery_ops.runtime import Response
from recovery_ops.runtime import classify as public_classify

DATED = Signal(types=(), status_code=503, headers={"retry-after": "Sat, 21 Nov 2026 10:30:20 GMT"})
NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "now",
    [NOW.timestamp(), NOW, NOW.astimezone(timezone(timedelta(hours=5))), NOW.replace(tzinfo=None)],
    ids=["seconds", "UTC", "elsewhere", "naive is UTC"],
)
def test_the_wait_until_a_date_is_the_same_however_now_is_said(now: float | datetime) -> None:
    assert classify(DATED, now=now).retry_after_s == 20.0


def test_through_the_public_door() -> None:
    response: Any = Response(503, headers=DATED.headers)
    now: Any = NOW
    assert public_classify(response, now=now).retry_after_s == 20.0
