"""Both encodings say the same; what is wrong with one record is no other record's trouble."""

from __future__ import annotations

import base64
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from events.ingest.records import read_records
from events.otlp.encodings import read_logs
from events.otlp.protobuf_requests import _NUMBER_HEAD, _UID_HEAD, _plain, _read_fresh, _read_pair
from events.otlp.sent import DEEPEST, WRONG_ID, Batch, Encoding, Fault, Malformed, mended_id
from tests.support.otlp import protobuf, record, request

PAYLOADS = Path(__file__).parent.parent / "payloads" / "otlp"
NOW_US = 1_795_000_000_000_000

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def rows(document: dict[str, Any], encoding: Encoding) -> list[Any]:
    body = protobuf(document) if encoding is Encoding.PROTOBUF else json.dumps(document).encode()
    intake = read_records(read_logs(body, encoding), "dev", NOW_US)
    assert not intake.refused
    return intake.rows


def unreadable(batches: list[Batch]) -> list[str]:
    return [one.reason for batch in batches for one in batch.unreadable]


def good(batches: list[Batch]) -> int:
    return sum(len(batch.records) for batch in batches)


@given(st.dictionaries(texts, values, max_size=6), values, st.binary(min_size=16, max_size=16))
def test_protobuf_and_json_of_the_same_events_give_the_same_rows(
    attributes: dict[str, object], body: object, trace: bytes
) -> None:
    one = record(given=attributes, traceId=trace.hex().upper(), spanId=trace[:8].hex(), ago_s=60)
    one["body"] = {"stringValue": body} if isinstance(body, str) else {"arrayValue": {"values": []}}
    document = request(one, resource=attributes)
    assert rows(document, Encoding.PROTOBUF) == rows(document, Encoding.JSON)


@pytest.mark.parametrize("path", sorted(PAYLOADS.glob("*.json")), ids=lambda path: path.stem)
def test_the_payloads_of_other_sdks_give_the_same_rows(path: Path) -> None:
    document = json.loads(path.read_text())
    found = rows(document, Encoding.JSON)
    assert found
    assert found == rows(document, Encoding.PROTOBUF)


def test_64_bit_integers_are_exact_as_texts_and_as_numbers() -> None:
    given = {"a": 2**63 - 1, "b": -(2**63)}
    document = request(record(given=given))
    as_numbers = json.loads(json.dumps(document).replace(f'"{2**63 - 1}"', str(2**63 - 1)))
    for row in rows(document, Encoding.JSON) + rows(as_numbers, Encoding.JSON) + rows(document, Encoding.PROTOBUF):
        assert {name: row.attributes[name] for name in given} == given


def test_unknown_members_are_ignored() -> None:
    document = request(record(surprise={"deep": [1]}))
    document["resourceLogs"][0]["entityRefs"] = [{}]
    document["more"] = None
    batches = read_logs(json.dumps(document).encode(), Encoding.JSON)
    assert (good(batches), unreadable(batches)) == (1, [])


BAD_RECORDS: dict[str, Any] = {
    "no object": 17,
    "a time before time": record(timeUnixNano="-1"),
    "a time beyond 64 bits": record(timeUnixNano=str(2**64)),
    "a time that is no number": record(timeUnixNano="noon"),
    "a severity by name": record(severityNumber="SEVERITY_NUMBER_WARN"),
    "attributes that are a map": record(attributes={"a": 1}),
    "an attribute that is no object": record(attributes=["a"]),
    "a bare value": record(attributes=[{"key": "a", "value": "b"}]),
    "a text that is a number": record(attributes=[{"key": "a", "value": {"stringValue": 1}}]),
    "a boolean that is a text": record(attributes=[{"key": "a", "value": {"boolValue": "yes"}}]),
    "an integer that is none": record(attributes=[{"key": "a", "value": {"intValue": 1.5}}]),
    "a double that is none": record(attributes=[{"key": "a", "value": {"doubleValue": "much"}}]),
    "no base64": record(attributes=[{"key": "a", "value": {"bytesValue": "%%%"}}]),
    "an array that is none": record(attributes=[{"key": "a", "value": {"arrayValue": {"values": 3}}}]),
    "an event name that is none": record(eventName=7),
}


@pytest.mark.parametrize("what", BAD_RECORDS)
def test_a_record_that_cannot_be_read_is_set_aside(what: str) -> None:
    batches = read_logs(json.dumps(request(record(), BAD_RECORDS[what], record())).encode(), Encoding.JSON)
    assert good(batches) == 2
    assert len(unreadable(batches)) == 1


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return value


