"""What a fuzzer throws bytes at: each target says what may come of any bytes, and fails on everything else.

`python -m tests.fuzz otlp -runs=20000 -seed=1` lets atheris look for bytes that reach new code; the tests beside it
let Hypothesis choose them, where there is no atheris.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from events.derived import derive_from_spans
from events.ingest.records import read_records
from events.otlp.encodings import count_data_points, read_logs
from events.otlp.sent import Encoding, Malformed
from events.otlp.spans import read_spans
from recovery_ops.control.desired_state.opamp import messages
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.classification_rules import parse_classification
from recovery_ops.rules.policy.model import PolicyInvalid, document_of, parse_policy
from recovery_ops.runtime.failures.signals import classify

NOW_US = 1_795_000_000_000_000


def otlp(data: bytes) -> None:
    """Bytes that came as facts: they are read, or said to be malformed; what was read can be made into rows."""
    encoding = Encoding.PROTOBUF if data[:1] < b"\x80" else Encoding.JSON
    body = data[1:]
    for read in (read_logs, count_data_points):
        try:
            found = read(body, encoding)
        except Malformed:
            continue
        if isinstance(found, list):
            read_records(found, "dev", NOW_US)


def traces(data: bytes) -> None:
    """Bytes that came as spans: they are read, or said to be malformed; what they mean can be made into rows."""
    encoding = Encoding.PROTOBUF if data[:1] < b"\x80" else Encoding.JSON
    try:
        found = derive_from_spans(read_spans(data[1:], encoding))
    except Malformed:
        return
    for batches in (found.batches, found.held):
        read_records(batches, "dev", NOW_US)


def opamp(data: bytes) -> None:
    """Bytes that came from an OpAMP client: a message, whose parts can be told and which can be answered, or none."""
    try:
        found = messages.parse(data)
    except messages.Malformed:
        return
    assert len(found.uid) == messages.UID_BYTES
    json.dumps([found.sequence_number, found.capabilities, dict(found.description or {})])
    assert messages.encode(messages.Reply(uid=found.uid, error=(1, "no")))


class Strange(Exception):
    """An error with whatever attributes somebody gave it."""

    def __init__(self, said: object) -> None:
        super().__init__(said)
        self.said = said

    def __getattr__(self, name: str) -> object:
        said = self.__dict__.get("said")
        if isinstance(said, dict) and name in said:
            return said[name]
        raise AttributeError(name)


def classifier(data: bytes) -> None:
    """An error of whatever kind has a category, and its failure can be told."""
    error: object = Strange(loose(data))
    found = classify(error, now=NOW_US / 1e6)
    assert found.category in Category
    assert found.retry_after_s is None or found.retry_after_s >= 0


def policy(data: bytes) -> None:
    """A document is a policy, which says the same when it is written down, or is refused with its problems."""
    document = loose(data)
    try:
        found = parse_policy(document)
    except PolicyInvalid as invalid:
        if not invalid.problems:
            raise AssertionError("refused without a reason") from None
    else:
        assert parse_policy(json.loads(json.dumps(document_of(found)))) == found
    parse_classification(document, "rules", [])


def loose(data: bytes) -> Any:
    """Whatever the bytes say as JSON; as text where they say nothing."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "otlp": otlp,
    "traces": traces,
    "opamp": opamp,
    "classifier": classifier,
    "policy": policy,
}

WORDS = (
    *("status_code", "headers", "retry-after", "body", "error", "code", "message", "type"),
    *("rules", "scope", "operation", "settings", "max_retries", "classification", "match"),
    *("resourceLogs", "scopeLogs", "logRecords", "attributes", "stringValue", "intValue", "kvlistValue", "arrayValue"),
)
"""Keys that lead further in than chance would."""
