"""Each row of the vendors' answers means the same in the rules, on a raised exception and in plain telemetry."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.derived import evidence as derived
from recovery_ops.rules.classification.classify import Failure, Signal, classify
from recovery_ops.rules.classification.error_bodies import codes_in, innermost, message_in, status_in
from recovery_ops.rules.classification.quoted_responses import quoted_in
from recovery_ops.rules.classification.vendor_errors import VENDORS, sentences_for
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.events import FailureClassified
from recovery_ops.runtime.failures import signals
from recovery_ops.runtime.testing import Lab
from recovery_ops.wire import otel_names as foreign

NOW = 1_800_000_000.0
FOLDER = Path(__file__).parents[2] / "payloads" / "vendors"
Row = dict[str, Any]
ROWS: dict[str, Row] = {
    f"{path.stem}: {row['what']} ({number})": row
    for path in sorted(FOLDER.glob("*.json"))
    for number, row in enumerate(json.loads(path.read_text()))
}


def printed(row: Row) -> str:
    """The answer as the clients print it."""
    return row["text"] if "text" in row else f"Error code: {row['status']} - {row['body']}"


def by_rules(row: Row) -> Failure:
    if "text" in row:
        return classify(Signal(message=row["text"]), now=NOW)
    body = innermost(row["body"])
    codes = codes_in(body)
    status = row["status"] if row["status"] >= 400 else status_in(body) or row["status"]
    signal = Signal(
        code=codes[0] if codes else None,
        other_codes=codes[1:],
        status_code=status,
        headers=row.get("headers", {}),
        message=message_in(body),
        body=body,
    )
    return classify(signal, now=NOW)


class ApiError(Exception):
    """As a vendor's client raises it."""

    def __init__(self, row: Row) -> None:
        super().__init__(printed(row))
        if "status" in row:
            self.status_code = row["status"]
            self.headers = row.get("headers", {})
            self.body = row["body"]


def by_exception(row: Row) -> Failure:
    return signals.classify(ApiError(row), now=NOW)


def by_text(row: Row) -> Failure:
    """An exception of a framework that keeps the text alone; headers are lost."""
    return signals.classify(RuntimeError(printed(row)), now=NOW)


def by_telemetry(row: Row) -> Failure:
    given: dict[str, object] = {foreign.EXCEPTION_MESSAGE: printed(row)}
    if row.get("status", 0) >= 400:
        given[foreign.HTTP_STATUS[0]] = row["status"]
    given |= {foreign.HTTP_HEADER_PREFIX + name: value for name, value in row.get("headers", {}).items()}
    return classify(derived.signal_of(given, ""), now=NOW)


READERS: list[Callable[[Row], Failure]] = [by_rules, by_exception, by_text, by_telemetry]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ROWS)
def test_vendor_row_means_same_everywhere(name: str, reader: Callable[[Row], Failure]) -> None:
    row = ROWS[name]
    failure, expected = reader(row), row["expect"]
    assert (failure.category.value, failure.evidence.value) == (expected["category"], expected["evidence"])
    counts = failure.overflow
    assert (counts.input_tokens if counts else None) == expected.get("input_tokens")
    assert (counts.limit_tokens if counts else None) == expected.get("limit_tokens")
    if "retry_after_s" in expected and not (reader is by_text and row.get("headers")):
        assert failure.retry_after_s == pytest.approx(expected["retry_after_s"])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ROWS)
def test_near_miss_means_something_else(name: str, reader: Callable[[Row], Failure]) -> None:
    near = ROWS[name]["near"]
    if reader is by_text and near.get("headers"):
        pytest.skip("only a header tells them apart")
    assert reader(near).category.value == near["category"]


@pytest.mark.parametrize("name", ROWS)
def test_guarded_call_records_row_category(name: str) -> None:
    row, lab = ROWS[name], Lab()

    @lab.recovery.guard("model:x", source="main_agent", max_retries=0)
    def ask() -> str:
        raise ApiError(row)

    with pytest.raises(Exception):  # noqa: B017, PT011  # which one depends on the category
        ask()
    assert lab.events_of(FailureClassified)[0].category.value == row["expect"]["category"]


def test_every_vendor_has_rows_source_and_date() -> None:
    assert all(vendor.source.startswith("https://") and date.fromisoformat(vendor.checked) for vendor in VENDORS)
    files = {path.stem for path in FOLDER.glob("*.json")}
    assert len(files) == len(VENDORS)


def test_every_code_of_a_vendor_means_one_thing() -> None:
    codes = [code for vendor in VENDORS for words in vendor.codes.values() for code in words.split()]
    assert len(codes) == len(set(codes))


SENTENCES = [(category, line) for category in Category for line in sentences_for(category)]
COUNTS = {"input": "9,001", "more": "7", "limit": "8000", "n": "55", "any": "abc ", "end": ""}


def filled(line: str) -> str:
    return re.sub(r"<(\w+)>", lambda found: COUNTS[found[1]], line)


@pytest.mark.parametrize(("category", "line"), SENTENCES)
def test_sentence_alone_has_its_category(category: Category, line: str) -> None:
    failure = classify(Signal(message=filled(line)), now=NOW)
    assert (failure.category, failure.evidence) == (category, Evidence.MESSAGE_PATTERN)
    if "<input>" in line and failure.overflow is not None:
        assert failure.overflow.limit_tokens == 8000
    assert (failure.overflow is not None) is ("<input>" in line)


@pytest.mark.parametrize(("category", "line"), [row for row in SENTENCES if not row[1].startswith("<any>")])
def test_quoted_sentence_is_no_evidence(category: Category, line: str) -> None:
    assert classify(Signal(message=f"A user wrote {filled(line)}"), now=NOW).category is Category.UNKNOWN


PIECES = st.sampled_from(
    [
        *("Error code: 429 - ", "status_code: 503, model_name: m, body: ", "MCP error -32001: ", "a.b.Error: ", "429 "),
        *("<html><title>", "An error occurred (Code) when calling the X operation: ", "{", "}", "[", "'", '"', ": "),
        *("'message': ", '"code": 8', "\n", "\\", "x", "9" * 30, "b'", "(status code: 404)", "\ud800", "٣"),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=300))
def test_any_quoting_text_is_read_without_error(text: str) -> None:
    quoted = quoted_in(text)
    assert quoted.status is None or 400 <= quoted.status <= 599
    assert classify(Signal(message=text), now=NOW) == classify(Signal(message=text), now=NOW)