@pytest.mark.parametrize(("depth", "is_readable"), [(DEEPEST, True), (DEEPEST + 1, False), (60, False), (300, False)])
def test_nesting_has_an_end_in_both_encodings(depth: int, is_readable: bool) -> None:
    deep = record(attributes=[{"key": "a", "value": nested(depth)}])
    as_json = read_logs(json.dumps(request(record(), deep)).encode(), Encoding.JSON)
    assert (good(as_json), len(unreadable(as_json))) == ((2, 0) if is_readable else (1, 1))
    if depth < 45:  # Python's protobuf cannot write more, either
        as_protobuf = read_logs(protobuf(request(record(), deep)), Encoding.PROTOBUF)
        assert (good(as_protobuf), len(unreadable(as_protobuf))) == (good(as_json), len(unreadable(as_json)))


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf, of less than 2 MiB."""
    size = len(content)
    return bytes([number << 3 | 2, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + content


def spoiled(spoilt_record: bytes) -> bytes:
    """A request with a good record, a spoilt one, and a good one."""
    message = ExportLogsServiceRequest.FromString(protobuf(request(record(), record())))
    part = message.resource_logs[0]
    first, second = (one.SerializeToString() for one in part.scope_logs[0].log_records)
    scope = field(1, part.scope_logs[0].scope.SerializeToString())
    records = b"".join(field(2, one) for one in (first, spoilt_record, second))
    return field(1, field(1, part.resource.SerializeToString()) + field(2, scope + records))


def deep_protobuf(depth: int) -> bytes:
    value = field(1, b"bottom")
    for _ in range(depth):
        value = field(5, field(1, value))
    return field(6, field(1, b"a") + field(2, value))


SPOILT = {
    "text that is not UTF-8": field(12, b"\xff\xfe"),
    "nested 60 levels deep": deep_protobuf(60),
    "nested 5000 levels deep": deep_protobuf(5000),
    "cut short": b"\x0a",
    "a wire type that does not exist": b"\x0f",
}


@pytest.mark.parametrize("what", SPOILT)
def test_one_spoilt_record_in_protobuf_leaves_the_others(what: str) -> None:
    batches = read_logs(spoiled(SPOILT[what]), Encoding.PROTOBUF)
    assert good(batches) == 2
    assert [batch.scope for batch in batches] == ["tests"]
    assert batches[0].resource["service.name"] == "billing"
    assert len(unreadable(batches)) == 1


@given(st.binary(max_size=200), st.sampled_from(Encoding))
def test_random_bytes_are_read_or_malformed(body: bytes, encoding: Encoding) -> None:
    with suppress(Malformed):
        assert all(isinstance(one, Batch) for one in read_logs(body, encoding))


def test_what_json_cannot_hold_is_taken_as_python_reads_it() -> None:
    text = json.dumps(request(record(attributes=[{"key": "a", "value": {"doubleValue": math.nan}}])))
    [batch] = read_logs(text.replace('"tests"', '"\\ud800"').encode(), Encoding.JSON)
    assert math.isnan(float(str(batch.records[0].attributes["a"])))


def test_ids_of_the_wrong_length_mean_no_id() -> None:
    for trace_id in ("", "00" * 16, "ab", "zz" * 16, "ab" * 17):
        [batch] = read_logs(json.dumps(request(record(traceId=trace_id))).encode(), Encoding.JSON)
        assert mended_id(batch.records[0].trace_id) == ""
        assert (batch.records[0].trace_id == WRONG_ID) == (trace_id not in ("", "00" * 16))


def test_ids_in_other_forms_are_read_and_marked() -> None:
    whole = bytes(range(1, 17))
    for written, stored in ((base64.b64encode(whole).decode(), whole.hex()), ("ab" * 8, "0" * 16 + "ab" * 8)):
        [batch] = read_logs(json.dumps(request(record(traceId=written))).encode(), Encoding.JSON)
        assert batch.records[0].trace_id == WRONG_ID + stored


@pytest.mark.parametrize(("written", "number"), [("1e2", 100), ("3.0", 3), ("-7", -7), (str(2**63 - 1), 2**63 - 1)])
def test_quoted_whole_numbers_of_any_form_are_read(written: str, number: int) -> None:
    one = record(attributes=[{"key": "a", "value": {"intValue": written}}])
    [batch] = read_logs(json.dumps(request(one)).encode(), Encoding.JSON)
    assert batch.records[0].attributes == {"a": number}


@pytest.mark.parametrize("written", [" 7", "7 ", "1e-2", "1e99999", str(2**63), "1_000", "0x7", "nan", ""])
def test_quoted_text_that_is_no_int64_spoils_its_record(written: str) -> None:
    one = record(attributes=[{"key": "a", "value": {"intValue": written}}])
    [batch] = read_logs(json.dumps(request(one)).encode(), Encoding.JSON)
    assert (batch.records, len(batch.unreadable)) == ([], 1)


@pytest.mark.parametrize("key_chars", [0, 1, 60, 127, 128, 300])
@pytest.mark.parametrize("value_chars", [0, 1, 62, 123, 124, 125, 126, 127, 128, 300])
def test_attributes_of_any_length_are_read_alike(key_chars: int, value_chars: int) -> None:
    given: dict[str, object] = {"k" * key_chars: "ä" * value_chars, "k" * key_chars + "l": value_chars}
    document = request(record(given=given), record(given=given))
    assert rows(document, Encoding.PROTOBUF) == rows(document, Encoding.JSON)


def test_an_attribute_that_is_not_utf_8_spoils_its_record_alone() -> None:
    for text in (b"\xff", b"\xff" * 200):
        attribute = field(6, field(1, b"a") + field(2, field(1, text)))
        short = b"\x32" + bytes([len(text) + 7]) + b"\x0a\x01a\x12" + bytes([len(text) + 2]) + b"\x0a\x01" + text
        for spoilt in [attribute] + [short] * (len(text) == 1):
            batches = read_logs(spoiled(spoilt), Encoding.PROTOBUF)
            assert (good(batches), len(unreadable(batches))) == (2, 1)


def test_a_resource_that_is_not_utf_8_spoils_nobody_s_records() -> None:
    """A Collector's batch is of many services, and it checks no text: one of them must not cost the others theirs."""
    own = [
        protobuf(request(record(), resource={"service.name": name, "process.command_line": f"run {name}"}))
        for name in ("marred", "unharmed")
    ]
    sent = b"".join(own).replace(b"run marred", b"r\xfcn marred").replace(b"tests", b"test\xff", 1)
    batches = read_logs(sent, Encoding.PROTOBUF)
    assert [batch.resource for batch in batches] == [
        {"service.name": "marred", "process.command_line": "r\ufffdn marred"},
        {"service.name": "unharmed", "process.command_line": "run unharmed"},
    ]
    assert [batch.scope for batch in batches] == ["test\ufffd", "tests"]
    assert (good(batches), unreadable(batches)) == (2, [])


