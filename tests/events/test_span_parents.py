"""The remembered parents of the spans of a run."""

from __future__ import annotations

import pytest

from events.models import SpanMark
from events.runs.records import RunRecord
from events.runs.waterfall import parents_of
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db

OURS, OTHER = "a" * 32, "b" * 32


def record(trace_id: str) -> RunRecord:
    return RunRecord(
        fact_id=1,
        at=NOW,
        event="",
        severity=9,
        operation="",
        category="",
        instance="",
        trace_id=trace_id,
        span_id="",
        body="",
        attributes={},
    )


def test_parents_are_those_of_traces_of_one_environment() -> None:
    rows = [("dev", OURS, "1", "0"), ("dev", OURS, "2", ""), ("dev", OTHER, "3", "0"), ("test", OURS, "4", "0")]
    SpanMark.objects.bulk_create(
        SpanMark(environment=environment, trace_id=trace_id, span_id=span_id, parent_id=parent_id, seen_us=1)
        for environment, trace_id, span_id, parent_id in rows
    )
    assert parents_of("dev", [record(OURS), record("")]) == {(OURS, "1"): "0"}
    assert parents_of("dev", [record(OURS), record(OTHER)]) == {(OURS, "1"): "0", (OTHER, "3"): "0"}
    assert parents_of("dev", [record("")]) == {}
