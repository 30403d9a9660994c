"""What of a request was not understood: the answer says it, and the intake page counts it by reason."""

from __future__ import annotations

from typing import Any

import pytest

from events.models import Fact, Tally
from events.otlp.remarks import MOST_TEXTS, Remark, Remarks, remark
from tests.support.otlp import WHOLE_FAILURE, Door, attributes, record, request
from tests.support.spans import CHAT, TRACE, failed, span, traces
from tests.support.told import untold


def answer_to(door: Door, document: dict[str, Any], path: str = "/v1/logs") -> str:
    """What the answer says for the sender's developer; nothing is rejected."""
    partial = door.post(json=document, path=path).json().get("partialSuccess", {})
    assert {partial.get("rejectedLogRecords", "0"), partial.get("rejectedSpans", "0")} == {"0"}
    return str(partial.get("errorMessage", ""))


def tallies() -> dict[str, int]:
    return dict(Tally.objects.filter(name__startswith="remark_").values_list("name", "count"))


def test_missing_required_attribute_is_named_counted_stored(door: Door) -> None:
    lacking = {**WHOLE_FAILURE, "recovery.failure.evidence": None}
    said = answer_to(door, request(record(given=lacking), record(given=WHOLE_FAILURE)))
    assert untold(said, 1, "recovery.failure.evidence") == []
    assert tallies() == {Remark.MISSING: 1}
    assert Fact.objects.filter(event="failure_classified").count() == 2


def test_misspelt_event_name_is_named_counted_stored(door: Door) -> None:
    said = answer_to(door, request(record("recovery.failure_clasified", given=WHOLE_FAILURE), record("app.failed")))
    assert untold(said, 1, "recovery.failure_clasified") == []
    assert tallies() == {Remark.UNKNOWN_NAME: 1}
    assert Fact.objects.filter(event="log").count() == 2


def test_malformed_ids_are_counted_and_stored(door: Door) -> None:
    one = record(given=WHOLE_FAILURE, traceId=TRACE[:16], spanId="abc")
    assert untold(answer_to(door, request(one)), 1) == []
    assert Fact.objects.get().trace_id == "0" * 16 + TRACE[:16]
    spoilt = {**failed("chat", given=CHAT), "spanId": "abc"}
    assert untold(answer_to(door, traces(spoilt, span()), "/v1/traces"), 1) == []
    assert tallies() == {Remark.WRONG_ID: 2}


@pytest.mark.parametrize("beside", [[], [failed("chat", given=CHAT)]])
def test_ordinary_telemetry_earns_no_remark(door: Door, beside: list[dict[str, Any]]) -> None:
    assert answer_to(door, traces(span("GET /"), *beside), "/v1/traces") == ""
    debug = {**record("", severityNumber=5), "attributes": attributes({"a": 1})}
    assert answer_to(door, request(debug)) == ""
    assert tallies() == {}


def test_remarks_of_one_request_have_a_most() -> None:
    remarks = Remarks()
    for number in range(10 * MOST_TEXTS):
        remark(remarks, Remark.UNKNOWN_NAME, f"recovery.x{number}")
    assert (len(remarks), sum(remarks.values())) == (MOST_TEXTS + 1, 10 * MOST_TEXTS)