def test_keys_of_idempotency_that_look_like_secrets_stay_apart() -> None:
    secrets = [record(given={"log.record.uid": f"sk-{letter * 20}"}) for letter in "ab"]
    for encoding in Encoding:
        assert len({row.uid for row in rows(request(*secrets), encoding)}) == 2


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**56 - 1, 2**56, 2**63 - 1, -1, -(2**63)])
def test_whole_numbers_of_any_size_are_read_alike(number: int) -> None:
    given: dict[str, object] = {"n": number, "": number, "k" * 130: number, "list": [number]}
    document = request(record(given=given | {"recovery.sequence_number": number}))
    found = rows(document, Encoding.PROTOBUF)
    assert found == rows(document, Encoding.JSON)
    assert (found[0].attributes["n"], found[0].sequence_number) == (number, max(0, number))


@given(st.binary(max_size=24))
def test_an_attribute_of_any_bytes_is_what_protobuf_says(content: bytes) -> None:
    """Whatever is read by its framing alone is what protobuf would have read; else both refuse it."""
    try:
        pair = KeyValue.FromString(content)
        expected: object = (pair.key, _plain(pair.value))
    except (DecodeError, Fault):
        expected = None
    try:
        found: object = _read_pair(content)
    except (DecodeError, Fault):
        found = None
    assert found == expected


@given(st.sampled_from([_NUMBER_HEAD, _UID_HEAD]), st.integers(0, 5), st.binary(max_size=6) | st.binary(max_size=36))
def test_what_is_new_in_each_record_is_what_protobuf_says(head: bytes, size: int, content: bytes) -> None:
    attribute = head + (bytes([size + 1, 0x18]) if head == _NUMBER_HEAD else b"") + content
    try:
        found = _read_fresh(attribute)
    except DecodeError:
        with pytest.raises(DecodeError):
            KeyValue.FromString(attribute)
        return
    if found is not None:
        pair = KeyValue.FromString(attribute)
        assert found == (pair.key, _plain(pair.value))
